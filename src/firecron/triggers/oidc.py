"""Tokens as Cloud Scheduler sends them: signed by Google, for this service, in the name of an allowed service account.

    401   no token, or none of Google's: garbage, expired, for another audience, from another issuer, badly signed
    403   Google vouches for the caller, who is not one of the allowed, or whose address is not verified
    503   Google's certificates can't be had, so nobody can tell

The certificates are fetched once, and kept for as long as Google says. A token's times are compared with this machine's
wall clock, as TLS does; they let a caller in and decide nothing about ticks. No token is ever logged or answered back.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Collection, Mapping, Sequence
from http import HTTPStatus
from http.client import HTTPMessage
from urllib.parse import urlsplit

from google.auth import jwt

from firecron import __version__
from firecron.base.clocks import Deadline, SystemTiming, Timing
from firecron.base.forks import tell_after_fork
from firecron.errors import Unavailable
from firecron.rtdb.transport import NoReply, Reply, Transport
from firecron.triggers.verifier import Denial

GOOGLE_CERTIFICATES = "https://www.googleapis.com/oauth2/v1/certs"
GOOGLE_ISSUERS = frozenset({"accounts.google.com", "https://accounts.google.com"})

_CLOCK_SKEW = 10
_TIMEOUT = 5.0
_LONGEST_KEPT = 86_400
_POOL_SIZE = 8
# What google-auth says of these comes without any of the token's text that Google hasn't signed.
_TOLD = ("Token expired", "Token used too early", "Token has wrong audience")
# Where a service requires authentication, Cloud Run verifies the token itself and puts this where its signature was.
_REMOVED = "SIGNATURE_REMOVED_BY_GOOGLE"


class OidcVerifier:
    """Verifies Google's OIDC tokens for these audiences and e-mail addresses.

    `certs_url` serves certificates as Google does, `{key id: PEM}`; fetching them takes `timeout` seconds at
    most.
    """

    def __init__(
        self,
        audiences: Sequence[str],
        emails: Collection[str],
        *,
        certs_url: str = GOOGLE_CERTIFICATES,
        timeout: float = _TIMEOUT,
    ) -> None:
        self._audiences = list(audiences)
        self._emails = frozenset(emails)
        self.certificates = _Certificates(certs_url, timeout, SystemTiming())

    def check(self, authorization: str | None) -> Denial | None:
        """None if the token does."""
        scheme, _, token = (authorization or "").strip().partition(" ")
        token = token.strip()
        if not authorization:
            return Denial(401, "there is no token: send an OIDC token in the header Authorization, as a Bearer")
        if scheme.lower() != "bearer" or not token:
            return Denial(401, "the Authorization header must be: Bearer, and an OIDC token")
        if token.endswith(_REMOVED):
            return Denial(
                401,
                "Cloud Run has verified this token and removed its signature: this service requires authentication, "
                "so make the trigger with trust_cloud_run_iam=True",
            )
        claims = self._claims(token)
        return claims if isinstance(claims, Denial) else self._judge(claims)

    def _claims(self, token: str) -> Mapping[str, object] | Denial:
        try:
            certificates = self.certificates.get()
        except Unavailable as error:
            message = "Google's certificates can't be had just now, so no token can be verified: try again later"
            return Denial(503, message, detail=str(error))
        try:
            claims: Mapping[str, object] = jwt.decode(  # type: ignore[no-untyped-call]  # google-auth declares no types
                token, certs=certificates, audience=self._audiences, clock_skew_in_seconds=_CLOCK_SKEW
            )
        except Exception as error:
            # Whatever a stranger's text makes the parsers raise: it is no token. The error may quote it.
            text = str(error)
            return Denial(401, text if text.startswith(_TOLD) else "this is no token that Google has signed")
        return claims

    def _judge(self, claims: Mapping[str, object]) -> Denial | None:
        """What google-auth doesn't look at. A claim may be of any type that JSON has."""
        issuer, email, earliest = claims.get("iss"), claims.get("email"), claims.get("nbf")
        if not isinstance(issuer, str) or issuer not in GOOGLE_ISSUERS:
            return Denial(401, "the token's issuer is not Google")
        if earliest is not None and not _has_come(earliest):
            return Denial(
                401, f"Token used too early, it is valid from {earliest!r:.40}: is this machine's clock right?"
            )
        if not isinstance(email, str) or email not in self._emails:
            who = f"{email} may" if isinstance(email, str) else "a token without an e-mail address does"
            return Denial(403, f"{who} not trigger jobs here: it is not one of the addresses that were allowed")
        if claims.get("email_verified") is not True:
            return Denial(403, f"Google has not verified the address {email}")
        return None


class _Certificates:
    """Google's certificates, fetched when they are needed, and kept for as long as HTTP allows."""

    def __init__(self, url: str, timeout: float, timing: Timing) -> None:
        self._url = url
        self._timeout = timeout
        self._timing = timing
        # Together, because threads read them while another one writes.
        self._kept: tuple[Mapping[str, str], float] = ({}, -math.inf)
        self._connect()
        tell_after_fork(self)

    def get(self) -> Mapping[str, str]:
        """The certificates by their key ids. Unavailable where there are none to be had in time."""
        kept, until = self._kept
        now = self._timing.mono()
        if now < until:
            return kept
        reply = self._fetch()
        found = _certificates(reply.content) if reply.status == HTTPStatus.OK else {}
        if not found:
            raise Unavailable(f"{self._url} answered {reply.status}, without certificates")
        self._kept = found, now + _fresh_for(reply.headers) * 1000
        return found

    def after_fork(self) -> None:
        """In a forked child: the parent's sockets are not used."""
        self._connect()

    def _connect(self) -> None:
        self.transport = Transport(self._url, _POOL_SIZE)

    def _fetch(self) -> Reply:
        target = urlsplit(self._url)._replace(scheme="", netloc="").geturl()
        deadline = Deadline.after(self._timing, self._timeout)
        try:
            return self.transport.send("GET", target, {"User-Agent": f"firecron/{__version__}"}, None, deadline)
        except NoReply as error:
            raise Unavailable(f"Google's certificates could not be fetched from {self._url}: {error}") from error


def _has_come(claim: object) -> bool:
    return isinstance(claim, int | float) and not isinstance(claim, bool) and claim <= time.time() + _CLOCK_SKEW


def _certificates(body: bytes) -> dict[str, str]:
    """The certificates in a reply; none in what is anything else."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) and all(isinstance(pem, str) for pem in found.values()) else {}


def _fresh_for(headers: HTTPMessage) -> int:
    """For how many seconds a reply may be kept."""
    control, age = headers.get("Cache-Control", "").lower(), headers.get("Age", "0")
    most = re.search(r"\bmax-age=([0-9]{1,9})\b", control)
    if most is None or "no-store" in control or "no-cache" in control or not re.fullmatch("[0-9]{1,9}", age):
        return 0
    return min(int(most[1]) - int(age), _LONGEST_KEPT)
