"""Large bodies: read before the request is answered, without holding up other requests.

`Service` reads a body of usual size itself. An error in a large body is kept until its turn comes: errors of the
credentials and of the request itself come first.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

from rtdb_emulator.errors import BadRequest
from rtdb_emulator.http.messages import Content, RestRequest, method_of
from rtdb_emulator.http.slices import in_slices
from rtdb_emulator.jsondata import NeedsServer
from rtdb_emulator.large import LARGE, reading, reading_patch
from rtdb_emulator.paths import PRIORITY, parse_url_path
from rtdb_emulator.tree import Path


async def read_large(request: RestRequest) -> RestRequest:
    """Return the request, with the content of its body in place of the body where that is large."""
    if len(request.body) < LARGE or method_of(request) not in ("PUT", "POST", "PATCH"):
        return request
    try:
        path = parse_url_path(request.path.removesuffix(".json"))
    except BadRequest:
        return request
    if path[-1:] == (PRIORITY,):
        return request
    try:
        content = await in_slices(_content(request, path))
    except NeedsServer:
        return request  # its server values are known only at the write
    except BadRequest as error:
        content = error
    return replace(request, body=b"", content=content, size=request.size)


def _content(request: RestRequest, path: Path) -> Generator[None, None, Content]:
    if method_of(request) == "PATCH":
        return (yield from reading_patch(request.body, len(path)))
    return (yield from reading(request.body, len(path) + (method_of(request) == "POST")))
