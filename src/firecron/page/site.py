"""The site of the page: makes the reply to a request to the page, whatever the door that it comes by.

    admit   whether the visitor is served at all: the Host, and the authenticator
    plan    whether the request is one that the page takes: its path, its method, and for a POST what keeps it safe
    do      the reply: it blocks while it reads the database, and a run until its end

A visitor who is refused learns nothing about paths, jobs or the database.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from urllib.parse import quote

from firecron.base.clocks import SystemTiming
from firecron.base.events import Seldom, how_often
from firecron.base.texts import described
from firecron.errors import FirecronError
from firecron.ops.board import Board
from firecron.page.access import Admission, Authenticator
from firecron.page.actions import Actions
from firecron.page.live import Live
from firecron.page.messages import (
    Access,
    Route,
    compressed,
    find_route,
    foreign_host,
    foreign_post,
    problem,
    secured,
)
from firecron.page.reads import Code, Reads
from firecron.triggers.verifier import Denial
from firecron.web import MOST_BODY, Received, SiteReply, SiteRequest, Work

_WORDS = {401: "unauthorized", 403: "forbidden", 503: "unavailable"}


class PageSite:
    """Serves the requests of one page, in a process that has this `code`. Making it does no I/O.

    `is_local` is true for a page that answers on loopback only. `asked` is called at each request. `live` keeps the
    page live: a door of ASGI takes both. Flask and Django have no streams, so there the page polls.
    """

    def __init__(
        self,
        authenticator: Authenticator,
        board: Board,
        code: Code,
        *,
        read_only: bool = False,
        open_health: bool = False,
        is_local: bool = False,
        asked: Callable[[], object] = lambda: None,
    ) -> None:
        self._authenticator = authenticator
        self._reads = Reads(board, code, read_only=read_only)
        self._actions = Actions(self._reads)
        self.live = Live(board, code, SystemTiming())
        self._events = board.database.events
        self._read_only = read_only
        self._open_health = open_health
        self._is_local = is_local
        self._seldom = Seldom(board.database.deadline)
        self._asked = asked

    def receive(self, request: SiteRequest) -> Received | Awaitable[Received]:
        """Return the refusal, or the work. It is an awaitable if the program's `access` is async."""
        try:
            self._asked()
            found = self._admit(request)
            return self._later(request, found) if isinstance(found, Awaitable) else self._planned(request, found)
        except Exception as error:
            return secured(self._broken(error))

    async def _later(self, request: SiteRequest, coming: Awaitable[Admission]) -> Received:
        try:
            return self._planned(request, await coming)
        except Exception as error:
            return secured(self._broken(error))

    def _admit(self, request: SiteRequest) -> Admission | SiteReply | Awaitable[Admission]:
        if self._is_local and (refusal := foreign_host(request)):
            return refusal
        if self._open_health and request.path == "/health":
            return Access("anybody")
        return self._authenticator.check(request)

    def _planned(self, request: SiteRequest, found: Admission | SiteReply) -> Received:
        if isinstance(found, Denial):
            found = self._denied(request, found)
        planned = self._plan(request, found) if isinstance(found, Access) else found
        return secured(planned) if isinstance(planned, SiteReply) else planned

    def _plan(self, request: SiteRequest, access: Access) -> Received:
        """Return what is to be done, or the refusal. Pure."""
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
        return Work(
            lambda body: secured(self._do(request, route, access, body)),
            "running" if route.act == "run" else "receiving" if route.kind == "file" else "reading",
            has_body=route.kind == "act",
            is_stream=route.kind == "events",
        )

    def _do(self, request: SiteRequest, route: Route, access: Access, body: bytes | None) -> SiteReply:
        try:
            if route.kind == "act":
                fields = _fields(body)
                return fields if isinstance(fields, SiteReply) else self._actions.act(route, fields, access)
            reply = self._reads.show(route, request, access, can_act=access.can_act and not self._read_only)
            return compressed(reply, request.headers.get("accept-encoding", ""))
        except Exception as error:
            return self._broken(error)

    def _denied(self, request: SiteRequest, denial: Denial) -> SiteReply:
        # A browser asks without credentials first: that is no attempt.
        is_attempt = denial.status != 401 or "authorization" in request.headers
        count = self._seldom.count(denial.cause) if is_attempt else None
        if count is not None:
            detail = "" if denial.detail is None else f" ({denial.detail})"
            message = f"A visitor of the page was refused: {denial.message}{detail}{how_often(count)}"
            self._events.emit("page.denied", "firecron", logging.WARNING, message, status=denial.status, count=count)
        challenge = self._authenticator.challenge
        headers = {"WWW-Authenticate": challenge} if denial.status == 401 and challenge is not None else {}
        return problem(denial.status, _WORDS[denial.status], denial.message, headers)

    def _broken(self, error: Exception) -> SiteReply:
        count = self._seldom.count(type(error).__name__)
        if count is not None:
            message = f"A request to the page could not be served: {described(error)}{how_often(count)}"
            self._events.emit("page.failed", "firecron", logging.ERROR, message, error, count=count)
        # An error of firecron's is meant for the visitor. Any other error is a defect, with a text for the log only.
        said = str(error) if isinstance(error, FirecronError) else "the page could not be served; see the log"
        return problem(500, "error", said)


def _with_slash(request: SiteRequest) -> SiteReply:
    """Redirect from the mount to the page below it, relative to wherever a proxy shows it."""
    last = quote(request.full_path.rpartition("/")[2], safe="")
    query = f"?{request.query}" if request.query else ""
    return SiteReply(307, b"", {"Location": f"./{last}/{query}" if last else f"./{query}"})


def _fields(body: bytes | None) -> dict[str, object] | SiteReply:
    if body is None:
        return problem(413, "too_large", f"the body has more than {MOST_BODY} bytes")
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return problem(400, "bad_request", "the body is not JSON")
    if not isinstance(found, dict):
        return problem(400, "bad_request", "the body is not a JSON object")
    return found
