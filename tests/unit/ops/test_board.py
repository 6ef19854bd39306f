"""The report that all share: how often the database is read, and what is shared while it is away."""

from __future__ import annotations

from tests.unit.lock.records import NOW
from tests.unit.locks import lock_of
from tests.unit.ops.declared import JOB

from firecron.base.clocks import Deadline
from firecron.base.flag import begin_child
from firecron.errors import Denied, Unavailable
from firecron.lock.fields import hold_name
from firecron.lock.holds import JobHold, held
from firecron.locks import LockService
from firecron.ops.board import Board, Shared
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
        self.told: list[str] = []
        locks.events.subscribe(lambda event: self.told.append(event.slug))


HOUR, DAY = 3_600_000, 86_400_000
ALL = ["cron-groups", "cron-jobs", "cron-hold", "cron-mutes", "cron-locks"]
MOVING = ["cron-groups", "cron-locks"]


def test_a_report_is_shared_for_ten_seconds() -> None:
    """Within them nothing is read; after them the locks and the groups are, and the catalogue after five minutes."""
    bench = Bench()
    assert [one.word for one in bench.board.report().verdicts] == ["unattended"]
    assert bench.store.taken() == ALL
    bench.timing.advance(9.9)
    bench.board.report()
    assert bench.store.taken() == []
    bench.timing.advance(0.1)
    bench.store.set("cron-jobs/digest/disabled", True)
    assert [one.word for one in bench.board.report().verdicts] == ["unattended"]
    assert bench.store.taken() == MOVING
    bench.timing.advance(290)
    assert [one.word for one in bench.board.report().verdicts] == ["paused"]
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
    assert bench.board.report().status == "ok"
    bench.timing.advance(100)
    assert bench.board.report().status == "ok"
    bench.store.set("cron-jobs/digest/line", "0 10 * * *")
    bench.store.set("cron-groups/1", group)
    bench.store.taken()
    for reads in (ALL, MOVING):
        bench.timing.advance(60)
        assert bench.board.report().status == "ok"
        assert bench.store.taken() == reads
        bench.store.set("cron-groups/0", None)
    bench.timing.advance(HOUR / 1000)
    assert bench.board.report().status == "failing", "by the line of now"


def test_a_hold_that_pauses_locks_shows_that_the_holds_are_old() -> None:
    """They are read with the catalogue: anew once other holds pause the locks than before, and not before that."""
    bench = Bench()
    hold = JobHold(hold_name("0000", "ann", NOW), "ann", NOW, NOW + HOUR, "migrating")
    assert bench.board.jobs().holds == ()
    bench.store.set(f"cron-hold/{hold.name}", hold.to_node())
    for lock, names in ((held(None, NOW, hold), [hold.name]), (None, [])):
        bench.store.set("cron-locks/digest", lock)
        if lock is None:
            bench.store.set("cron-hold", None)
        bench.timing.advance(3)
        assert [view.hold.name for view in bench.board.jobs().holds] == names
        assert "cron-hold" in bench.store.taken()
        bench.timing.advance(3)
        bench.board.jobs()
        assert "cron-hold" not in bench.store.taken()


def test_what_is_read_for_the_page_is_there_for_the_report() -> None:
    """And the other way round, as long as it is young enough for who asks: the locks for three seconds."""
    bench = Bench()
    bench.board.jobs()
    assert bench.store.taken() == ["cron-asks", *ALL]
    bench.board.report()
    assert bench.store.taken() == []
    bench.timing.advance(10)
    bench.board.report()
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
    assert bench.board.report().status == "ok"
    assert bench.store.taken() == ["cron-locks"]
    bench.timing.advance(10)
    assert [one.word for one in bench.board.report().alarms] == ["unattended"]


def test_a_failure_is_shared_and_told_once() -> None:
    """A database that is away is asked once in ten seconds, the event is of the outage, and its end is noticed."""
    bench = Bench()
    bench.store.is_away = True
    for _ in range(3):
        report = bench.board.report()
        assert (report.status, report.verdicts) == ("unknown", ())
        assert bench.store.taken() == ["cron-groups"]
        assert bench.board.report() is report
        bench.timing.advance(10)
        bench.store.taken()
    assert bench.told == ["health.unknown"]
    bench.store.is_away = False
    assert bench.board.report().status == "failing"
    bench.store.is_away = True
    bench.timing.advance(10)
    assert bench.board.report().status == "unknown"
    assert bench.told == ["health.unknown"] * 2


def test_what_a_page_shows_is_read_for_a_minute() -> None:
    """The newest entry of a job that is asked for, when its lock changes. A name that no job has costs nothing."""
    bench = Bench()
    bench.store.set("cron-groups/0", {"seenAt": NOW + DAY, "service": "api"})
    woken: list[None] = []
    bench.board.follow(wake := lambda: woken.append(None))
    ran = {"acquiredAt": NOW, "releasedAt": NOW, "expiresAt": NOW, "outcome": "succeeded", "holder": "a"}
    notes = []
    looks: tuple[tuple[float, int, list[str]], ...]
    looks = ((0, 1, ["nobody"]), (0, 1, ["digest"]), (1, 1, []), (59, 1, []), (9, 2, []), (0, 2, ["digest"]))
    for seconds, fence, names in looks:
        bench.timing.advance(seconds)
        bench.store.set("cron-locks/digest", {**ran, "fence": fence})
        bench.board.show(names)
        bench.store.set("cron-runs/digest/2026-11-18T09:00:00Z", {"outcome": "succeeded", "fence": fence, "note": "x"})
        (row,) = bench.board.jobs().rows
        notes.append(row.last and row.last.note)
    assert notes == [None, "x", "x", "x", None, "x"]
    assert len(woken) == 2
    bench.board.unfollow(wake)


def test_groups_that_can_not_be_read_are_no_alarm() -> None:
    """Whose rules are older than the groups: nobody knows who has the job."""
    bench = Bench()
    bench.store.denied = "cron-groups"
    bench.store.set("cron-jobs/digest/since", NOW)
    for _ in range(2):
        assert bench.board.report().status == "ok"
        bench.timing.advance(10)
    assert bench.told == []


def test_a_forked_child_does_not_wait_for_its_parent() -> None:
    """A thread that only the parent has may be at it just then."""
    shared = Shared(len, FakeTiming(), 3)
    lock_of(shared).acquire()
    begin_child()
    assert shared.get("name") == 4
