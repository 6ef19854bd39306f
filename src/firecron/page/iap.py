"""Identity-Aware Proxy: Google has authenticated the visitor, and says so in a signed header.

Only `x-goog-iap-jwt-assertion` is believed. The other headers of the proxy are plain text, which anybody can send who
reaches the service past the proxy. Who may pass is decided in IAP; all who do may act.
"""

from __future__ import annotations

from collections.abc import Sequence

from firecron.page.messages import PageRequest
from firecron.page.visitor import Access
from firecron.triggers.tokens import TIMEOUT, Tokens
from firecron.triggers.verifier import Denial

IAP_KEYS = "https://www.gstatic.com/iap/verify/public_key"
IAP_ISSUER = "https://cloud.google.com/iap"
HEADER = "x-goog-iap-jwt-assertion"


class IapGate:
    """Admits those whom IAP has let pass to these audiences. `keys_url` serves IAP's keys, `{key id: PEM}`."""

    challenge = None

    def __init__(self, audiences: Sequence[str], *, keys_url: str = IAP_KEYS, timeout: float = TIMEOUT) -> None:
        self.tokens = Tokens(keys_url, audiences, "ES256", timeout=timeout)

    def check(self, request: PageRequest) -> Access | Denial:
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
