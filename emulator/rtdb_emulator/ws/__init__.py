"""Protocol 5: the WebSocket that the JavaScript, Node, Java and mobile SDKs speak.

    connection  the shell: frames in, frames out, limits, silence, faults
    session     one client: a request in, an answer out; its rights and its listens
    listens     all listens of a database: the messages of each commit
    windows     the children that a query shows, kept up to date child by child
    disconnects the onDisconnect writes of a client
    messages    the texts of the messages
    segments    messages cut into frames, and put together again
    queries     a query in the form of the protocol

Everything but `connection` and `server` is pure: no sockets, no clock, no event loop.
"""
