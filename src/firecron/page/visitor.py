"""The visitors of the page: `access` is called with a `Visitor` and returns an `Access`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass


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
class Visitor:
    """A request for the page, for the function `access` that decides who is served.

    Args:
        method: The method, such as `GET`.
        path: The path below the mount, such as `/api/jobs`.
        headers: The headers. Upper and lower case are the same in their names.
        request: The framework's own request: Starlette's or FastAPI's `Request`, Flask's `request`, Django's
            `HttpRequest`; under ASGI without Starlette the scope.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    request: object


@dataclass(frozen=True, slots=True)
class Access:
    """What a visitor of the page may do: look, and with `can_act` also run, pause, resume, unlock and cancel.

    Args:
        who: The visitor's name, such as an e-mail address. It stands beside what the visitor does.
        can_act: Whether the visitor may do more than look.
    """

    who: str
    can_act: bool = False
