"""Tokens that Google has signed (JWT): their signature, their audience and their times.

    401   an invalid token: unreadable, expired, badly signed, for another audience
    503   Google's keys can't be fetched, so the token can't be verified

The keys are fetched when they are needed, and kept for as long as Google says. A token's times are compared with this
machine's wall clock, as TLS does. They decide only whether the caller is served, nothing about ticks. No token is ever
logged or sent back.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Literal, TypeAlias
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

Algorithm: TypeAlias = Literal["RS256", "ES256"]

_CLOCK_SKEW = 10
TIMEOUT = 5.0
_LONGEST_KEPT = 86_400
_POOL_SIZE = 8
# The beginnings of those of google-auth's errors that quote no part of a token that Google has not signed.
_TOLD = ("Token expired", "Token used too early", "Token has wrong audience")


class Tokens:
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
            certificates = self.certificates.get()
        except Unavailable as error:
            message = "Google's certificates can't be fetched now, so no token can be verified: try again later"
            return Denial(503, message, detail=str(error))
        try:
            # A token names its own algorithm, and google-auth would believe it.
            header = jwt.decode_header(token)  # type: ignore[no-untyped-call]  # google-auth declares no types
            if header.get("alg") != self._algorithm:
                return Denial(401, f"Google has not signed this token by {self._algorithm}")
            claims: Mapping[str, object] = jwt.decode(  # type: ignore[no-untyped-call]  # google-auth declares no types
                token, certs=certificates, audience=self._audiences, clock_skew_in_seconds=_CLOCK_SKEW
            )
        except Exception as error:
            # A caller's text may make the parsers raise anything, and the error may quote the text.
            text = str(error)
            return Denial(401, text if text.startswith(_TOLD) else "Google has not signed this token")
        earliest = claims.get("nbf")
        if earliest is not None and not _has_come(earliest):
            return Denial(
                401, f"Token used too early, it is valid from {earliest!r:.40}: is this machine's clock right?"
            )
        return claims


class Certificates:
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
