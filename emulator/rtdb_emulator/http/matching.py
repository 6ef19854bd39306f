"""Which requests a fault or a count means."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal, TypeAlias, TypedDict

Wire: TypeAlias = Literal["http", "socket"]


@dataclass(frozen=True, slots=True)
class RequestFacts:
    """What a request is known by: `path` is decoded, without `.json`; header names are lower-case; `port` took it.

    Over a socket, each request of its client is one, and so is its opening; parameters and headers are the handshake's.
    """

    method: str
    path: str
    namespace: str
    parameters: dict[str, str]
    headers: dict[str, str]
    port: int
    wire: Wire = "http"


class Criteria(TypedDict, total=False):
    """What may be asked of a request: `path` may have wildcards ("/cron-locks/*"), `header` is name and value."""

    method: str
    path: str
    namespace: str
    header: tuple[str, str]
    port: int
    wire: Wire


def check(criteria: Criteria, known: frozenset[str] = frozenset(Criteria.__annotations__)) -> None:
    """Refuse what would silently match everything, or nothing: a word that means nothing, a method or path in another
    form.
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
    """Whether a request agrees in everything that is asked."""
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
