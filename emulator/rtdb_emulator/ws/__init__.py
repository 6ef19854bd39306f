"""Protocol 5: the WebSocket that the JavaScript, Node, Java and mobile SDKs speak.

    connection  the shell: frames in, frames out, limits, silence, faults
    session     one client: a request in, an answer out; who it is, and what it listens to
    listens     all listens of a database: what each commit means for them
    windows     what a query shows, kept up to date child by child
    disconnects what a client leaves to be written when it is gone
    messages    the texts of the messages
    segments    messages cut into frames, and put together again
    queries     a query as the wire has it

Everything but `connection` and `server` is pure: no sockets, no clock, no event loop.
"""
