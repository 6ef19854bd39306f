"""Basic authentication: one user, one password, which a browser asks for and then sends with every request.

It is as safe as the connection: without TLS everybody on the way can read the password, so the first such request is a
WARNING. The comparison takes the same time whatever was sent.
"""

from __future__ import annotations

import binascii
import hmac
import logging
from base64 import b64decode
from hashlib import sha256

from firecron.base.events import Events
from firecron.errors import ConfigurationError
from firecron.page.messages import PageRequest
from firecron.page.safety import is_encrypted
from firecron.page.visitor import Access
from firecron.triggers.verifier import Denial


class BasicGate:
    """Admits the one user who knows the password."""

    challenge = 'Basic realm="firecron", charset="UTF-8"'

    def __init__(self, basic: tuple[str, str], events: Events) -> None:
        self._user, password = _checked(basic)
        # A variable's bytes that are no UTF-8 are what a browser has to send.
        self._expected = _digest(f"{self._user}:{password}".encode("utf-8", "surrogateescape"))
        self._events = events
        self._has_warned = False

    def check(self, request: PageRequest) -> Access | Denial:
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
        case (str(user), str(password)) if user and password and ":" not in user:
            return user, password
        case (str(user), str()):
            raise ConfigurationError(f"basic=({user!r}, …) needs a user without a colon, and a password")
        case _:
            raise ConfigurationError("basic= needs a pair of texts: (user, password)")
