"""One request to the page where a thread serves it from beginning to end: Flask and Django."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from firecron.page.desk import Desk
from firecron.page.messages import PageRequest, Reply
from firecron.page.safety import MOST_BODY, all_headers


def serve(desk: Desk, request: PageRequest, read: Callable[[], bytes]) -> Reply:
    """Return the reply, with all its headers. `read` returns the body, or its beginning if it is too long."""
    reply = _reply(desk, request, read)
    return replace(reply, headers=all_headers(reply))


def _reply(desk: Desk, request: PageRequest, read: Callable[[], bytes]) -> Reply:
    admitted = desk.admit(request)
    assert not isinstance(admitted, Awaitable), "the gate knows that nothing can wait here"
    plan = admitted if isinstance(admitted, Reply) else desk.plan(request, admitted)
    if isinstance(plan, Reply):
        return plan
    return desk.do(plan, _body(request, read) if plan.has_body else None)


def _body(request: PageRequest, read: Callable[[], bytes]) -> bytes | None:
    """Return the body; None if it is too long. One that has not come whole is empty: half of a wish is none."""
    try:
        body = read()
    except OSError:
        return b""  # a server's or a framework's, for a client that has left
    if len(body) > MOST_BODY:
        return None
    # A server may take the end of a connection for that of the body.
    return body if request.headers.get("content-length", "") in ("", str(len(body))) else b""
