"""Credentials: from the headers and parameters of a request to an `Access`.

As in the official emulator, nothing is verified: any bearer token is an admin's, and a user's token may be unsigned and
expired.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode
from collections.abc import Mapping

from rtdb_emulator.database import ADMIN, Access
from rtdb_emulator.errors import BadRequest, Denied, Refusal

_SIGNED_OUT = Access(admin=False)


def identify(headers: Mapping[str, str], parameters: Mapping[str, str]) -> Access:
    """Return the rights of a request; `headers` have lower-case names.

    Raises Denied for a text that isn't a token, and for an override without an admin's rights.
    """
    access = _authenticate(headers, parameters)
    if "auth_variable_override" not in parameters:
        return access
    if not access.admin:
        raise Denied("Unauthorized request.")
    try:
        auth = json.loads(parameters["auth_variable_override"])
    except (ValueError, RecursionError):
        auth = False
    if auth is not None and not isinstance(auth, dict):
        raise BadRequest("auth_variable_override must be a JSON object or null")
    return Access(admin=False, auth=auth)


def is_admin(headers: Mapping[str, str], parameters: Mapping[str, str]) -> bool:
    """Return whether the request is an admin's, without an override."""
    try:
        return identify(headers, parameters).admin
    except Refusal:
        return False


def _authenticate(headers: Mapping[str, str], parameters: Mapping[str, str]) -> Access:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if (scheme.lower() == "bearer" and token.strip()) or "access_token" in parameters:
        return ADMIN
    if "auth" in parameters:
        return Access(admin=False, auth=user_of(parameters["auth"]))
    return _SIGNED_OUT


def user_of(token: str) -> object:
    """Return the user of a token, as rules see it in `auth`. Raises Denied for a text that isn't a token."""
    return _auth_variable(_claims(token))


def _claims(token: str) -> dict[str, object]:
    parts = token.split(".")
    try:
        claims = json.loads(urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (IndexError, ValueError, RecursionError):
        claims = None
    if len(parts) != 3 or not isinstance(claims, dict):
        raise Denied("Could not parse auth token.")
    return claims


def _auth_variable(claims: dict[str, object]) -> object:
    if claims.get("v") == 0 and "d" in claims:  # a custom token of the old kind
        return claims["d"]
    firebase = claims.get("firebase")
    return {
        "uid": claims.get("user_id", claims.get("sub")),
        "provider": firebase.get("sign_in_provider") if isinstance(firebase, dict) else None,
        "token": claims,
    }
