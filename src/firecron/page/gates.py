"""Which visitors a page serves: the program says it when it creates the page, because nothing is open by default.

A gate returns the visitor's `Access`, or the `Denial` of the request. All gates but the program's own function allow a
visitor whom they know to act as well; a page with `read_only` takes that back.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine
from inspect import iscoroutinefunction
from typing import Literal, Protocol, TypeAlias, TypedDict

from firecron.base.events import Events
from firecron.errors import ConfigurationError
from firecron.page.basic import BasicGate
from firecron.page.iap import IapGate
from firecron.page.messages import PageRequest
from firecron.page.visitor import Access, Visitor
from firecron.triggers.access import OneOrMore, make_oidc, texts
from firecron.triggers.oidc import OidcVerifier
from firecron.triggers.verifier import Denial

AccessFunction: TypeAlias = Callable[[Visitor], "Access | Awaitable[Access | None] | None"]
Admission: TypeAlias = "Access | Denial"


class Ways(TypedDict, total=False):
    """Those of the arguments of `status_app` that say whom the page serves."""

    access: AccessFunction | None
    basic: tuple[str, str] | None
    iap_audience: OneOrMore | None
    audience: OneOrMore | None
    email: OneOrMore | None
    open_to_all: Literal["read"] | None


class PageOptions(Ways, total=False):
    """The arguments of `status_app`, for those that make the same page of another framework."""

    read_only: bool
    open_health: bool


class Gate(Protocol):
    """Decides about each request. It is called on many threads at the same time."""

    @property
    def challenge(self) -> str | None:
        """The header WWW-Authenticate of a 401; None without one."""

    def check(self, request: PageRequest) -> Admission | Awaitable[Admission]:
        """Return who the visitor is, or why the request is not served; an awaitable only under ASGI."""


class OwnGate:
    """The program's own function, `access`. It may be async where the framework can wait for it."""

    challenge = None

    def __init__(self, access: AccessFunction, *, may_wait: bool = True) -> None:
        if iscoroutinefunction(access) and not may_wait:
            raise ConfigurationError("access= is an async function, which only status_app (ASGI) can wait for")
        self._access = access
        self._may_wait = may_wait

    def check(self, request: PageRequest) -> Admission | Awaitable[Admission]:
        found = self._access(request.visitor)
        if not isinstance(found, Awaitable):
            return _admitted(found)
        if self._may_wait:
            return self._later(found)
        if isinstance(found, Coroutine):
            found.close()  # else Python complains as well that nobody has waited for it
        raise TypeError("access returned an awaitable, which only status_app (ASGI) can wait for")

    async def _later(self, coming: Awaitable[Access | None]) -> Admission:
        return _admitted(await coming)


class OidcGate:
    """OIDC tokens of Google's accounts, as Cloud Monitoring's uptime checks send them."""

    challenge = "Bearer"

    def __init__(self, verifier: OidcVerifier) -> None:
        self._verifier = verifier

    def check(self, request: PageRequest) -> Admission:
        found = self._verifier.identify(request.headers.get("authorization"))
        return found if isinstance(found, Denial) else Access(found, can_act=True)


class OpenGate:
    """Everybody may look, nobody may act."""

    challenge = None

    def check(self, request: PageRequest) -> Admission:
        return Access("anybody")


def choose_gate(
    events: Events,
    *,
    may_wait: bool = True,
    access: AccessFunction | None = None,
    basic: tuple[str, str] | None = None,
    iap_audience: OneOrMore | None = None,
    audience: OneOrMore | None = None,
    email: OneOrMore | None = None,
    open_to_all: Literal["read"] | None = None,
) -> Gate:
    """Return the gate that the arguments of `status_app` ask for. Raise ConfigurationError unless it is exactly one.

    `may_wait` is false where nothing can wait for an async `access`.
    """
    has_oidc = audience is not None or email is not None
    ways = [access is not None, basic is not None, iap_audience is not None, has_oidc, open_to_all is not None]
    if ways.count(True) != 1:
        said = "doesn't say" if not any(ways) else "says in more than one way"
        raise ConfigurationError(
            f"the page {said} whom it serves: give either access= (a function), or basic=(user, password), or "
            'iap_audience=, or audience= and email= (OIDC tokens), or open_to_all="read"'
        )
    if access is not None:
        if not callable(access):
            raise ConfigurationError(f"access={access!r} can't be called: give a function of a Visitor")
        return OwnGate(access, may_wait=may_wait)
    if basic is not None:
        return BasicGate(basic, events)
    if iap_audience is not None:
        return IapGate(texts("iap_audience", iap_audience))
    if has_oidc:
        return OidcGate(make_oidc(audience, email))
    if open_to_all != "read":
        raise ConfigurationError(
            f'open_to_all={open_to_all!r} is not known: "read" lets everybody look, and nobody act'
        )
    events.emit(
        "page.open", "firecron", logging.INFO, "The page shows all jobs to every visitor that reaches it; none can act"
    )
    return OpenGate()


def _admitted(found: object) -> Admission:
    # A program without types may give anything for a name.
    who: object = found.who if isinstance(found, Access) else None
    if isinstance(found, Access) and isinstance(who, str) and who.strip():
        return found
    if found is None:
        return Denial(403, "you may not see this page")
    raise TypeError(f"access returned {found!r:.80}: it must return an Access with a name, or None")
