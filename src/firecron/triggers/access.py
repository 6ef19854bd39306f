"""Which callers a trigger serves: the program says it when it creates the trigger, because nothing is open by default.

Either firecron verifies the caller's OIDC token, or the program relies on Cloud Run, which has checked IAM before the
request arrives, or the program brings a verifier of its own. Of a token firecron says:

    401   no token, or an invalid one: unreadable, expired, badly signed, for another audience, from another issuer
    403   a valid token, but its e-mail address is not allowed, or Google has not verified the address
    503   Google's keys can't be fetched, so the token can't be verified

A token's times are compared with this machine's wall clock, as TLS does. They decide only whether the caller is served,
nothing about ticks. No token is ever logged or sent back.
"""

from __future__ import annotations

import json
import logging
import math
import os
import re
import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Literal, TypeAlias, TypedDict
from urllib.parse import urlsplit

from google.auth import jwt

from firecron import __version__
from firecron.base.clocks import Deadline, SystemTiming, Timing
from firecron.base.events import Events
from firecron.base.flag import in_each_process
from firecron.base.identity import find_cloud_run
from firecron.errors import ConfigurationError, Unavailable
from firecron.rtdb.failures import NoReply
from firecron.rtdb.transport import Transport
from firecron.triggers.verifier import Denial, Verifier

OneOrMore: TypeAlias = str | Iterable[str]
Algorithm: TypeAlias = Literal["RS256", "ES256"]

# In seconds.
TIMEOUT = 5.0
_CLOCK_SKEW = 10

# --- tokens that Google has signed: their signature, their audience and their times

_NOT_SIGNED = "Google has not signed this token"
# The beginnings of those of google-auth's errors that quote no part of a token that Google has not signed.
_TOLD = ("Token expired", "Token used too early", "Token has wrong audience")


class TokenVerifier:
    """Verifies tokens for these audiences, signed with one of the keys at `url` (`{key id: PEM}`) by this algorithm.

    Fetching the keys takes at most `timeout` seconds.
    """

    def __init__(self, url: str, audiences: Sequence[str], algorithm: Algorithm, *, timeout: float = TIMEOUT) -> None:
        self._audiences = list(audiences)
        self._algorithm = algorithm
        self.certificates = Certificates(url, timeout, SystemTiming())

    def claims(self, token: str) -> Mapping[str, object] | Denial:
        """Return the claims of a valid token, else the denial. A claim may have any of JSON's types."""
        try:
            # A token names its own algorithm, and google-auth would believe it.
            header = jwt.decode_header(token)  # type: ignore[no-untyped-call]  # google-auth declares no types
            if header.get("alg") != self._algorithm:
                return Denial(401, f"Google has not signed this token by {self._algorithm}")
            if not isinstance(header.get("kid"), str):
                return Denial(401, _NOT_SIGNED)
            certificates = self.certificates.get()
            claims: Mapping[str, object] = jwt.decode(  # type: ignore[no-untyped-call]  # google-auth declares no types
                token, certs=certificates, audience=self._audiences, clock_skew_in_seconds=_CLOCK_SKEW
            )
        except Unavailable as error:
            message = "Google's certificates can't be fetched now, so no token can be verified: try again later"
            return Denial(503, message, detail=str(error))
        except Exception as error:
            # A caller's text may make the parsers raise anything, and the error may quote the text.
            text = str(error)
            kind = next((beginning for beginning in _TOLD if text.startswith(beginning)), None)
            return Denial(401, _NOT_SIGNED if kind is None else text, kind=kind)
        earliest = claims.get("nbf")
        if earliest is not None and not _has_come(earliest):
            message = f"Token used too early, it is valid from {earliest!r:.40}: is this machine's clock right?"
            return Denial(401, message, kind="Token used too early")
        return claims


def _has_come(claim: object) -> bool:
    return isinstance(claim, int | float) and not isinstance(claim, bool) and claim <= time.time() + _CLOCK_SKEW


# --- Google's keys
#
# Only a token that could be Google's, by its form, its algorithm and its key's name, is worth a fetch. All threads that
# need the keys share one fetch, and one that fails is not tried again for two seconds. Only one thread waits for a
# fetch that lasts longer than a second, or that follows a recent failure: anybody can make a token of the right form,
# and the threads are few.

# In seconds.
_LONGEST_KEPT = 86_400
# For how long a failure is kept, in milliseconds.
_FAILURE_KEPT = 2_000
# For how long after that a failure counts as recent.
_FAILURE_IS_RECENT = 60_000
# For how long a thread waits for the fetch of another one, in milliseconds since the fetch began.
PATIENCE = 1_000.0


@dataclass(frozen=True, slots=True)
class _Fetched:
    """What the last fetch brought: certificates, or the problem. It counts `until` then on the monotonic clock."""

    until: float
    certificates: Mapping[str, str] = field(default_factory=dict)
    problem: str | None = None


class Certificates:
    """Google's certificates, fetched when they are needed, and kept for as long as the response's headers allow."""

    def __init__(self, url: str, timeout: float, timing: Timing) -> None:
        self._url = url
        self._timeout = timeout
        self._timing = timing
        self._last = _Fetched(-math.inf)
        in_each_process(self._begin_process)

    def _begin_process(self) -> None:
        self.transport = Transport(self._url, 1)
        self._fetching = threading.Lock()
        # When the fetch that is under way has begun.
        self._began: float | None = None

    def get(self) -> Mapping[str, str]:
        """Return the certificates by their key ids. Raise Unavailable if they can't be fetched in time."""
        last = self._last
        if self._timing.mono() >= last.until:
            if not self._fetching.acquire(timeout=self._patience(last) / 1000):
                raise Unavailable(f"Google's certificates are being fetched from {self._url}, which takes long")
            try:
                # A thread that has waited takes the other thread's result, even if that may not be kept.
                if self._last is last:
                    self._began = self._timing.mono()
                    self._last = self._fetch()
                last = self._last
            finally:
                self._began = None
                self._fetching.release()
        if last.problem is not None:
            raise Unavailable(last.problem)
        return last.certificates

    def _patience(self, last: _Fetched) -> float:
        """Return for how many milliseconds a thread may wait for the fetch of another one."""
        now, began = self._timing.mono(), self._began
        if last.problem is not None and now < last.until + _FAILURE_IS_RECENT:
            return 0.0
        return PATIENCE if began is None else max(0.0, began + PATIENCE - now)

    def _fetch(self) -> _Fetched:
        target = urlsplit(self._url)._replace(scheme="", netloc="").geturl()
        began = self._timing.mono()
        deadline = Deadline.after(self._timing, self._timeout)
        try:
            reply = self.transport.send("GET", target, {"User-Agent": f"firecron/{__version__}"}, None, deadline)
        except NoReply as error:
            return self._failed(f"Google's certificates could not be fetched from {self._url}: {error}")
        found = _certificates(reply.content) if reply.status == HTTPStatus.OK else {}
        if not found:
            return self._failed(f"{self._url} returned the status {reply.status} and no certificates")
        return _Fetched(began + _fresh_for(reply.headers) * 1000, found)

    def _failed(self, problem: str) -> _Fetched:
        return _Fetched(self._timing.mono() + _FAILURE_KEPT, problem=problem)


def _certificates(body: bytes) -> dict[str, str]:
    """Return the certificates in a reply; none if the reply is anything else."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) and all(isinstance(pem, str) for pem in found.values()) else {}


def _fresh_for(headers: Mapping[str, str]) -> int:
    """Return for how many seconds a reply may be kept."""
    control, age = headers.get("cache-control", "").lower(), headers.get("age", "0")
    most = re.search(r"\bmax-age=([0-9]{1,9})\b", control)
    if most is None or "no-store" in control or "no-cache" in control or not re.fullmatch("[0-9]{1,9}", age):
        return 0
    return min(int(most[1]) - int(age), _LONGEST_KEPT)


# --- OIDC tokens as Cloud Scheduler sends them: signed by Google for this service and an allowed account

GOOGLE_CERTIFICATES = "https://www.googleapis.com/oauth2/v1/certs"
GOOGLE_ISSUERS = frozenset({"accounts.google.com", "https://accounts.google.com"})

# Where a service requires authentication, Cloud Run verifies the token itself and replaces its signature by this.
_REMOVED = "SIGNATURE_REMOVED_BY_GOOGLE"


class OidcVerifier:
    """A verifier of Google's OIDC tokens for these audiences and e-mail addresses.

    `certs_url` serves the certificates in Google's form, `{key id: PEM}`. Fetching them takes at most `timeout`
    seconds.
    """

    def __init__(
        self,
        audiences: Sequence[str],
        emails: Collection[str],
        *,
        certs_url: str = GOOGLE_CERTIFICATES,
        timeout: float = TIMEOUT,
    ) -> None:
        self._emails = frozenset(emails)
        self.tokens = TokenVerifier(certs_url, audiences, "RS256", timeout=timeout)

    def and_for(self, emails: Collection[str]) -> OidcVerifier:
        """Return a verifier for these e-mail addresses as well, with the same certificates."""
        wider = copy(self)
        wider._emails = self._emails.union(emails)
        return wider

    def check(self, authorization: str | None) -> Denial | None:
        """Return None if the token is valid and its account allowed, else the denial."""
        found = self.identify(authorization)
        return found if isinstance(found, Denial) else None

    def identify(self, authorization: str | None) -> str | Denial:
        """Return the e-mail address of a valid token of an allowed account, else the denial."""
        scheme, _, token = (authorization or "").strip().partition(" ")
        token = token.strip()
        if not authorization:
            return Denial(401, "the request has no token: send an OIDC token in the header Authorization, as a Bearer")
        if scheme.lower() != "bearer" or not token:
            return Denial(401, "the Authorization header has the wrong form: send the word Bearer, and an OIDC token")
        if token.endswith(_REMOVED):
            return Denial(
                401,
                "Cloud Run has verified this token and removed its signature: this service requires authentication, "
                "so create the trigger with trust_cloud_run_iam=True",
            )
        claims = self.tokens.claims(token)
        return claims if isinstance(claims, Denial) else self._check_claims(claims)

    def _check_claims(self, claims: Mapping[str, object]) -> str | Denial:
        """Check the claims that every signed token of Google's may differ in."""
        issuer, email = claims.get("iss"), claims.get("email")
        if not isinstance(issuer, str) or issuer not in GOOGLE_ISSUERS:
            return Denial(401, "the token's issuer is not Google")
        if not isinstance(email, str) or email not in self._emails:
            who = f"the address {email}" if isinstance(email, str) else "a token without an e-mail address"
            message = f"{who} may not trigger jobs here: only the addresses in the trigger's email= may"
            return Denial(403, message, kind="another address")
        if claims.get("email_verified") is not True:
            return Denial(403, f"Google has not verified the address {email}", kind="an address that is not verified")
        return email


# --- what the arguments of a trigger ask for


class CloudRunIam:
    """A verifier that serves every request, because Cloud Run has checked IAM.

    Creating it outside of a Cloud Run service logs a WARNING.
    """

    def __init__(self, events: Events, environment: Mapping[str, str] = os.environ) -> None:
        place = find_cloud_run(environment)
        if place is None or place.kind != "service":
            message = (
                "A trigger was created with trust_cloud_run_iam=True, but this is not a Cloud Run service (K_SERVICE "
                "is not set): every caller that reaches its port can run jobs"
            )
            events.emit("trigger.open", "firecron", logging.WARNING, message)

    def check(self, authorization: str | None) -> Denial | None:
        return None


class TriggerOptions(TypedDict, total=False):
    """The arguments of `trigger_app`, for those that make the same trigger of another framework."""

    audience: OneOrMore | None
    email: OneOrMore | None
    trust_cloud_run_iam: bool
    verifier: Verifier | None
    health_email: OneOrMore | None


@dataclass(frozen=True, slots=True)
class TriggerAccess:
    """Which callers a trigger serves: the verifier for `/health`, and the one for all else."""

    all: Verifier
    health: Verifier


def choose_access(
    events: Events,
    *,
    audience: OneOrMore | None = None,
    email: OneOrMore | None = None,
    trust_cloud_run_iam: bool = False,
    verifier: Verifier | None = None,
    health_email: OneOrMore | None = None,
) -> TriggerAccess:
    """Return the access that the arguments of `trigger_app` ask for.

    Raise ConfigurationError unless they ask for exactly one: OIDC tokens, Cloud Run's IAM, or a verifier of their own.
    """
    wishes = [audience is not None or email is not None, trust_cloud_run_iam, verifier is not None]
    if wishes.count(True) != 1:
        said = "doesn't say" if not any(wishes) else "says in more than one way"
        raise ConfigurationError(
            f"the trigger {said} which callers it serves: give either audience= and email= (of the service account "
            "that Cloud Scheduler uses) to have its OIDC tokens verified, or trust_cloud_run_iam=True if the service "
            "requires authentication on Cloud Run, or a verifier= of your own"
        )
    chosen = verifier
    if chosen is None:
        chosen = CloudRunIam(events) if trust_cloud_run_iam else make_oidc(audience, email)
    if health_email is None:
        return TriggerAccess(chosen, chosen)
    if not isinstance(chosen, OidcVerifier):
        raise ConfigurationError(
            f"health_email={health_email!r} names accounts whose OIDC tokens are verified, so it needs audience= and "
            "email=. Where IAM or a verifier of your own decides, let that account in there"
        )
    return TriggerAccess(chosen, chosen.and_for(_emails("health_email", health_email)))


def make_oidc(audience: OneOrMore | None, email: OneOrMore | None) -> OidcVerifier:
    """Return the verifier of OIDC tokens. Raise ConfigurationError unless both are given."""
    if audience is None or email is None:
        missing, why = (
            ("audience", "a token for another service would be accepted")
            if audience is None
            else ("email", "everybody with a Google account can get a token for any audience")
        )
        raise ConfigurationError(f"{missing}= is missing: without it {why}. Give both audience= and email=")
    return OidcVerifier(texts("audience", audience), _emails("email", email))


def _emails(name: str, given: OneOrMore) -> tuple[str, ...]:
    emails = texts(name, given)
    for one in emails:
        if "@" not in one:
            raise ConfigurationError(
                f"{name}={one!r} is not an e-mail address: give a service account's address, such as "
                "scheduler@my-project.iam.gserviceaccount.com"
            )
    return emails


def texts(name: str, given: OneOrMore) -> tuple[str, ...]:
    """Return one text or several as several. Raise ConfigurationError, which names the argument, for an empty one."""
    found = (given,) if isinstance(given, str) else tuple(given)
    if not found or not all(text.strip() for text in found):
        raise ConfigurationError(f"{name}={given!r} is empty or has an empty text: give one text or several")
    return found
