"""The log of requests, so that tests can count them, and which requests fit the criteria of a count or a fault."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal, TypeAlias, TypedDict, Unpack

Wire: TypeAlias = Literal["http", "socket"]


@dataclass(frozen=True, slots=True)
class RequestFacts:
    """The facts of a request: `path` is decoded, without `.json`; header names are lower-case; `port` received it.

    A socket's opening is a request, and so is each message of its client that asks for something. They have the
    parameters and headers of the handshake.
    """

    method: str
    path: str
    namespace: str
    parameters: dict[str, str]
    headers: dict[str, str]
    port: int
    wire: Wire = "http"


class Criteria(TypedDict, total=False):
    """The facts that a request must have: `path` may have wildcards ("/cron-locks/*"), `header` is name and value."""

    method: str
    path: str
    namespace: str
    header: tuple[str, str]
    port: int
    wire: Wire


def check(criteria: Criteria, known: frozenset[str] = frozenset(Criteria.__annotations__)) -> None:
    """Raise TypeError or ValueError for criteria that would match everything, or nothing, without a word: an unknown
    name, or a method or path in another form.
    """
    unknown = set(criteria) - known
    if unknown:
        raise TypeError(f"there is no criterion {', '.join(sorted(unknown))}; there are {', '.join(sorted(known))}")
    if not criteria.get("path", "/").startswith("/"):
        raise ValueError(f"path={criteria['path']!r} must begin with a slash")
    if criteria.get("wire", "http") not in ("http", "socket"):
        raise ValueError(f"wire={criteria['wire']!r} must be http or socket")
    if criteria.get("method", "") != criteria.get("method", "").upper():
        raise ValueError(f"method={criteria['method']!r} must be in capitals")


def fits(criteria: Criteria, request: RequestFacts) -> bool:
    """Return whether a request agrees with all criteria."""
    if "header" in criteria:
        name, value = criteria["header"]
        if request.headers.get(name.lower()) != value:
            return False
    return (
        criteria.get("method", request.method) == request.method
        and criteria.get("namespace", request.namespace) == request.namespace
        and criteria.get("port", request.port) == request.port
        and criteria.get("wire", request.wire) == request.wire
        and ("path" not in criteria or fnmatchcase(request.path, criteria["path"]))
    )


# --- the log


@dataclass(slots=True)
class LoggedRequest:
    """One request: its facts, its size on the wire, and its result.

    The bytes are HTTP's (heads and bodies), without TCP and TLS; of a stream's answer only the head counts.

    Args:
        facts: The method, path, namespace, parameters, headers and port.
        request_bytes: The size of the request.
        status: The status of the answer; None before the answer, and for a dropped request.
        response_bytes: The size of the answer; 0 before the answer, and for a dropped request.
    """

    facts: RequestFacts
    request_bytes: int
    status: int | None = None
    response_bytes: int = 0

    @property
    def method(self) -> str:
        """The method, in capitals."""
        return self.facts.method

    @property
    def namespace(self) -> str:
        """The name of the database."""
        return self.facts.namespace

    @property
    def path(self) -> str:
        """The path, decoded and without `.json`."""
        return self.facts.path


class Forgotten(RuntimeError):
    """The log has dropped requests that would count: call `clear()` before the part of the test that counts."""


class RequestLog:
    """The newest requests in the order of their arrival; iterate, index, `count` or `clear` it from any thread.

    Args:
        limit: The number of requests that it holds.
    """

    def __init__(self, limit: int = 10_000) -> None:
        self._lock = threading.Lock()
        self._requests: deque[LoggedRequest] = deque(maxlen=limit)
        self._forgotten = 0

    def add(self, request: LoggedRequest) -> None:
        with self._lock:
            self._forgotten += len(self._requests) == self._requests.maxlen
            self._requests.append(request)

    def clear(self) -> None:
        """Forget all requests."""
        with self._lock:
            self._requests.clear()
            self._forgotten = 0

    def matching(self, **criteria: Unpack[Criteria]) -> list[LoggedRequest]:
        """Return the requests that fit: `log.matching(method="PUT", path="/cron-locks/*")`. Raises Forgotten.

        Args:
            criteria: `method`, `path`, `namespace`, `header` (name and value), `port` and `wire`; a request fits if it
                agrees with all that are given.
        """
        check(criteria)
        with self._lock:
            if self._forgotten:
                raise Forgotten(
                    f"the {self._forgotten} oldest requests are no longer in the log: "
                    "call clear() before the part to count"
                )
            return [request for request in self._requests if fits(criteria, request.facts)]

    def count(self, **criteria: Unpack[Criteria]) -> int:
        """Return how many requests fit. Raises Forgotten.

        Args:
            criteria: As with `matching`.
        """
        return len(self.matching(**criteria))

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Iterator[LoggedRequest]:
        with self._lock:
            return iter(tuple(self._requests))

    def __getitem__(self, index: int) -> LoggedRequest:
        with self._lock:
            return self._requests[index]
