"""The verifier of OIDC tokens as Cloud Scheduler sends them: signed by Google for this service and an allowed account.

    401   no token, or an invalid one: unreadable, expired, badly signed, for another audience, from another issuer
    403   a valid token, but its e-mail address is not allowed, or Google has not verified the address
    503   Google's certificates can't be fetched, so the token can't be verified

The certificates are fetched when they are needed, and kept for as long as Google says. A token's times are compared
with this machine's wall clock, as TLS does. They decide only whether the caller is served, nothing about ticks. No
token is ever logged or sent back.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Collection, Mapping, Sequence
from copy import copy
from http import HTTPStatus
from urllib.parse import urlsplit

from google.auth import jwt

from firecron import __version__
from firecron.base.clocks import Deadline, SystemTiming, Timing
from firecron.base.forks import tell_after_fork
from firecron.errors import Unavailable
from firecron.rtdb.connection import NoReply
from firecron.rtdb.replies import Reply
from firecron.rtdb.transport import Transport
from firecron.triggers.verifier import Denial

GOOGLE_CERTIFICATES = "https://www.googleapis.com/oauth2/v1/certs"
GOOGLE_ISSUERS = frozenset({"accounts.google.com", "https://accounts.google.com"})

_CLOCK_SKEW = 10
_TIMEOUT = 5.0
_LONGEST_KEPT = 86_400
_POOL_SIZE = 8
# The beginnings of those of google-auth's errors that quote no part of a token that Google has not signed.
_TOLD = ("Token expired", "Token used too early", "Token has wrong audience")
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
        timeout: float = _TIMEOUT,
    ) -> None:
        self._audiences = list(audiences)
        self._emails = frozenset(emails)
        self.certificates = _Certificates(certs_url, timeout, SystemTiming())

    def and_for(self, emails: Collection[str]) -> OidcVerifier:
        """Return a verifier for these e-mail addresses as well, with the same certificates."""
        wider = copy(self)
        wider._emails = self._emails.union(emails)
        return wider

    def check(self, authorization: str | None) -> Denial | None:
        """Return None if the token is valid and its account allowed, else the denial."""
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
        claims = self._claims(token)
        return claims if isinstance(claims, Denial) else self._judge(claims)

    def _claims(self, token: str) -> Mapping[str, object] | Denial:
        try:
            certificates = self.certificates.get()
        except Unavailable as error:
            message = "Google's certificates can't be fetched now, so no token can be verified: try again later"
            return Denial(503, message, detail=str(error))
        try:
            claims: Mapping[str, object] = jwt.decode(  # type: ignore[no-untyped-call]  # google-auth declares no types
                token, certs=certificates, audience=self._audiences, clock_skew_in_seconds=_CLOCK_SKEW
            )
        except Exception as error:
            # A caller's text may make the parsers raise anything, and the error may quote the text.
            text = str(error)
            return Denial(401, text if text.startswith(_TOLD) else "Google has not signed this token")
        return claims

    def _judge(self, claims: Mapping[str, object]) -> Denial | None:
        """Check the claims that google-auth doesn't check. A claim may have any of JSON's types."""
        issuer, email, earliest = claims.get("iss"), claims.get("email"), claims.get("nbf")
        if not isinstance(issuer, str) or issuer not in GOOGLE_ISSUERS:
            return Denial(401, "the token's issuer is not Google")
        if earliest is not None and not _has_come(earliest):
            return Denial(
                401, f"Token used too early, it is valid from {earliest!r:.40}: is this machine's clock right?"
            )
        if not isinstance(email, str) or email not in self._emails:
            who = f"the address {email}" if isinstance(email, str) else "a token without an e-mail address"
            return Denial(403, f"{who} may not trigger jobs here: only the addresses in the trigger's email= may")
        if claims.get("email_verified") is not True:
            return Denial(403, f"Google has not verified the address {email}")
        return None


class _Certificates:
    """Google's certificates, fetched when they are needed, and kept for as long as the response's headers allow."""

    def __init__(self, url: str, timeout: float, timing: Timing) -> None:
        self._url = url
        self._timeout = timeout
        self._timing = timing
        # The certificates and their end in one tuple, because threads read them while another one writes.
        self._kept: tuple[Mapping[str, str], float] = ({}, -math.inf)
        self._connect()
        tell_after_fork(self)

    def get(self) -> Mapping[str, str]:
        """Return the certificates by their key ids. Raise Unavailable if they can't be fetched in time."""
        kept, until = self._kept
        now = self._timing.mono()
        if now < until:
            return kept
        reply = self._fetch()
        found = _certificates(reply.content) if reply.status == HTTPStatus.OK else {}
        if not found:
            raise Unavailable(f"{self._url} returned the status {reply.status} and no certificates")
        self._kept = found, now + _fresh_for(reply.headers) * 1000
        return found

    def after_fork(self) -> None:
        """Open a session of its own in a forked child: the sockets are the parent's."""
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
