"""A REST request and the answers to it, without sockets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from rtdb_emulator.database import Access, Database
from rtdb_emulator.jsondata import encode
from rtdb_emulator.streaming import View

JSON = "application/json; charset=utf-8"
TEXT = "text/plain; charset=utf-8"
SCRIPT = "application/javascript; charset=utf-8"

CORS = {"access-control-allow-origin": "*", "access-control-expose-headers": "ETag"}


@dataclass(frozen=True, slots=True)
class RestRequest:
    """`path` is still percent-encoded, `headers` have lower-case names, `parameters` are decoded.

    `rules_first`, which only a fault sets, has a conditional write's rules asked before its ETag is compared.
    """

    method: str
    path: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    rules_first: bool = False


@dataclass(frozen=True, slots=True)
class Reply:
    """One whole answer; `pause` is how long to wait before each of its bytes."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = JSON
    pause: float = 0.0


@dataclass(frozen=True, slots=True)
class Stream:
    """An answer without end: what changes in `view`, for as long as `access` may read it."""

    database: Database
    view: View
    access: Access


Answer: TypeAlias = Reply | Stream


def error_reply(status: int, text: str) -> Reply:
    return Reply(status, encode({"error": text}, pretty=True))
