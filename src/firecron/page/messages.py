"""A request to the page, and its reply, the same for every framework. Pure."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from firecron.base.redaction import redacted
from firecron.page.visitor import Headers, Visitor

_WORTH_IT = 1_000
_LEVEL = 4
_GZIP = re.compile(r"\bgzip\b(?!\s*;\s*q=0(?:\.0*)?\s*(?:,|$))")


@dataclass(frozen=True, slots=True)
class PageRequest:
    """The parts of a request that the page needs.

    `path` is the decoded path below the mount; it is empty for the mount without its slash. `full_path` is the path
    with the mount. `original` is the framework's own request.
    """

    method: str
    path: str
    headers: Headers
    query: str = ""
    full_path: str = ""
    scheme: str = "http"
    original: object = None

    @property
    def visitor(self) -> Visitor:
        return Visitor(self.method, self.path, self.headers, self.original)


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP response. The shell sends no body in reply to HEAD."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


def compressed(reply: Reply, accepted: str) -> Reply:
    """Return the response by gzip, if the client accepts that (`Accept-Encoding`) and it is worth it."""
    if len(reply.body) < _WORTH_IT or not _GZIP.search(accepted):
        return reply
    # Without a time in it, the same body is the same bytes.
    body = gzip.compress(reply.body, _LEVEL, mtime=0)
    return replace(reply, body=body, headers={**reply.headers, "Content-Encoding": "gzip", "Vary": "Accept-Encoding"})


def as_json(status: int, body: object, headers: Mapping[str, str] | None = None) -> Reply:
    """Return a response with this body."""
    encoded = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    return Reply(status, encoded, {"Content-Type": "application/json", **(headers or {})})


def problem(status: int, error: str, message: str, headers: Mapping[str, str] | None = None) -> Reply:
    """Return the response that says why something was not done. An error of the database may quote a secret."""
    return as_json(status, {"error": error, "message": redacted(message)}, headers)
