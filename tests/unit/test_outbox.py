"""The outbox of a channel, with a courier that a test holds up; and which runs a channel hears of."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from tests.unit.threads import PATIENCE, ended, named

from firecron import FireCron, Run, distributed_cron, outbox
from firecron.base.events import Event
from firecron.base.flag import begin_child
from firecron.outbox import NotTaken, Outbox, report_runs
from firecron.testing import FakeClock, MemoryStore


class Slow:
    """A courier that waits for the test. It raises the errors of `answers` in their order, then takes everything."""

    def __init__(self, *answers: Exception | None) -> None:
        self.may_go = threading.Event()
        self.is_busy = threading.Event()
        self.is_closed = threading.Event()
        self.sent: list[str] = []
        self.taken: list[str] = []
        self.lost_ones: list[tuple[str, str]] = []
        self._answers = list(answers)

    def send(self, message: str) -> None:
        self.sent.append(message)
        self.is_busy.set()
        assert self.may_go.wait(PATIENCE)
        answer = self._answers.pop(0) if self._answers else None
        if answer is not None:
            raise answer
        self.taken.append(message)

    def lost(self, message: str, why: str) -> None:
        self.lost_ones.append((message, why))

    def close(self) -> None:
        self.is_closed.set()


@pytest.fixture
def opened() -> Iterator[list[Outbox[str]]]:
    """The outboxes of a test, which are closed at its end."""
    found: list[Outbox[str]] = []
    yield found
    for one in found:
        one.close()
    assert all(map(ended, named("firecron-letters")))


@pytest.fixture(autouse=True)
def without_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "PAUSE", 0.0)


def with_messages(opened: list[Outbox[str]], courier: Slow, *messages: str) -> Outbox[str]:
    made: Outbox[str] = Outbox("letters", courier, lambda: PATIENCE)
    opened.append(made)
    for message in messages:
        made.add(message)
    return made


def starting(patched: pytest.MonkeyPatch, start: Callable[[], None]) -> None:
    """Let the outbox's threads, and no others, start like this."""

    class Thread(threading.Thread):
        def start(self) -> None:
            start()

    patched.setattr(outbox, "threading", SimpleNamespace(Thread=Thread, Condition=threading.Condition))


def test_messages_are_sent_in_their_order_and_delay_nobody(opened: list[Outbox[str]]) -> None:
    """`add` returns while the courier is busy with the first message; the others follow it."""
    courier = Slow()
    made = with_messages(opened, courier, "a", "b", "c")
    assert courier.is_busy.wait(PATIENCE)
    assert courier.sent == ["a"]
    courier.may_go.set()
    made.flush()
    assert courier.sent == ["a", "b", "c"]
    assert courier.lost_ones == []


@pytest.mark.parametrize(
    ("answers", "tries", "why"),
    [
        ((NotTaken("away"),), 2, None),
        ((NotTaken("away"), NotTaken("still away")), 2, "still away"),
        ((NotTaken("unknown", is_final=True),), 1, "unknown"),
        ((NotTaken("away"), NotTaken("unknown", is_final=True)), 2, "unknown"),
        ((ValueError("odd"),), 1, "ValueError: odd"),
    ],
)
def test_a_message_has_two_tries(
    opened: list[Outbox[str]], answers: tuple[Exception, ...], tries: int, why: str | None
) -> None:
    """A second try follows only a reason that may pass. What is lost is said with the last reason; the next is sent."""
    courier = Slow(*answers)
    courier.may_go.set()
    made = with_messages(opened, courier, "a", "b")
    made.flush()
    assert courier.sent == [*["a"] * tries, "b"]
    assert courier.lost_ones == ([] if why is None else [("a", why)])


def test_a_full_outbox_loses_what_comes(opened: list[Outbox[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    """A message for which there is no room is lost at once, and said; those that wait are sent."""
    monkeypatch.setattr(outbox, "MOST_WAITING", 2)
    courier = Slow()
    made = with_messages(opened, courier, "a")
    assert courier.is_busy.wait(PATIENCE)  # it waits no more
    for message in "bcd":
        made.add(message)
    assert courier.lost_ones == [("d", "2 letters wait already: the service is too slow")]
    courier.may_go.set()
    made.flush()
    assert courier.sent == ["a", "b", "c"]


def test_a_flush_waits_for_the_message_that_is_under_way(opened: list[Outbox[str]]) -> None:
    """An outbox is empty once the service has taken the last message, not once the message waits no more."""
    courier = Slow()

    def let_go() -> float:
        courier.may_go.set()
        return PATIENCE

    made: Outbox[str] = Outbox("letters", courier, let_go)
    opened.append(made)
    made.add("a")
    assert courier.is_busy.wait(PATIENCE)
    made.flush()
    assert courier.taken == ["a"]


def test_a_flush_lasts_no_longer_than_it_may(opened: list[Outbox[str]]) -> None:
    """How long it may is asked at each flush; with no seconds left it returns while the courier is busy."""
    courier = Slow()
    left = [0.0]
    made: Outbox[str] = Outbox("letters", courier, left.pop)
    opened.append(made)
    made.add("a")
    assert courier.is_busy.wait(PATIENCE)
    made.flush()
    assert (left, courier.taken) == ([], [])
    courier.may_go.set()


def test_a_closed_outbox_sends_nothing_any_more(opened: list[Outbox[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits is dropped, what comes later too, without a word, and the courier closes its connections."""
    courier = Slow()
    made = with_messages(opened, courier, "a", "b")
    assert courier.is_busy.wait(PATIENCE)
    made.close()
    monkeypatch.setattr(outbox, "MOST_WAITING", 0)
    made.add("c")
    courier.may_go.set()
    assert courier.is_closed.wait(PATIENCE)
    assert courier.sent == ["a"]
    assert courier.lost_ones == []


def test_a_forked_child_begins_anew(opened: list[Outbox[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    """The parent's messages and connections are not the child's, which sends its own on a thread of its own."""
    courier = Slow()
    courier.may_go.set()
    with monkeypatch.context() as patched:
        starting(patched, lambda: None)  # the parent's thread is not there in a child
        made = with_messages(opened, courier, "a", "b")
    begin_child()
    made.add("of the child")
    made.flush()
    assert courier.sent == ["of the child"]


def test_without_a_thread_a_message_is_lost(opened: list[Outbox[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that can start no thread says so of the message; a later one tries again."""
    courier = Slow()
    courier.may_go.set()

    def refuse() -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        starting(patched, refuse)
        made = with_messages(opened, courier, "a")
    assert courier.lost_ones == [("a", "can't start new thread")]
    made.add("b")
    made.flush()
    assert courier.sent == ["b"]


@pytest.mark.parametrize("is_production", [True, False])
def test_a_channel_hears_of_the_runs_of_ticks(is_production: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """In production alone, and of no run by hand. What waits is flushed when the instance stops, and at the end."""
    monkeypatch.setenv("RUNTIME_INSTANCE", "production" if is_production else "staging")
    clock = FakeClock()

    @distributed_cron("report", "* * * * * *", lock_ttl=60)
    def report(run: Run) -> None: ...

    crons = FireCron(report, store=MemoryStore(clock.now), timing=clock, has_threads=False)
    heard: list[Event] = []
    flushes: list[int] = []
    end = report_runs(crons, heard.append, lambda: flushes.append(len(heard)))
    crons.registry.trigger("report")
    crons.registry.trigger("report", slot=clock.time - timedelta(seconds=1))
    assert [event.slug for event in heard] == (["run.started", "run.succeeded"] if is_production else [])
    crons.events.emit("crons.stopped", "firecron", 20, "It stops.")
    assert len(flushes) == 1
    end()
    assert len(flushes) == 2
    crons.registry.trigger("report", slot=clock.time)
    assert len(heard) == (2 if is_production else 0)


def test_the_last_moments_are_no_longer_than_the_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before a stop what waits has two seconds; in a stop it has what is left of the grace."""
    clock = FakeClock(datetime(2026, 11, 18, 9, tzinfo=UTC))
    crons = FireCron(store=MemoryStore(clock.now), timing=clock, has_threads=False)
    assert outbox.last_moments(crons) == outbox.LAST_MOMENTS
    crons.engine.runner.open()
    crons.engine.stop(clock.mono() + 500)
    assert outbox.last_moments(crons) == 0.5
