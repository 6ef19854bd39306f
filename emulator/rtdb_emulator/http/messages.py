"""A REST request and the answers to it, without sockets, with its parameters and credentials.

The parameters are checked with RTDB's texts; `query` has those of a query. As in the official emulator, no credential
is verified: any bearer token is an admin's, and a user's token may be unsigned and expired.
"""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from rtdb_emulator.database import ADMIN, SIGNED_OUT, Access
from rtdb_emulator.errors import BadRequest, Denied, Refusal
from rtdb_emulator.http.sse import Stream
from rtdb_emulator.jsondata import encode
from rtdb_emulator.large import Long
from rtdb_emulator.query import PARAMETERS
from rtdb_emulator.rules.explain import Refused
from rtdb_emulator.tree import Node

JSON = "application/json; charset=utf-8"
TEXT = "text/plain; charset=utf-8"
HTML = "text/html; charset=utf-8"
SCRIPT = "application/javascript; charset=utf-8"

# The node of a PUT or POST, the values of a PATCH by their paths, or the error in them.
Content: TypeAlias = Node | dict[str, object] | BadRequest

CORS = {"access-control-allow-origin": "*", "access-control-expose-headers": "ETag"}


@dataclass(frozen=True, slots=True)
class RestRequest:
    """`path` is still percent-encoded, `headers` have lower-case names, `parameters` are decoded.

    `content` is the content of a large body, and `body` is empty then; `size` is the size of the body in bytes. With
    `rules_first`, which only a fault sets, the rules of a conditional write are evaluated before its ETag is compared.
    """

    method: str
    path: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | bytearray = b""
    rules_first: bool = False
    content: Content | None = None
    size: int = -1

    def __post_init__(self) -> None:
        if self.size < 0:
            object.__setattr__(self, "size", len(self.body))


def method_of(request: RestRequest) -> str:
    """Return the method that the client means: a POST may name another one."""
    if request.method != "POST":
        return request.method
    override = request.headers.get("x-http-method-override") or request.parameters.get("x-http-method-override")
    return (override or request.method).upper()


@dataclass(frozen=True, slots=True)
class Reply:
    """One whole answer; `pause` is the seconds to wait before each of its bytes.

    `long` is a long body, which is made in steps, in place of `body`; `refused` is the operation that the rules have
    denied.
    """

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = JSON
    pause: float = 0.0
    long: Long | None = None
    refused: Refused | None = None


Answer: TypeAlias = Reply | Stream


def error_reply(status: int, text: str) -> Reply:
    return Reply(status, encode({"error": text}, pretty=True))


# --- the parameters that are not a query

MEBIBYTE = 1024 * 1024
MAX_BODY = 256 * MEBIBYTE
# The real service estimates the seconds that a write would take. These bytes stand for its 1, 10, 30 and 60 seconds;
# the last number is also the documented limit of any request. An admin's write without a limit may have any size, for
# imports.
WRITE_SIZE_LIMITS: dict[str, int | None] = {
    "tiny": 4 * MEBIBYTE,
    "small": 42 * MEBIBYTE,
    "medium": 128 * MEBIBYTE,
    "large": MAX_BODY,
    "unlimited": None,
}
WRITE_TOO_LARGE = "Data to write exceeds the maximum size that can be modified with a single request."
READ_TOO_LARGE = "Data requested exceeds the maximum size that can be accessed with a single request."

# A name, or names with dots between them: a program can't look like this.
_CALLBACK = re.compile(r"[A-Za-z_$][\w$]*(\.[A-Za-z_$][\w$]*)*\Z", re.ASCII)
_TIMEOUT = re.compile(r"([0-9]{1,9})(ms|s|min)\Z")
_MILLISECONDS = {"ms": 1, "s": 1000, "min": 60_000}
_MAX_TIMEOUT = 15 * 60_000


@dataclass(frozen=True, slots=True)
class Options:
    """The form of the answer, and the largest cost of the request."""

    printing: Literal["", "pretty", "silent"]
    shallow: bool
    export: bool
    write_size_limit: str
    callback: str
    triggers: bool


def parse_options(parameters: Mapping[str, str]) -> Options:
    printing = parameters.get("print", "")
    if printing not in ("", "pretty", "silent"):
        raise BadRequest(f"print must be pretty or silent, not {printing!r}")
    limit = parameters.get("writeSizeLimit", "unlimited")
    if limit not in WRITE_SIZE_LIMITS:
        raise BadRequest(f"writeSizeLimit must be one of {', '.join(WRITE_SIZE_LIMITS)}, not {limit!r}")
    if "timeout" in parameters:
        _check_timeout(parameters["timeout"])
    shape = parameters.get("format", "")
    if shape not in ("", "export", "strict"):
        raise BadRequest(f"format must be export, not {shape!r}")
    callback = parameters.get("callback", "")
    if callback and not _CALLBACK.match(callback):
        raise BadRequest(f"callback must be the name of a JavaScript function, not {callback!r}")
    return Options(
        printing="pretty" if printing == "pretty" else "silent" if printing == "silent" else "",
        shallow=parameters.get("shallow", "") == "true",
        export=shape == "export",
        write_size_limit=limit,
        callback=callback,
        triggers=parameters.get("disableTriggers", "") != "true",
    )


def has_query(parameters: Mapping[str, str]) -> bool:
    return not PARAMETERS.isdisjoint(parameters)


def _check_timeout(text: str) -> None:
    match = _TIMEOUT.match(text)
    if match is None or not 0 < int(match[1]) * _MILLISECONDS[match[2]] <= _MAX_TIMEOUT:
        raise BadRequest(f"timeout must be like 3ms, 3s or 3min, more than 0 and at most 15min, not {text!r}")


# --- from headers and parameters to an `Access`


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
    return SIGNED_OUT


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
