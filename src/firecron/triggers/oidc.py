"""Tokens as Cloud Scheduler sends them: signed by Google, for this service, in the name of an allowed service account.

    401   no token, or none of Google's: garbage, expired, for another audience, from another issuer, badly signed
    403   Google vouches for the caller, who is not one of the allowed, or whose address is not verified
    503   Google's certificates can't be had, so nobody can tell

The certificates are fetched once, and kept for as long as Google says. A token's times are compared with this machine's
wall clock, as TLS does; they let a caller in and decide nothing about ticks. No token is ever logged or answered back.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Collection, Mapping, Sequence

import requests
from cachecontrol import CacheControl
from google.auth import transport
from google.oauth2 import id_token

from firecron.errors import Unavailable
from firecron.forks import tell_after_fork
from firecron.triggers.verifier import Denial

GOOGLE_CERTIFICATES = "https://www.googleapis.com/oauth2/v1/certs"
GOOGLE_ISSUERS = frozenset({"accounts.google.com", "https://accounts.google.com"})

_CLOCK_SKEW = 10
_TIMEOUT = 5.0
# What google-auth says of these comes without any of the token's text that Google hasn't signed.
_TOLD = ("Token expired", "Token used too early", "Token has wrong audience")
# Where a service requires authentication, Cloud Run verifies the token itself and puts this where its signature was.
_REMOVED = "SIGNATURE_REMOVED_BY_GOOGLE"


class OidcVerifier:
    """Verifies Google's OIDC tokens for these audiences and e-mail addresses.

    `certs_url` answers with certificates as Google does, `{key id: PEM}`; `timeout` is in seconds, for connecting to it
    and for each read.
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
        self._certs_url = certs_url
        self._certificates = _Certificates(timeout)

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
            claims: Mapping[str, object] = id_token.verify_token(
                token,
                self._certificates,
                audience=self._audiences,
                certs_url=self._certs_url,
                clock_skew_in_seconds=_CLOCK_SKEW,
            )
        except Unavailable as error:
            return Denial(503, str(error))
        except Exception as error:
            # Whatever a stranger's text makes the parsers raise: it is no token. The error may quote it.
            text = str(error)
            return Denial(401, text if text.startswith(_TOLD) else "this is no token that Google has signed")
        return claims

    def _judge(self, claims: Mapping[str, object]) -> Denial | None:
        if claims.get("iss") not in GOOGLE_ISSUERS:
            return Denial(401, "the token's issuer is not Google")
        email = claims.get("email")
        if email not in self._emails:
            who = f"{email} may" if isinstance(email, str) else "a token without an e-mail address does"
            return Denial(403, f"{who} not trigger jobs here: it is not one of the addresses that were allowed")
        if claims.get("email_verified") is not True:
            return Denial(403, f"Google has not verified the address {email}")
        return None


class _Reply(transport.Response):
    """A reply in the form that google-auth wants."""

    def __init__(self, response: requests.Response) -> None:
        self._response = response

    @property
    def status(self) -> int:
        return self._response.status_code

    @property
    def headers(self) -> Mapping[str, str]:
        return self._response.headers

    @property
    def data(self) -> bytes:
        return self._response.content


class _Certificates(transport.Request):
    """Fetches certificates for google-auth, and keeps them as HTTP allows. Unavailable where there are none to be had,
    so that this is never taken for a bad token.
    """

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._lock = threading.Lock()
        self._made: requests.Session | None = None
        tell_after_fork(self)

    def __call__(self, url: str, method: str = "GET", *_: object, **__: object) -> _Reply:
        try:
            response = self._session().request(method, url, timeout=self._timeout)
        except requests.RequestException as error:
            raise Unavailable(f"Google's certificates could not be fetched from {url}: {error}") from error
        if response.status_code != 200 or not _are_certificates(response.content):
            raise Unavailable(f"{url} answered {response.status_code}, without certificates")
        return _Reply(response)

    def after_fork(self) -> None:
        """In a forked child: the parent's sockets are not used."""
        self._lock = threading.Lock()
        self._made = None

    def _session(self) -> requests.Session:
        with self._lock:
            if self._made is None:
                self._made = CacheControl(requests.Session())
            return self._made


def _are_certificates(body: bytes) -> bool:
    try:
        found = json.loads(body)
    except ValueError:
        return False
    return isinstance(found, dict) and bool(found) and all(isinstance(pem, str) for pem in found.values())
