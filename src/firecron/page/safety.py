"""What keeps the page safe in a browser, besides access: headers, the sender of a POST, and the Host. Pure.

    403   a POST that another site may have sent
    415   a POST without JSON: a form of another site can send no JSON
    421   on loopback, another Host: a name that an attacker's DNS has led here

The page runs no script but its own: the policy allows only its own file, and no text becomes markup. No reply is stored
by a browser or a proxy.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from urllib.parse import urlsplit

from firecron.page.messages import PageRequest, Reply, problem

MOST_BODY = 65_536

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}

# The addresses of a page without a password: those at which a browser may open it.
LOOPBACK = ("localhost", "127.0.0.1", "::1")
_LOOPBACK_HOST = re.compile(r"(?:localhost|127\.0\.0\.1|\[::1\])(?::[0-9]{1,5})?", re.IGNORECASE)


def all_headers(reply: Reply) -> dict[str, str]:
    """Return the headers of a reply, with those that every reply has. A 304 has no length: it would be the 200's."""
    length = {} if reply.status == HTTPStatus.NOT_MODIFIED else {"Content-Length": str(len(reply.body))}
    return {**HEADERS, **reply.headers, **length}


def foreign_host(request: PageRequest) -> Reply | None:
    """Return the refusal of a request to loopback whose Host is another name; None if it is one of loopback's."""
    if _LOOPBACK_HOST.fullmatch(request.headers.get("host", "")):
        return None
    message = "this page is served on loopback only: open it as localhost, 127.0.0.1 or [::1]"
    return problem(421, "misdirected", message)


def foreign_post(request: PageRequest) -> Reply | None:
    """Return the refusal of a POST that the page has not sent itself; None if it has."""
    site = request.headers.get("sec-fetch-site")
    if site != "same-origin" and (site is not None or not _is_own_origin(request)):
        message = (
            "the request doesn't come from this page: a program sends the header Sec-Fetch-Site: same-origin, a proxy "
            "leaves Origin and Host as they are"
        )
        return problem(403, "cross_site", message)
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        return problem(415, "not_json", "send JSON, with the header Content-Type: application/json")
    return None


def is_encrypted(request: PageRequest) -> bool:
    """Return whether the visitor's connection has TLS, as far as the request and the headers of a proxy tell."""
    forwarded = request.headers.get("x-forwarded-proto", "").partition(",")[0].strip().lower()
    return "https" in (request.scheme, forwarded)


def _is_own_origin(request: PageRequest) -> bool:
    origin, host = request.headers.get("origin"), request.headers.get("host")
    if not origin or not host:
        return False
    try:
        return urlsplit(origin).netloc.lower() == host.lower()
    except ValueError:
        return False
