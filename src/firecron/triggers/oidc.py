"""The verifier of OIDC tokens as Cloud Scheduler sends them: signed by Google for this service and an allowed account.

    401   no token, or an invalid one: unreadable, expired, badly signed, for another audience, from another issuer
    403   a valid token, but its e-mail address is not allowed, or Google has not verified the address
    503   Google's certificates can't be fetched, so the token can't be verified

No token is ever logged or sent back.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from copy import copy

from firecron.triggers.tokens import TIMEOUT, Tokens
from firecron.triggers.verifier import Denial

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
        self.tokens = Tokens(certs_url, audiences, "RS256", timeout=timeout)

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
        return claims if isinstance(claims, Denial) else self._judge(claims)

    def _judge(self, claims: Mapping[str, object]) -> str | Denial:
        """Check the claims that every signed token of Google's may differ in."""
        issuer, email = claims.get("iss"), claims.get("email")
        if not isinstance(issuer, str) or issuer not in GOOGLE_ISSUERS:
            return Denial(401, "the token's issuer is not Google")
        if not isinstance(email, str) or email not in self._emails:
            who = f"the address {email}" if isinstance(email, str) else "a token without an e-mail address"
            return Denial(403, f"{who} may not trigger jobs here: only the addresses in the trigger's email= may")
        if claims.get("email_verified") is not True:
            return Denial(403, f"Google has not verified the address {email}")
        return email
