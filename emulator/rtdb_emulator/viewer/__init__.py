"""A look inside: the emulator's own page, which shows databases as they are now.

    http://127.0.0.1:9000/?ns=demo-firecron&path=/cron-locks

`pages` serves the static files, `windows` cuts what a page shows out of a tree, `inspector` keeps one open page up to
date over its socket. The page reads a node's children a window at a time, whatever lies below them, and writes as any
other client of the socket does. It trusts whoever reaches the emulator, as all of the emulator does.
"""
