"""Which visitors a page serves: the program says it when it creates the page, because nothing is open by default.

An authenticator returns the visitor's `Access`, or the `Denial` of the request. All but the program's own function
allow a visitor whom they know to act as well; a page with `read_only` takes that back.

    access          the program's own function decides
    basic           one user with one password: as safe as the connection, so without TLS the log has a WARNING
    iap_audience    Identity-Aware Proxy has authenticated the visitor. Who may pass is decided there
    audience        with `email`: OIDC tokens of Google's accounts, as Cloud Monitoring's uptime checks send them
    open_to_all     everybody may look, nobody may act
"""

from __future__ import annotations

import binascii
import hmac
import logging
from base64 import b64decode
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from hashlib import sha256
from inspect import iscoroutinefunction
from typing import Literal, Protocol, TypeAlias, TypedDict

from firecron.base.events import Events
from firecron.errors import ConfigurationError
from firecron.page.messages import Access, Visitor, is_encrypted
from firecron.triggers.access import TIMEOUT, OidcVerifier, OneOrMore, TokenVerifier, make_oidc, texts
from firecron.triggers.verifier import Denial
from firecron.web import SiteRequest

Admission: TypeAlias = Access | Denial
AccessFunction: TypeAlias = Callable[[Visitor], Access | Awaitable[Access | None] | None]


class AccessOptions(TypedDict, total=False):
    """Those of the arguments of `status_app` that say whom the page serves."""

    access: AccessFunction | None
    basic: tuple[str, str] | None
    iap_audience: OneOrMore | None
    audience: OneOrMore | None
    email: OneOrMore | None
    open_to_all: Literal["read"] | None


class PageOptions(AccessOptions, total=False):
    """The arguments of `status_app`, for those that make the same page of another framework."""

    read_only: bool
    open_health: bool


class Authenticator(Protocol):
    """Decides about each request. It is called on many threads at the same time.

    `challenge` is the header WWW-Authenticate of a 401; None without one.
    """

    challenge: str | None = None

    def check(self, request: SiteRequest) -> Admission | Awaitable[Admission]:
        """Return who the visitor is, or why the request is not served; an awaitable only under ASGI."""


class OwnAuthenticator(Authenticator):
    """The program's own function, `access`. It may be async where the framework can wait for it."""

    def __init__(self, access: AccessFunction, *, may_wait: bool = True) -> None:
        if iscoroutinefunction(access) and not may_wait:
            raise ConfigurationError("access= is an async function, which only status_app (ASGI) can wait for")
        self._access = access
        self._may_wait = may_wait

    def check(self, request: SiteRequest) -> Admission | Awaitable[Admission]:
        found = self._access(Visitor(request.method, request.path, request.headers, request.original))
        if not isinstance(found, Awaitable):
            return _admitted(found)
        if self._may_wait:
            return self._later(found)
        if isinstance(found, Coroutine):
            found.close()  # else Python complains as well that nobody has waited for it
        raise TypeError("access returned an awaitable, which only status_app (ASGI) can wait for")

    async def _later(self, coming: Awaitable[Access | None]) -> Admission:
        return _admitted(await coming)


def _admitted(found: object) -> Admission:
    # A program without types may give anything for a name.
    who: object = found.who if isinstance(found, Access) else None
    if isinstance(found, Access) and isinstance(who, str) and who.strip():
        return found
    if found is None:
        return Denial(403, "you may not see this page")
    raise TypeError(f"access returned {found!r:.80}: it must return an Access with a name, or None")


class BasicAuthenticator(Authenticator):
    """Admits the one user who knows the password. The comparison takes the same time whatever was sent."""

    challenge = 'Basic realm="firecron", charset="UTF-8"'

    def __init__(self, basic: tuple[str, str], events: Events) -> None:
        self._user, password = _checked(basic)
        # A variable's bytes that are no UTF-8 are what a browser has to send.
        self._expected = _digest(f"{self._user}:{password}".encode("utf-8", "surrogateescape"))
        self._events = events
        self._has_warned = False

    def check(self, request: SiteRequest) -> Access | Denial:
        if not self._has_warned and not is_encrypted(request):
            self._has_warned = True
            message = (
                "The page's password comes over a connection without TLS; on a network others can read it: serve the "
                "page by https, or behind a proxy that sets X-Forwarded-Proto"
            )
            self._events.emit("page.insecure", "firecron", logging.WARNING, message)
        scheme, _, sent = request.headers.get("authorization", "").strip().partition(" ")
        if scheme.lower() != "basic":
            return Denial(401, "this page asks for a user and a password")
        try:
            given = b64decode(sent.strip(), validate=True)
        except (binascii.Error, ValueError):
            return Denial(401, "the Authorization header has the wrong form: send the word Basic, and base64")
        if not hmac.compare_digest(_digest(given), self._expected):
            return Denial(401, "the user or the password is wrong")
        return Access(self._user, can_act=True)


def _digest(text: bytes) -> bytes:
    """Return a digest, so that all compared values have the same length."""
    return sha256(text).digest()


def _checked(basic: object) -> tuple[str, str]:
    match basic:
        case (str(user), str(password)) if user.strip() and password.strip() and ":" not in user:
            return user, password
        case (str(user), str()):
            raise ConfigurationError(
                f"basic=({user!r}, …) needs a user without a colon, and a password that is not blank"
            )
        case _:
            raise ConfigurationError("basic= needs a pair of texts: (user, password)")


IAP_KEYS = "https://www.gstatic.com/iap/verify/public_key"
IAP_ISSUER = "https://cloud.google.com/iap"
HEADER = "x-goog-iap-jwt-assertion"


class IapAuthenticator(Authenticator):
    """Admits those whom Identity-Aware Proxy has let pass to these audiences: it says so in a signed header.

    The other headers of the proxy are plain text, which anybody can send who reaches the service past the proxy.
    `keys_url` serves IAP's keys, `{key id: PEM}`.
    """

    def __init__(self, audiences: Sequence[str], *, keys_url: str = IAP_KEYS, timeout: float = TIMEOUT) -> None:
        self.tokens = TokenVerifier(keys_url, audiences, "ES256", timeout=timeout)

    def check(self, request: SiteRequest) -> Access | Denial:
        token = request.headers.get(HEADER, "").strip()
        if not token:
            return Denial(403, "the request has not come through Identity-Aware Proxy")
        claims = self.tokens.claims(token)
        if isinstance(claims, Denial):
            return claims
        email, subject = claims.get("email"), claims.get("sub")
        if claims.get("iss") != IAP_ISSUER:
            return Denial(401, "the assertion's issuer is not Identity-Aware Proxy")
        who = email if isinstance(email, str) and email else subject
        if not isinstance(who, str) or not who:
            return Denial(403, "the assertion names nobody")
        return Access(who, can_act=True)


class OidcAuthenticator(Authenticator):
    """OIDC tokens of Google's accounts, as Cloud Monitoring's uptime checks send them."""

    challenge = "Bearer"

    def __init__(self, verifier: OidcVerifier) -> None:
        self._verifier = verifier

    def check(self, request: SiteRequest) -> Admission:
        found = self._verifier.identify(request.headers.get("authorization"))
        return found if isinstance(found, Denial) else Access(found, can_act=True)


class OpenAuthenticator(Authenticator):
    """Everybody may look, nobody may act."""

    def check(self, request: SiteRequest) -> Admission:
        return Access("anybody")


def choose_authenticator(
    events: Events,
    *,
    may_wait: bool = True,
    access: AccessFunction | None = None,
    basic: tuple[str, str] | None = None,
    iap_audience: OneOrMore | None = None,
    audience: OneOrMore | None = None,
    email: OneOrMore | None = None,
    open_to_all: Literal["read"] | None = None,
) -> Authenticator:
    """Return the authenticator that the arguments of `status_app` ask for. Raise ConfigurationError unless it is
    exactly one.

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
        return OwnAuthenticator(access, may_wait=may_wait)
    if basic is not None:
        return BasicAuthenticator(basic, events)
    if iap_audience is not None:
        return IapAuthenticator(texts("iap_audience", iap_audience))
    if has_oidc:
        return OidcAuthenticator(make_oidc(audience, email))
    if open_to_all != "read":
        raise ConfigurationError(
            f'open_to_all={open_to_all!r} is not known: "read" lets everybody look, and nobody act'
        )
    events.emit(
        "page.open", "firecron", logging.INFO, "The page shows all jobs to every visitor that reaches it; none can act"
    )
    return OpenAuthenticator()
