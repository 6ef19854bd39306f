"""Which requests fit the criteria of a fault or a count."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal, TypeAlias, TypedDict

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
