"""Pages for tests: raw requests over each framework, and a database with jobs in it."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from tests.simulation.chance import Chance

from firecron import FireCron
from firecron.base.events import Event
from firecron.cron.schedule import Schedule
from firecron.jobs.catalogue import Declared
from firecron.settings import load
from rtdb_emulator.pytest_plugin import Rtdb

Shell: TypeAlias = Literal["asgi"]
SHELLS: tuple[Shell, ...] = ("asgi",)
# What the page's own script sends with a POST.
OWN = {"Sec-Fetch-Site": "same-origin", "Content-Type": "application/json"}
OPEN: dict[str, Any] = {"open_to_all": "read"}


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str]
    raw: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.raw)

    @property
    def said(self) -> tuple[int, str]:
        """The status, and the word for what was wrong."""
        return self.status, self.body["error"]


def basic(user: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


def asgi_call(
    app: Any,
    method: str,
    path: str,
    headers: Iterable[tuple[str, str]] = (),
    body: bytes = b"",
    **scope: Any,
) -> Reply:
    """One request to an ASGI application, on an event loop of its own."""
    sent: list[dict[str, Any]] = []
    parts = [body[:10], body[10:]]

    async def receive() -> dict[str, Any]:
        part = parts.pop(0)
        return {"type": "http.request", "body": part, "more_body": bool(parts)}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    raw = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers]
    path, _, query = path.partition("?")
    made = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": raw,
        "root_path": "",
        "scheme": "http",
        "client": ("127.0.0.1", 1),
        **scope,
    }
    asyncio.run(app(made, receive, send))
    start, *rest = sent
    shown = {name.decode(): value.decode("latin-1") for name, value in start["headers"]}
    return Reply(start["status"], shown, b"".join(part["body"] for part in rest))


class Page:
    """One instance with a page, and how it is called; `events` are what it said."""

    def __init__(
        self, *jobs: object, shell: Shell = "asgi", settings: Mapping[str, Any] | None = None, **access: Any
    ) -> None:
        self.crons = FireCron(*jobs, enabled=False, settings=load(**(settings or {})), chance=Chance())
        self.events: list[Event] = []
        self.crons.events.subscribe(self.events.append)
        self.app = self.crons.status_app(**(access or OPEN))

    def call(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes = b"", **scope: Any
    ) -> Reply:
        given = {"Host": "page.example", **(headers or {})}
        return asgi_call(self.app, method, f"/crons{path}", given.items(), body, **{"root_path": "/crons", **scope})

    def get(self, path: str, headers: Mapping[str, str] | None = None, **scope: Any) -> Reply:
        return self.call("GET", path, headers, **scope)

    def post(self, path: str, body: object = None, headers: Mapping[str, str] | None = None, **scope: Any) -> Reply:
        """A POST as the page's own script sends it."""
        return self.call("POST", path, {**OWN, **(headers or {})}, json.dumps(body or {}).encode(), **scope)

    def said(self, slug: str) -> list[Event]:
        return [event for event in self.events if event.slug == slug]


def declare(rtdb: Rtdb, name: str, line: str = "0 9 * * *", **fields: Any) -> None:
    """Put a job into the catalogue, as a program that has it does, and into a group that is alive."""
    schedule = fields.pop("schedule", None) or Schedule(line, fields.pop("timezone", "UTC"))
    declared = Declared(
        **{
            "name": name,
            "schedule": schedule,
            "grace": 60_000,
            "overlap": "skip",
            "catch_up": "skip",
            "once_per_tick": True,
            "disabled": False,
            "expected_runtime": None,
            "alert_after": 1,
            "role": None,
            "where": "shop.jobs:digest (shop/jobs.py:7)",
            "ticks": True,
            "service": "shop",
            "revision": "shop-00042",
            "since": 1_600_000_000_000,
            "declared_at": 1_600_000_000_000,
            **fields,
        }
    )
    rtdb.set(f"/cron-jobs/{name}", declared.to_node())


def attend(rtdb: Rtdb, *names: str, service: str = "shop") -> None:
    """Let a live group of instances have these jobs."""
    now = int(time.time() * 1000)
    rtdb.set(
        "/cron-groups/group-1",
        {"seenAt": now, "firstSeenAt": now - 60_000, "service": service, "jobs": " ".join(names)},
    )
