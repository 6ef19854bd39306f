"""Protocol 5: the WebSocket that the JavaScript, Node, Java and mobile SDKs speak.

    server      all sockets of an emulator: handshakes, sessions by their ids, the end of all
    connection  one socket: frames in, limits, silence, faults, and its way out
    requests    one request, from its arrival to its answer
    session     one client: its rights, its listens, its onDisconnect writes
    listens     all listens of a database: the messages of each commit, the windows of queries
    messages    the texts of the messages, the queries in them, the frames that carry them

`session`, `listens` and `messages` are pure: no sockets, no clock, no event loop.
"""
