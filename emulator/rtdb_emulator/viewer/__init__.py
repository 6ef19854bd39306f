"""A look inside: the emulator's own page, which shows databases as they are now.

    http://127.0.0.1:9000/?ns=demo-firecron&path=/cron-locks

`pages` serves the static files, `windows` cuts the page's part out of a tree, `inspector` keeps one open page up to
date over its socket. The page reads a node's children a window at a time, and writes as every client of the socket
does. Every client that reaches the emulator may use the page, as it may use the emulator.
"""
