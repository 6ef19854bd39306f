"""A look inside: the emulator's own page, which shows databases as they are now.

    http://127.0.0.1:9000/?ns=demo-firecron&path=/cron-locks

Here are the page and its files, for browsers. They hold no data: the page fetches the data, and sets it as text.
`inspector` keeps one open page up to date over its socket. The page reads a node's children a window at a time, and
writes as every client of the socket does. Every client that reaches the emulator may use the page, as it may use the
emulator.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from rtdb_emulator.http.messages import HTML, Reply

BELOW = "/.inspect/viewer/"

_TYPES = {
    "html": HTML,
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
    )
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "vary": "accept",
}


def front_page() -> Reply:
    return _reply("viewer.html")


def file(path: str) -> Reply | None:
    """Return the page's file at this path of a URL; None if there is no such file."""
    name = path.removeprefix(BELOW)
    return _reply(name) if path.startswith(BELOW) and name in _contents() else None


def _reply(name: str) -> Reply:
    return Reply(200, _contents()[name], _HEADERS, _TYPES[name.rpartition(".")[2]])


@cache
def _contents() -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in files(__package__).joinpath("static").iterdir()}
