"""The report that all share: how often the database is read, and what is shared while it is away."""

from __future__ import annotations

from tests.unit.lock.records import NOW
from tests.unit.locks import lock_of
from tests.unit.ops.declared import JOB

from firecron.base.clocks import Deadline
from firecron.base.flag import begin_child
from firecron.errors import Denied, Unavailable
from firecron.locks import LockService
from firecron.ops.board import Board, HealthReport
from firecron.settings import load
from firecron.store import Snapshot
from firecron.testing import FakeTiming, MemoryStore


class Counting(MemoryStore):
    """Counts the reads of each path, and fails while it is away."""

    def __init__(self, timing: FakeTiming) -> None:
        super().__init__(timing.now)
        self.reads: list[str] = []
        self.is_away = False
        self.denied = ""

    def read(self, path: str, deadline: Deadline) -> Snapshot:
        self.reads.append(path)
        if self.is_away:
            raise Unavailable("away")
        if path == self.denied:
            raise Denied("no")
        return super().read(path, deadline)

    def taken(self) -> list[str]:
        """The reads since the last call."""
        reads, self.reads = self.reads, []
        return reads


class Bench:
    def __init__(self) -> None:
        self.timing = FakeTiming(wall=NOW)
        self.store = Counting(self.timing)
        self.store.set("cron-jobs/digest", JOB.to_node())
        locks = LockService(settings=load(), store=self.store, timing=self.timing, has_threads=False)
        self.board = Board(locks.database)
        self.report = HealthReport(self.board)
        self.told: list[str] = []
        locks.events.subscribe(lambda event: self.told.append(event.slug))


HOUR, DAY = 3_600_000, 86_400_000
ALL, MOVING = ["cron-groups", "cron-jobs", "cron-locks"], ["cron-groups", "cron-locks"]


def test_a_report_is_shared_for_ten_seconds() -> None:
    """Within them nothing is read; after them the locks and the groups are, and the catalogue after five minutes."""
    bench = Bench()
    assert [one.word for one in bench.report.get().verdicts] == ["unattended"]
    assert bench.store.taken() == ALL
    bench.timing.advance(9.9)
    bench.report.get()
    assert bench.store.taken() == []
    bench.timing.advance(0.1)
    bench.store.set("cron-jobs/digest/disabled", True)
    assert [one.word for one in bench.report.get().verdicts] == ["unattended"]
    assert bench.store.taken() == MOVING
    bench.timing.advance(290)
    assert [one.word for one in bench.report.get().verdicts] == ["paused"]
    assert bench.store.taken() == ALL
    assert bench.told == []


def test_a_new_group_of_instances_shows_that_the_catalogue_is_old() -> None:
    """A revision that has moved a job's line is deployed: its entry is read, so no tick is late by the old line. That
    a group ends shows nothing.
    """
    bench = Bench()
    group: dict[str, object] = {"seenAt": NOW + DAY, "jobs": "digest", "service": "api"}
    bench.store.set("cron-groups/0", group)
    bench.store.set("cron-jobs/digest/since", NOW - HOUR)
    assert bench.report.get().status == "ok"
    bench.timing.advance(100)
    assert bench.report.get().status == "ok"
    bench.store.set("cron-jobs/digest/line", "0 10 * * *")
    bench.store.set("cron-groups/1", group)
    bench.store.taken()
    for reads in (ALL, MOVING):
        bench.timing.advance(60)
        assert bench.report.get().status == "ok"
        assert bench.store.taken() == reads
        bench.store.set("cron-groups/0", None)
    bench.timing.advance(HOUR / 1000)
    assert bench.report.get().status == "failing", "by the line of now"


def test_what_is_read_for_the_page_is_there_for_the_report() -> None:
    """And the other way round, as long as it is young enough for who asks: the locks for three seconds."""
    bench = Bench()
    bench.board.jobs()
    assert bench.store.taken() == ALL
    bench.report.get()
    assert bench.store.taken() == []
    bench.timing.advance(10)
    bench.report.get()
    assert bench.store.taken() == MOVING
    for seconds, reads in ((2.9, []), (0.1, []), (1, ["cron-locks"])):
        bench.timing.advance(seconds)
        bench.board.jobs()
        assert bench.store.taken() == reads


def test_a_group_that_was_live_when_it_was_read_is_no_alarm() -> None:
    """However fast its heartbeat: nobody has looked since whether it goes on. One that was silent is an alarm."""
    bench = Bench()
    bench.store.set("cron-jobs/digest/since", NOW)
    bench.store.set("cron-groups/0", {"seenAt": NOW, "service": "api", "heartbeat": 1})
    bench.board.jobs()
    bench.timing.advance(9)
    bench.store.taken()
    assert bench.report.get().status == "ok"
    assert bench.store.taken() == ["cron-locks"]
    bench.timing.advance(10)
    assert [one.word for one in bench.report.get().alarms] == ["unattended"]


def test_a_failure_is_shared_and_told_once() -> None:
    """A database that is away is asked once in ten seconds, the event is of the outage, and its end is noticed."""
    bench = Bench()
    bench.store.is_away = True
    for _ in range(3):
        report = bench.report.get()
        assert (report.status, report.verdicts, bench.report.evaluate()) == ("unknown", (), None)
        assert bench.store.taken() == ["cron-groups"]
        assert bench.report.get() is report
        bench.timing.advance(10)
        bench.store.taken()
    assert bench.told == ["health.unknown"]
    bench.store.is_away = False
    assert bench.report.get().status == "failing"
    bench.store.is_away = True
    bench.timing.advance(10)
    assert bench.report.get().status == "unknown"
    assert bench.told == ["health.unknown"] * 2


def test_what_is_late_is_told_with_its_age() -> None:
    """To the rounds: the first late tick, and for how long it is late by RTDB's time; of another job neither."""
    bench = Bench()
    bench.store.set("cron-jobs/digest/since", NOW - DAY)
    bench.store.set("cron-jobs/fine", {**JOB.to_node(), "since": NOW})
    bench.store.set("cron-groups/0", {"seenAt": NOW + DAY, "service": "api"})
    bench.timing.advance(150)
    assert [(one.job, one.verdict, one.slot, one.age) for one in bench.report.evaluate() or ()] == [
        ("digest", "late", "2026-11-18T09:00:00Z", 30_000),
        ("fine", "ok", None, 0),
    ]


def test_groups_that_can_not_be_read_are_no_alarm() -> None:
    """Whose rules are older than the groups: nobody knows who has the job."""
    bench = Bench()
    bench.store.denied = "cron-groups"
    bench.store.set("cron-jobs/digest/since", NOW)
    for _ in range(2):
        assert bench.report.get().status == "ok"
        bench.timing.advance(10)
    assert bench.told == []


def test_a_forked_child_does_not_wait_for_its_parent() -> None:
    """A thread that only the parent has may be at it just then."""
    bench = Bench()
    lock_of(bench.report).acquire()
    begin_child()
    assert bench.report.get().problem is None
