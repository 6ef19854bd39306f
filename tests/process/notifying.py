"""What the tests of messages about jobs share: a fleet in virtual time, whose channels are real."""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any, cast

from tests.process.channel_server import ChannelServer

from firecron import FireCron, distributed_cron
from firecron.base.events import Event
from firecron.base.instants import to_datetime
from firecron.jobs.catalogue import declared
from firecron.notify import notify
from firecron.settings import load
from firecron.testing import FakeTiming, MemoryStore

MINUTE, HOUR = 60, 3_600
ABOUT = {"description": "Sends the digest", "owner": "mail <team>", "runbook": "https://wiki.example.com/digest"}


class Fleet:
    """Instances with one database in virtual time. Their outboxes are real, and so are the channels."""

    def __init__(self, server: ChannelServer) -> None:
        self.server = server
        self.timing = FakeTiming()
        self.store = MemoryStore(self.timing.now)
        self.group(alive=True)
        self.instances: list[Instance] = []

    def instance(self, *channels: str, page_url: str | None = None, **options: Any) -> Instance:
        made = Instance(self, channels or ("slack",), page_url, options)
        self.instances.append(made)
        return made

    def group(self, *, alive: bool) -> None:
        """Have a live group of instances with the job, or one that is gone."""
        seen = self.timing.now() + 900_000_000 if alive else 1
        node = {"seenAt": seen, "jobs": "digest", "service": "local", "heartbeat": 30}
        self.store.set("cron-groups/0123456789abcdef", node)

    def look(self, *instances: Instance, after: float = 300) -> None:
        """Let time pass, and have these instances look, or all of them."""
        self.timing.advance(after)
        for instance in instances or self.instances:
            for look in instance.crons.engine.lateness.rounds:
                look()
            instance.flush()

    def told(self) -> dict[str, Any]:
        found = self.store.get("cron-told/digest")
        assert isinstance(found, dict)
        return found

    def titles(self, channel: str = "slack") -> list[str]:
        return [one.message["text"] for one in self.server.of(channel)]


class Instance:
    """One of them, with a job that does what `body` does."""

    def __init__(self, fleet: Fleet, channels: tuple[str, ...], page_url: str | None, options: dict[str, Any]) -> None:
        self.fleet = fleet
        self.body: Callable[[], None] = lambda: None
        self.waits = True
        enabled = options.pop("enabled", True)
        given = {"alert_after": 1, **ABOUT, **options}

        @distributed_cron("digest", "0 9 * * *", **given)
        def job() -> None:
            self.body()

        self.crons = FireCron(
            job, store=fleet.store, timing=fleet.timing, settings=load(), enabled=enabled, has_threads=False
        )
        self.events: list[Event] = []
        self.crons.events.subscribe(self.events.append)
        entry = declared(
            self.crons.registry.get("digest").options, where="jobs", ticks=True, service="local", revision="r"
        )
        fleet.store.set("cron-jobs/digest", {**entry.to_node(), "since": fleet.timing.now(), "declaredAt": 1})
        self.urls = {channel: fleet.server.url(channel) for channel in channels}
        self.end = notify(self.crons, page_url=page_url, **self.urls)

    @property
    def notifier(self) -> Any:
        """What looks at the jobs, and has the messages sent."""
        return cast("MethodType", self.crons.engine.lateness.rounds[0]).__self__

    def flush(self) -> None:
        """Return when nothing waits to be sent any more, unless nobody `waits` for that."""
        if self.waits:
            self.notifier.outbox.flush()

    def run(self, error: Exception | None = None) -> None:
        """Run the next tick, which fails with this error."""

        def body() -> None:
            if error is not None:
                raise error

        self.body = body
        self.fleet.timing.advance(MINUTE)
        self.crons.registry.trigger("digest", slot=self.crons.engine.now() or to_datetime(self.fleet.timing.now()))
        self.flush()

    def said(self, *slugs: str) -> list[Event]:
        return [event for event in self.events if event.slug in slugs]


def failing(fleet: Fleet) -> Instance:
    """An instance whose job fails."""
    instance = fleet.instance("slack")
    instance.run(ValueError("no mail"))
    return instance
