"""A REST request and the answers to it, without sockets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from rtdb_emulator.database import Access, Database
from rtdb_emulator.errors import BadRequest
from rtdb_emulator.jsondata import encode
from rtdb_emulator.rules.explain import Refused
from rtdb_emulator.streaming import View
from rtdb_emulator.tree import Node

JSON = "application/json; charset=utf-8"
TEXT = "text/plain; charset=utf-8"
HTML = "text/html; charset=utf-8"
SCRIPT = "application/javascript; charset=utf-8"

# The node of a PUT or POST, the values of a PATCH by their paths, or the error in them.
Content: TypeAlias = Node | dict[str, object] | BadRequest

CORS = {"access-control-allow-origin": "*", "access-control-expose-headers": "ETag"}


@dataclass(frozen=True, slots=True)
class RestRequest:
    """`path` is still percent-encoded, `headers` have lower-case names, `parameters` are decoded.

    `content` is the content of a large body, and `body` is empty then; `size` is the size of the body in bytes. With
    `rules_first`, which only a fault sets, the rules of a conditional write are evaluated before its ETag is compared.
    """

    method: str
    path: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | bytearray = b""
    rules_first: bool = False
    content: Content | None = None
    size: int = -1

    def __post_init__(self) -> None:
        if self.size < 0:
            object.__setattr__(self, "size", len(self.body))


def method_of(request: RestRequest) -> str:
    """Return the method that the client means: a POST may name another one."""
    if request.method != "POST":
        return request.method
    override = request.headers.get("x-http-method-override") or request.parameters.get("x-http-method-override")
    return (override or request.method).upper()


@dataclass(frozen=True, slots=True)
class Reply:
    """One whole answer; `pause` is the seconds to wait before each of its bytes.

    `shown` is a large node, whose JSON is made while it is sent; `refused` is the operation that the rules have denied.
    """

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = JSON
    pause: float = 0.0
    shown: Node | None = None
    refused: Refused | None = None


@dataclass(frozen=True, slots=True)
class Stream:
    """An answer without end: the changes in `view`, as long as `access` may read it."""

    database: Database
    view: View
    access: Access


Answer: TypeAlias = Reply | Stream


def error_reply(status: int, text: str) -> Reply:
    return Reply(status, encode({"error": text}, pretty=True))
