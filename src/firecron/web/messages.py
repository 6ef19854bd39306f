"""A request and its reply, the same for every framework, and for the triggers and the page, which are the sites. Pure.

    door    makes a `Request` of what its framework has, and sends the `Reply`: `firecron.web.doors`
    site    makes the reply, in two steps, which both may block: the triggers' `Handler`, the page's `Desk`

        receive    who asks, and for what: whoever is refused gets a `Reply` at once, and a request that is served
                   becomes `Work`
        do         the work: what it reads of the database, or a run until its end

The steps are two, because the threads of a door are few: a refusal must not wait until the jobs of others have ended.
A site decides, and knows no framework. A door carries out, and decides nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Literal, Protocol, TypeAlias

MOST_BODY = 65_536


class Headers(Mapping[str, str]):
    """The headers of a request, by names in upper or lower case. The values of a repeated header are joined."""

    def __init__(self, pairs: Iterable[tuple[str, str]] = ()) -> None:
        self._values: dict[str, str] = {}
        for name, value in pairs:
            key = name.lower()
            self._values[key] = f"{self._values[key]}, {value}" if key in self._values else value

    def __getitem__(self, name: str) -> str:
        return self._values[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


@dataclass(frozen=True, slots=True)
class Request:
    """The parts of a request that a site needs.

    `path` is the decoded path below the mount; it is empty for the mount without its slash. `full_path` is the path
    with the mount. `original` is the framework's own request.
    """

    method: str
    path: str
    headers: Headers = field(default_factory=Headers)
    query: str = ""
    full_path: str = ""
    scheme: str = "http"
    original: object = None


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP response. In reply to HEAD the door leaves the body out."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


def all_headers(reply: Reply) -> dict[str, str]:
    """Return the headers, with the body's length. A 304 has none: it would be that of the 200."""
    length = {} if reply.status == HTTPStatus.NOT_MODIFIED else {"Content-Length": str(len(reply.body))}
    return {**reply.headers, **length}


# The threads of a door, in sets: so the page opens while all readers wait for a database that doesn't reply, and is
# read while all workers run jobs.
Threads: TypeAlias = Literal["receiving", "reading", "running"]


@dataclass(frozen=True, slots=True)
class Work:
    """What is left to do of a request that is served.

    `do` returns the reply, and doesn't raise. It gets the body if `has_body`: None for one of more than `MOST_BODY`
    bytes, and an empty one if it has not come whole, because half of a wish is none. Where a door can send a stream, it
    sends one instead for work that `is_stream`.
    """

    do: Callable[[bytes | None], Reply]
    threads: Threads = "running"
    has_body: bool = False
    is_stream: bool = False


Received: TypeAlias = Reply | Work


class Site(Protocol):
    """What a door serves. It is called on many threads at the same time."""

    def receive(self, request: Request) -> Received | Awaitable[Received]:
        """Return the reply, or the work that returns it. Don't raise. An awaitable is only for a door of ASGI."""
