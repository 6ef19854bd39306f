"""The desk: makes the reply to a request of any framework. The shells of the frameworks only pass both on.

    admit   whether the visitor is served at all: the Host, and the gate
    plan    whether the request is one that the page takes: its path, its method, and for a POST what keeps it safe
    do      the reply: it blocks while it reads the database, and a run until its end

Whoever is refused learns nothing about paths, jobs or the database.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable
from dataclasses import dataclass
from urllib.parse import quote

from firecron.base.events import Events
from firecron.base.redaction import described
from firecron.base.tracing import trace_of, traced
from firecron.errors import FirecronError
from firecron.page.doing import Doing
from firecron.page.gates import Admission, Gate
from firecron.page.messages import PageRequest, Reply, compressed, problem
from firecron.page.routes import Route, find_route
from firecron.page.safety import MOST_BODY, foreign_host, foreign_post
from firecron.page.showing import Showing
from firecron.page.visitor import Access
from firecron.triggers.verifier import Denial

_WORDS = {401: "unauthorized", 403: "forbidden", 503: "unavailable"}


@dataclass(frozen=True, slots=True)
class Plan:
    """A request that the page takes."""

    request: PageRequest
    route: Route
    access: Access

    @property
    def is_long(self) -> bool:
        """Whether the reply may take as long as a run."""
        return self.route.act == "run"

    @property
    def has_body(self) -> bool:
        return self.route.kind == "act"


class Desk:
    """Serves the requests of one page. `is_local` is true for a page that answers on loopback only."""

    def __init__(
        self,
        gate: Gate,
        showing: Showing,
        doing: Doing,
        events: Events,
        *,
        read_only: bool,
        open_health: bool,
        is_local: bool = False,
    ) -> None:
        self._gate = gate
        self._showing = showing
        self._doing = doing
        self._events = events
        self._read_only = read_only
        self._open_health = open_health
        self._is_local = is_local

    def admit(self, request: PageRequest) -> Access | Reply | Awaitable[Access | Reply]:
        """Return who the visitor is, or the refusal. It is an awaitable if the program's `access` is async."""
        if self._is_local and (refusal := foreign_host(request)):
            return refusal
        if self._open_health and request.path == "/health":
            return Access("anybody")
        try:
            found = self._gate.check(request)
        except Exception as error:
            return self._broken(error)
        return self._later(request, found) if isinstance(found, Awaitable) else self._judged(request, found)

    def plan(self, request: PageRequest, access: Access) -> Plan | Reply:
        """Return what the request asks for, or the refusal. Pure."""
        route = find_route(request.path)
        if route is None:
            return problem(404, "unknown_path", "there is nothing at this path")
        if route.kind == "slash":
            return _with_slash(request)
        if request.method not in route.methods:
            allow = ", ".join(route.methods)
            return problem(405, "method_not_allowed", f"the method of this path is {allow}", {"Allow": allow})
        if route.kind == "act":
            if self._read_only:
                return problem(405, "read_only", "this page is read-only", {"Allow": ""})
            if refusal := foreign_post(request):
                return refusal
            if not access.can_act:
                return problem(403, "forbidden", f"{access.who} may look, and not act")
        return Plan(request, route, access)

    def do(self, plan: Plan, body: bytes | None = None) -> Reply:
        """Return the reply. `body` is None if it was longer than a body may be."""
        try:
            with traced(trace_of(plan.request.headers)):
                if plan.has_body:
                    fields = _fields(body)
                    return fields if isinstance(fields, Reply) else self._doing.act(plan.route, fields, plan.access)
                can_act = self._can_act(plan.access)
                reply = self._showing.show(plan.route, plan.request, plan.access, can_act=can_act)
                return compressed(reply, plan.request.headers.get("accept-encoding", ""))
        except Exception as error:
            return self._broken(error)

    def _can_act(self, access: Access) -> bool:
        return access.can_act and not self._read_only

    async def _later(self, request: PageRequest, coming: Awaitable[Admission]) -> Access | Reply:
        try:
            return self._judged(request, await coming)
        except Exception as error:
            return self._broken(error)

    def _judged(self, request: PageRequest, found: Admission) -> Access | Reply:
        if not isinstance(found, Denial):
            return found
        # A browser asks without credentials first: that is no attempt.
        if found.status != 401 or "authorization" in request.headers:
            detail = "" if found.detail is None else f" ({found.detail})"
            message = f"A visitor of the page was refused: {found.message}{detail}"
            self._events.emit("page.denied", "firecron", logging.WARNING, message, status=found.status)
        challenge = self._gate.challenge
        headers = {"WWW-Authenticate": challenge} if found.status == 401 and challenge is not None else {}
        return problem(found.status, _WORDS[found.status], found.message, headers)

    def _broken(self, error: Exception) -> Reply:
        message = f"A request to the page could not be served: {described(error)}"
        self._events.emit("page.failed", "firecron", logging.ERROR, message, error)
        # An error of firecron's is meant for the visitor. Any other error is a defect, with a text for the log only.
        said = str(error) if isinstance(error, FirecronError) else "the page could not be served; see the log"
        return problem(500, "error", said)


def _with_slash(request: PageRequest) -> Reply:
    """Redirect from the mount to the page below it, relative to wherever a proxy shows it."""
    last = quote(request.full_path.rpartition("/")[2], safe="")
    query = f"?{request.query}" if request.query else ""
    return Reply(307, b"", {"Location": f"./{last}/{query}" if last else f"./{query}"})


def _fields(body: bytes | None) -> dict[str, object] | Reply:
    if body is None:
        return problem(413, "too_large", f"the body has more than {MOST_BODY} bytes")
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return problem(400, "bad_request", "the body is not JSON")
    if not isinstance(found, dict):
        return problem(400, "bad_request", "the body is not a JSON object")
    return found
