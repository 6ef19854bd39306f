"""The page live: one look for all who watch, what they are told, and how little the database is asked."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.page.paging import attend, declare, declare_live, now, until

from firecron import LockService
from firecron.base.instants import to_text
from firecron.lock.waiting import SILENT, Follow, Update, on_thread
from firecron.ops.board import Board
from firecron.page.live import MOST_VIEWERS, Live, Viewer
from firecron.page.reads import Code
from firecron.settings import load
from firecron.testing.clocks import FakeTiming
from rtdb_emulator.pytest_plugin import Rtdb

MINUTE = 60_000


class Told:
    """The streams of a LockService, which tell what the test says; `follows` are those that are told now."""

    def __init__(self, rtdb: Rtdb) -> None:
        self._rtdb = rtdb
        self.follows: list[Follow] = []
        self.opened = 0

    def abandon(self) -> None:
        """Do nothing: a test beside this one may fork."""

    def add(self, follow: Follow) -> None:
        self.follows.append(follow)
        self.opened += 1
        follow.update = Update(self.opened, self._rtdb.get("/cron-locks"))

    def discard(self, follow: Follow) -> None:
        self.follows.remove(follow)
        follow.update = None

    def tell(self) -> None:
        """As the database does after a change."""
        for follow in self.follows:
            assert follow.update is not None
            follow.update = Update(follow.update.number + 1, self._rtdb.get("/cron-locks"))
            follow.wake()


class Watching:
    """A page that is kept live on a clock that the test moves. Without `has_thread` the test says when it looks."""

    def __init__(self, rtdb: Rtdb, *, is_told: bool = True, has_thread: bool = False) -> None:
        self.clock = FakeTiming(wall=now())
        self.locks = LockService(settings=load(), timing=self.clock, has_threads=False)
        self.streams = Told(rtdb)
        if is_told:
            self.locks.database.streams = self.streams  # type: ignore[assignment]  # it has what a follower needs
        self.board = Board(self.locks.database)
        begin = on_thread if has_thread else lambda run: None
        self.live = Live(self.board, Code(), self.clock, begin=begin)
        if not has_thread:
            self.board.follow(lambda: None)

    def join(self) -> tuple[Viewer, list[Any]]:
        told: list[Any] = []
        viewer = self.live.join(lambda message: told.append(parsed(message)))
        assert viewer is not None
        return viewer, told

    def look(self, seconds: float = 5) -> None:
        self.clock.advance(seconds)
        self.live.refresh()


def watched(rtdb: Rtdb, *, is_told: bool = True) -> tuple[Watching, list[Any]]:
    """A page that has looked once, and what its one viewer is told."""
    page = Watching(rtdb, is_told=is_told)
    _, told = page.join()
    page.look()
    return page, told


def parsed(message: bytes | None) -> tuple[str, Any] | None:
    """The name of an event and its data; None is the end."""
    if message is None:
        return None
    first, second = message.decode().removesuffix("\n\n").split("\n")
    return first.removeprefix("event: "), json.loads(second.removeprefix("data: "))


def held(rtdb: Rtdb, name: str = "digest", **fields: Any) -> None:
    at = now()
    lock = {"slot": to_text(at), "unfinished": to_text(at), "acquiredAt": at, "expiresAt": at + MINUTE, "fence": at}
    rtdb.set(f"/cron-locks/{name}", {**lock, "holder": "a", "instance": "00bf", **fields})


# --- what is told


def test_the_first_message_has_everything_and_the_others_what_changed(rtdb: Rtdb) -> None:
    """A viewer begins with all jobs, leaders and locks; then only rows come that have changed, and those that are
    gone.
    """
    declare_live(rtdb, "digest", "import", "report")
    page, told = watched(rtdb)
    [(event, first)] = told
    assert (event, set(first)) == ("jobs", {"now", "jobs", "gone", "leaders", "locks", "holds"})
    assert [row["job"] for row in first["jobs"]] == ["digest", "import", "report"]
    page.look()
    assert len(told) == 1
    held(rtdb, "import")
    held(rtdb, "queue", kind="leader", slot=None, unfinished=None)
    page.streams.tell()
    page.look()
    [_, (_, second)] = told
    assert [(row["job"], row["verdict"]) for row in second["jobs"]] == [("import", "running")]
    assert [view["name"] for view in second["leaders"]] == ["queue"]
    assert set(second) == {"now", "jobs", "gone", "leaders"}
    rtdb.set("/cron-jobs/report", None)
    page.look(301)
    assert (told[-1][1]["gone"], len(told)) == (["report"], 3)


def test_a_renewal_is_no_news(rtdb: Rtdb) -> None:
    """A lock that is renewed ends later, and that alone is not passed on; its release is."""
    declare_live(rtdb, "digest")
    held(rtdb)
    held(rtdb, "queue", kind="leader", slot=None, unfinished=None)
    page, told = watched(rtdb)
    for seconds in (10, 20, 30):
        for name in ("digest", "queue"):
            rtdb.set(f"/cron-locks/{name}/expiresAt", now() + MINUTE + seconds * 1000)
        page.streams.tell()
        page.look(1)
    assert len(told) == 1
    lock: Any = rtdb.get("/cron-locks/digest")
    rtdb.set("/cron-locks/digest", {**lock, "releasedAt": now(), "expiresAt": now()})
    page.streams.tell()
    page.look(1)
    assert [row["lock"]["state"] for row in told[-1][1]["jobs"]] == ["free"]


def test_a_job_that_becomes_late_is_told_although_nothing_changes(rtdb: Rtdb) -> None:
    """Time alone makes a job late, or nobody attend it."""
    declare(rtdb, "digest", "* * * * *", since=now(), ticks=False)
    page = Watching(rtdb)
    _, told = page.join()
    page.look(0)
    assert told[0][1]["jobs"][0]["verdict"] == "ok"
    page.look(300)
    assert told[-1][1]["jobs"][0]["verdict"] == "late"


def test_an_entry_that_comes_after_the_release_is_told(rtdb: Rtdb) -> None:
    """A run's entry is written after its lock is released. Of a job that is shown it is looked for a few times, and is
    told when it is there; until then the lock tells how the run has ended.
    """
    declare_live(rtdb, "digest")
    held(rtdb)
    before_it = {"outcome": "succeeded", "slot": "2026-01-01T09:00:00Z", "fence": 1, "durationMs": 9}
    rtdb.set("/cron-runs/digest/2026-01-01T09:00:00Z", before_it)
    page, told = watched(rtdb)
    assert told[-1][1]["jobs"][0]["last"]["outcome"] == "succeeded"
    page.board.show(["digest"])
    lock: Any = rtdb.get("/cron-locks/digest")
    rtdb.set("/cron-locks/digest", {**lock, "releasedAt": now(), "outcome": "failed"})
    page.streams.tell()
    page.look(0.2)
    last = told[-1][1]["jobs"][0]["last"]
    assert (last["outcome"], last.get("key"), last["fence"]) == ("failed", None, lock["fence"])
    assert page.board.again_at <= page.clock.mono() + 300
    entry = {"outcome": "failed", "slot": lock["slot"], "fence": lock["fence"], "durationMs": 9}
    rtdb.set(f"/cron-runs/digest/{lock['slot']}", entry)
    page.look(0.4)
    [*_, (_, newest)] = told
    assert newest["jobs"][0]["last"]["key"] == lock["slot"]
    before = rtdb.count(path="/cron-runs/*")
    for _ in range(20):
        page.look(5)
    assert rtdb.count(path="/cron-runs/*") == before


def test_an_entry_that_never_comes_is_not_looked_for_for_ever(rtdb: Rtdb) -> None:
    """A history that could not be written is asked some times, and then left alone."""
    at = now()
    declare(rtdb, "digest", since=at)
    attend(rtdb, "digest")
    node = {"slot": to_text(at), "acquiredAt": at, "releasedAt": at, "expiresAt": at, "fence": at, "outcome": "failed"}
    rtdb.set("/cron-locks/digest", node)
    page = Watching(rtdb)
    page.join()
    for _ in range(100):
        page.look(5)
    assert 2 <= rtdb.count(path="/cron-runs/*") <= 8


def test_nobody_is_missed_because_of_an_old_look(rtdb: Rtdb) -> None:
    """The groups are read each minute. One that lived then counts as alive until it is read again, however short its
    heartbeat is; and then its silence is told.
    """
    declare(rtdb, "digest", since=now())
    group = {"seenAt": now(), "service": "shop", "jobs": "digest", "heartbeat": 1}
    rtdb.set("/cron-groups/group-1", group)
    page = Watching(rtdb)
    _, told = page.join()
    for _ in range(5):
        page.look(10)
    assert [[row["verdict"] for row in value["jobs"]] for _, value in told] == [["ok"]]
    page.look(20)
    assert [row["verdict"] for row in told[-1][1]["jobs"]] == ["unattended"]


def test_the_jobs_of_a_deployment_are_seen_within_a_minute(rtdb: Rtdb) -> None:
    """The catalogue is read every five minutes; instances with other jobs show that it is old."""
    declare_live(rtdb, "digest")
    page, told = watched(rtdb)
    declare(rtdb, "report", since=now())
    page.look(50)
    assert len(told) == 1
    group = {"seenAt": now() + MINUTE, "service": "shop", "jobs": "digest report"}
    rtdb.set("/cron-groups/group-2", group)
    page.look(15)
    assert [row["job"] for row in told[-1][1]["jobs"]] == ["report"]


# --- the database is away


def test_a_database_that_is_away_is_told_once_and_then_everything_again(rtdb: Rtdb) -> None:
    """All are told that it is away, and who comes meanwhile too; when it is back, all get everything."""
    declare_live(rtdb, "digest")
    page, told = watched(rtdb, is_told=False)
    with rtdb.faults.answer(503, times=None):
        page.look()
        page.look()
        _, late = page.join()
        page.look()
    assert [event for event, _ in told] == ["jobs", "away"]
    assert [event for event, _ in late] == ["away"]
    assert "503" in late[0][1]["message"] or late[0][1]["message"]
    page.look()
    for messages in (told, late):
        event, value = messages[-1]
        assert (event, [row["job"] for row in value["jobs"]], "locks" in value) == ("jobs", ["digest"], True)


@pytest.mark.parametrize("path", ["/cron-groups", "/cron-jobs"])
def test_a_database_that_was_away_at_first_is_soon_asked_again(rtdb: Rtdb, path: str) -> None:
    """What is read every minute, or every five, is read again as soon as the rest if it could not be read."""
    declare_live(rtdb, "digest")
    page = Watching(rtdb)
    _, told = page.join()
    with rtdb.faults.answer(503, path=path, times=None):
        page.look()
    page.look()
    assert [event for event, _ in told] == ["away", "jobs"]


def test_a_stream_that_may_be_dead_is_not_believed(rtdb: Rtdb) -> None:
    """A connection that is gone without a word leaves the stream silent: then the locks are read."""
    declare(rtdb, "digest", since=now())
    page, told = watched(rtdb)
    rtdb.set("/cron-locks/digest", {"paused": True})
    page.look()
    assert len(told) == 1
    [follow] = page.streams.follows
    follow.silence = lambda: SILENT
    page.look()
    assert [row["verdict"] for row in told[-1][1]["jobs"]] == ["paused"]


# --- what it costs


def test_requests_do_not_grow_with_viewers(rtdb: Rtdb) -> None:
    """Fifty who watch cost what one costs: nothing while the stream tells of no change, but the groups each minute and
    the catalogue every five: at most one request in 30 seconds.
    """
    declare_live(rtdb, *(f"job-{number}" for number in range(20)))
    page = Watching(rtdb)
    viewers = [page.join() for _ in range(MOST_VIEWERS)]
    page.look()
    assert {len(told) for _, told in viewers} == {1}
    before = rtdb.count()
    for _ in range(120):
        page.look(5)
    assert rtdb.count() - before <= 600 / 30
    assert rtdb.count(path="/cron-locks") == 0


def test_without_a_stream_the_locks_are_read_every_three_seconds_for_all(rtdb: Rtdb) -> None:
    """Where the database tells nothing, one read of the locks serves all who look within three seconds."""
    declare(rtdb, "digest", since=now())
    page = Watching(rtdb, is_told=False)
    for _ in range(10):
        page.join()
    for _ in range(60):
        page.look(1)
    assert rtdb.count(path="/cron-locks") <= 21


# --- viewers


def test_there_is_room_for_fifty(rtdb: Rtdb) -> None:
    """One more is refused, until somebody leaves; to leave twice is to leave once."""
    page = Watching(rtdb)
    viewers = [page.join()[0] for _ in range(MOST_VIEWERS)]
    assert page.live.join(lambda message: None) is None
    for _ in range(2):
        page.live.leave(viewers[0])
    assert page.live.viewers == MOST_VIEWERS - 1
    assert page.live.join(lambda message: None) is not None


def test_who_takes_nothing_is_left_behind(rtdb: Rtdb) -> None:
    """A viewer who takes no messages is ended, and the others are told on."""
    declare(rtdb, "digest", since=now())
    page = Watching(rtdb)
    (viewer, stuck), (other, told) = page.join(), page.join()
    for number in range(120):
        rtdb.set("/cron-locks/digest", {"paused": number % 2 == 0})
        page.streams.tell()
        page.look(1)
        other.took()
    assert (stuck[-1], stuck.count(None), len(stuck) < 120, page.live.viewers) == (None, 1, True, 1)
    assert (len(told), viewer.waiting > other.waiting) == (120, True)


def test_the_end_ends_all(rtdb: Rtdb) -> None:
    """At the end of the process each stream ends, and no other begins."""
    page = Watching(rtdb)
    everybody = [page.join()[1] for _ in range(3)]
    page.live.end()
    assert everybody == [[None]] * 3
    assert page.live.join(lambda message: None) is None


def test_one_page_of_a_program_ends_and_another_goes_on(rtdb: Rtdb) -> None:
    """They share a board, and each has its own follower: the last of them ends what is heard."""
    page = Watching(rtdb)
    wakes = [lambda number=number: number for number in range(2)]
    for wake in wakes:
        page.board.follow(wake)
    for wake in wakes:
        page.board.unfollow(wake)
        assert page.board.update is not None
    assert len(page.streams.follows) == 1


# --- the thread


def test_a_change_is_told_at_once_and_the_stream_stays_for_half_a_minute(rtdb: Rtdb) -> None:
    """The stream opens with the first viewer, a change is told without waiting for the next look, and the stream ends
    30 seconds after the last viewer.
    """
    declare_live(rtdb, "digest")
    page = Watching(rtdb, has_thread=True)
    viewer, told = page.join()
    until(lambda: len(told) == 1, "the first message")
    held(rtdb)
    page.streams.tell()
    page.clock.advance(0.5)
    until(lambda: len(told) == 2, "the claim")
    page.live.leave(viewer)
    page.clock.advance(29)
    again, more = page.join()
    until(lambda: len(more) == 1, "everything, by the same stream")
    assert page.streams.opened == 1
    page.live.leave(again)
    page.clock.advance(29)
    assert page.streams.follows != []
    until(lambda: not _after(page, 2), "the end of the stream")
    _, last = page.join()
    until(lambda: len(last) == 1, "everything, by another stream")
    assert page.streams.opened == 2


def _after(page: Watching, seconds: float) -> list[Follow]:
    page.clock.advance(seconds)
    return page.streams.follows


@pytest.mark.parametrize("has_left", [False, True])
def test_the_end_ends_the_thread(rtdb: Rtdb, has_left: bool) -> None:
    """After the end nobody follows the locks any more, whether somebody still watches or not."""
    page = Watching(rtdb, has_thread=True)
    viewer, told = page.join()
    until(lambda: len(told) == 1, "the first message")
    if has_left:
        page.live.leave(viewer)
    page.live.end()
    until(lambda: not _after(page, 1), "the end of the stream")
