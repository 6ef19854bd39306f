"""Redaction: no token, key or password in a line of the log, whoever put it into the text.

What firecron itself says has none. But a job's exception goes into the log as well, and exceptions quote what they
stumbled over: a URL with `?access_token=…`, a header, the key of a service account. Known shapes only: a secret that
looks like any other word stays, unless it is a field whose name tells.
"""

from __future__ import annotations

import re

REDACTED = "[redacted]"

# In whatever spelling: access_token, accessToken, X-Api-Key, DB_PASSWORD.
_SECRET_NAME = re.compile(
    r"""
    (?:.*[\W_])?(?:(?:access|id|refresh)[-_]?token|client[-_]?secret|private[-_]?key(?:[-_]?id)?|api[-_]?key|password
        |authorization)
    | secret
    | token
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)

# No part of it may be tried from every position of a long text: each begins with a fixed text or at a boundary.
_SECRET = re.compile(
    r"""
    -----BEGIN\ [A-Z ]*PRIVATE\ KEY-----.*?(?:-----END\ [A-Z ]*PRIVATE\ KEY-----|\Z)
    | (?P<parameter>[?&;](?:access_token|id_token|refresh_token|token|auth|key|api_key|apikey|password|secret
        |client_secret|sig|signature|X-Goog-Signature)=)[^&\s'"<>\#]+
    | (?P<field>\b(?:access_token|id_token|refresh_token|client_secret|private_key|private_key_id|api_key|password)
        \\?["']?\s?[:=]\s?\\?["']?)(?!-----BEGIN)[^\s"'\\,;&{}]+
    | (?P<scheme>\bBearer\ )[\w.~+/=-]{16,}
    | (?P<basic>\bAuthorization\\?["']?\s?[:=]\s?\\?["']?Basic\ )[\w+/=-]+
    | (?P<user>(?<=://))[^\s/@:]+:[^\s/@]+(?=@)
    | \bya29\.[\w.-]+
    | \bAIza[\w-]{30,}
    | (?<![\w-])eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)


def names_secret(name: str) -> bool:
    """Whether a field of this name is a secret, whatever its value looks like."""
    return _SECRET_NAME.fullmatch(name) is not None


def redacted(text: str) -> str:
    """The text without what looks like a secret; what introduces one is left."""
    return _SECRET.sub(lambda found: f"{found[found.lastgroup] if found.lastgroup else ''}{REDACTED}", text)
