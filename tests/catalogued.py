"""Jobs in a catalogue, with their locks, histories and groups, as the tools find them."""

from __future__ import annotations

import time

from firecron.base.instants import to_text
from firecron.cron.schedule import Schedule
from firecron.jobs.catalogue import group_fields
from rtdb_emulator.pytest_plugin import Rtdb

DAY = 86_400_000
HOUR = 3_600_000
# A line that has no tick near now: nothing becomes late while a test runs.
RARELY = "0 0 29 2 *"


def now() -> int:
    """The time of the emulator's clock, which is this machine's."""
    return time.time_ns() // 1_000_000


class Catalogue:
    """A database with jobs of one service, and one group that has all of them."""

    def __init__(self, rtdb: Rtdb) -> None:
        self._rtdb = rtdb
        self.names: list[str] = []

    def declare(self, name: str, line: str = RARELY, **fields: object) -> None:
        """Put a job into the catalogue, and into the group unless it is disabled."""
        entry: dict[str, object] = {
            "line": line,
            "timezone": "America/New_York",
            "since": now() - 5 * DAY,
            "grace": 60,
            "where": "jobs.job (jobs.py:5)",
            "service": "api",
            "revision": "api-00042-abc",
            "declaredAt": now() - DAY,
            **fields,
        }
        self._rtdb.set(f"/cron-jobs/{name}", {key: value for key, value in entry.items() if value is not None})
        self.names += [] if fields.get("disabled") else [name]
        self.beat()

    def dissent(self, name: str, ago: int = 0, service: str = "api") -> None:
        """Have another group of instances run the job by another schedule."""
        told = group_fields({name: Schedule("* * * * *")}, service, 30)
        self._rtdb.set("/cron-groups/fedcba9876543210", {**told, "beats": 3, "seenAt": now() - ago})

    def beat(self, ago: int = 0, first_ago: int = HOUR) -> None:
        """Have the group be seen so many milliseconds ago."""
        self._rtdb.set(
            "/cron-groups/0123456789abcdef",
            {
                "beats": 5,
                "seenAt": now() - ago,
                "firstSeenAt": now() - first_ago,
                "service": "api",
                "jobs": " ".join(self.names),
                "heartbeat": 30,
            },
        )

    def ran(self, name: str, ago: int = HOUR, outcome: str = "succeeded", **fields: object) -> str:
        """Have a tick of the job be run so many milliseconds ago, and return it."""
        began = now() - ago
        slot = to_text(began)
        where = {"instanceId": "api-00042-abc", "instance": "00bf4b9c3f2a", "attempt": 1, "fence": began}
        node = {"acquiredAt": began, "expiresAt": began + 1_500, "releasedAt": began + 1_500, "holder": "secret"}
        self._rtdb.set(f"/cron-locks/{name}", {**node, **where, "slot": slot, "outcome": outcome, **fields})
        entry = {"outcome": outcome, "slot": slot, "trigger": "schedule", "startedAt": began, "endedAt": began + 1_500}
        self._rtdb.set(f"/cron-runs/{name}/{slot}", {**entry, **where, "durationMs": 1_500})
        return slot
