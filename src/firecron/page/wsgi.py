"""One request to the page where a thread serves it from beginning to end: Flask and Django."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from firecron.page.desk import Desk
from firecron.page.messages import PageRequest, Reply
from firecron.page.safety import HEADERS, MOST_BODY


def serve(desk: Desk, request: PageRequest, read: Callable[[], bytes]) -> Reply:
    """Return the reply, with all its headers. `read` returns the body, or its beginning if it is too long."""
    reply = _reply(desk, request, read)
    return replace(reply, headers={**HEADERS, **reply.headers, "Content-Length": str(len(reply.body))})


def _reply(desk: Desk, request: PageRequest, read: Callable[[], bytes]) -> Reply:
    admitted = desk.admit(request)
    assert not isinstance(admitted, Awaitable), "the gate knows that nothing can wait here"
    plan = admitted if isinstance(admitted, Reply) else desk.plan(request, admitted)
    if isinstance(plan, Reply):
        return plan
    body = read() if plan.has_body else None
    return desk.do(plan, None if body is None or len(body) > MOST_BODY else body)
