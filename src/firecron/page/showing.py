"""What a GET returns: the page's files, and the JSON that the page shows.

The reply with all jobs has an ETag, so that a browser that polls gets it again only if it has changed.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from urllib.parse import parse_qs

from firecron.base.instants import to_text
from firecron.errors import ConfigurationError, Denied, Malformed, StoreError, Unavailable, UnknownJob
from firecron.lock.names import check_name
from firecron.ops.health_report import HealthReport
from firecron.page.board import Board
from firecron.page.details import Details
from firecron.page.files import page_file
from firecron.page.jobs_json import Json, jobs_json
from firecron.page.messages import PageRequest, Reply, as_json, problem
from firecron.page.routes import Route
from firecron.page.visitor import Access
from firecron.triggers.responses import of_health

MOST_STRIPS = 100
_AT_A_TIME = 8


class Showing:
    """Makes the replies to GET. `database` names the database for people."""

    def __init__(
        self, board: Board, details: Details, health: HealthReport, database: Callable[[], str], *, read_only: bool
    ) -> None:
        self._board = board
        self._details = details
        self._health = health
        self._database = database
        self._read_only = read_only

    def show(self, route: Route, request: PageRequest, access: Access, *, can_act: bool) -> Reply:
        """Return the reply to a request that is allowed."""
        try:
            match route.kind:
                case "file":
                    return page_file(request.path)
                case "jobs":
                    return self._jobs(request, access, can_act=can_act)
                case "job":
                    return as_json(200, self._details.job(route.name))
                case "strip":
                    return as_json(200, {"job": route.name, "ticks": self._details.strip(route.name)})
                case "strips":
                    return self._strips(request)
                case "instances":
                    return as_json(200, self._details.instances())
                case "acts":
                    return as_json(200, self._details.acts())
                case "health":
                    found = of_health(self._health.get())
                    return as_json(found.status, found.body, found.headers)
                case "events":
                    # Without a stream: to an EventSource it says not to come back, and no browser logs it as an error.
                    return Reply(204, b"")
                case other:
                    raise AssertionError(f"{other} is no route of a GET")
        except UnknownJob as error:
            return problem(404, "unknown_job", str(error))
        except StoreError as error:
            return store_problem(error)

    def _jobs(self, request: PageRequest, access: Access, *, can_act: bool) -> Reply:
        seen = self._board.look()
        found = jobs_json(seen)
        fields: Json = {
            "visitor": {"who": access.who, "canAct": can_act},
            "readOnly": self._read_only,
            "database": self._database(),
        }
        # As with the stream, a renewal is no news.
        digest = sha256(json.dumps([fields, *found.essence()]).encode()).hexdigest()
        etag = f'W/"{digest[:32]}"'
        if etag in (one.strip() for one in request.headers.get("if-none-match", "").split(",")):
            return Reply(304, b"", {"ETag": etag})
        return as_json(200, {"now": to_text(seen.now), **fields, **found.to_json()}, {"ETag": etag})

    def _strips(self, request: PageRequest) -> Reply:
        given = parse_qs(request.query).get("names", [""])[0]
        try:
            names = [check_name(name) for name in given.split(",") if name][:MOST_STRIPS]
        except ConfigurationError as error:
            return problem(400, "bad_request", str(error))
        with ThreadPoolExecutor(_AT_A_TIME) as pool:
            strips = dict(zip(names, pool.map(self._details.strip, names), strict=True))
        return as_json(200, {"strips": strips})


def store_problem(error: StoreError) -> Reply:
    """Return the reply to an error of the database."""
    if isinstance(error, Unavailable):
        return problem(503, "unavailable", str(error), {"Retry-After": "5"})
    word = "denied" if isinstance(error, Denied) else "malformed" if isinstance(error, Malformed) else "error"
    return problem(500, word, str(error))
