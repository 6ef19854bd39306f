"""The files of the page: read once, from the package, and served as they are."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from firecron.page.messages import Reply
from firecron.page.routes import FILES

_FOLDER = Path(__file__).parent / "static"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}


@cache
def page_file(path: str) -> Reply:
    """Return the file at this path below the mount, one of `FILES`."""
    file = _FOLDER / FILES[path]
    return Reply(200, file.read_bytes(), {"Content-Type": _TYPES[file.suffix]})
