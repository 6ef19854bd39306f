"""Events: what is told to listeners and the log, at which level, in which words, and that neither breaks anything."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import pytest
from tests.simulation.instance import Instance
from tests.simulation.network import failing
from tests.simulation.world import World
from tests.unit.listeners import broken_listener, recorded

from firecron import Lease
from firecron.base.events import Event, Events
from firecron.errors import Denied, Unavailable
from firecron.lock.blocks import acquire, try_once

SLOT = "2026-11-18T09:00:00Z"


@pytest.fixture
def handler() -> Iterator[Handler]:
    """A handler of firecron's logger, beside whatever else there is."""
    logger = logging.getLogger("firecron")
    made, before = Handler(), (logger.level, logger.propagate)
    logger.addHandler(made)
    logger.setLevel(logging.DEBUG)
    yield made
    logger.removeHandler(made)
    logger.level, logger.propagate = before
    logger.filters.clear()


class Handler(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []
        self.raising = False

    def emit(self, record: logging.LogRecord) -> None:
        if self.raising:
            raise OSError("the disk is full")
        self.records.append(record)

    def fields(self) -> list[dict[str, object]]:
        return [getattr(record, "json_fields", {}) for record in self.records]


def test_an_event_reaches_listeners_and_the_log(handler: Handler) -> None:
    """An event is one value for listeners, and one record with the same fields in the log; None is left out."""
    events = Events()
    heard = recorded(events)
    events.emit("lock.acquired", "job", logging.INFO, "got {it} 100%", holder="h", fence=7, slot=None)
    assert heard == [Event("lock.acquired", "job", logging.INFO, "got {it} 100%", {"holder": "h", "fence": 7})]
    [record] = handler.records
    assert (record.name, record.levelno, record.getMessage()) == ("firecron", logging.INFO, "got {it} 100%")
    assert handler.fields() == [{"event": "lock.acquired", "lock": "job", "holder": "h", "fence": 7}]


def test_a_listener_that_raises_is_reported(handler: Handler) -> None:
    """What a listener raises is logged as an ERROR with its trace; the other listeners and the log are told as ever."""
    events = Events()
    before = recorded(events)
    events.subscribe(broken_listener)
    after = recorded(events)
    events.emit("lock.acquired", "job", logging.INFO, "got it")
    assert before == after
    assert len(after) == 1
    report, told = handler.records
    assert report.levelno == logging.ERROR
    assert "lock.acquired" in report.getMessage()
    assert report.exc_info is not None
    assert report.labels == {}  # type: ignore[attr-defined]  # as `emit` adds them
    assert handler.fields() == [
        {"event": "listener.failed", "listened_to": "lock.acquired"},
        {"event": "lock.acquired", "lock": "job"},
    ]
    assert told.exc_info is None


def broken_handler(handler: Handler) -> None:
    handler.raising = True


def broken_filter(handler: Handler) -> None:
    logging.getLogger("firecron").addFilter(lambda record: bool(failing(ValueError("a bug"))()))


@pytest.mark.parametrize("break_log", [broken_handler, broken_filter])
def test_a_log_that_raises_is_reported_to_standard_error(
    handler: Handler, capsys: pytest.CaptureFixture[str], break_log: Callable[[Handler], None]
) -> None:
    """Where the way to the log is broken the message goes to standard error, and the listeners are told."""
    break_log(handler)
    events = Events()
    heard = recorded(events)
    events.emit("lock.lost", "job", logging.ERROR, "it is lost")
    assert len(heard) == 1
    assert "firecron: a log handler raised an exception at this message: it is lost" in capsys.readouterr().err


def test_a_log_that_raises_breaks_also_without_standard_error(
    handler: Handler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a last resort nothing is raised either."""
    handler.raising = True
    monkeypatch.setattr(logging, "lastResort", None)
    Events().emit("lock.lost", "job", logging.ERROR, "it is lost")


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, ValueError])
def test_a_listener_ends_no_thread_but_the_main_one(error: type[BaseException]) -> None:
    """What is meant to end a process ends it where it is raised on the main thread; elsewhere it is reported, like an
    error.
    """
    events = Events()

    def end(event: Event) -> None:
        raise error

    events.subscribe(end)
    after = recorded(events)
    with ThreadPoolExecutor(1) as elsewhere:
        elsewhere.submit(events.emit, "clock.unavailable", "job", logging.DEBUG, "").result(20)
    assert [event.slug for event in after] == ["clock.unavailable"]
    with nullcontext() if issubclass(error, Exception) else pytest.raises(error):
        events.emit("clock.available", "job", logging.DEBUG, "")
    assert [event.slug for event in after] == (
        ["clock.unavailable", "clock.available"][: 2 if issubclass(error, Exception) else 1]
    )


def test_unsubscribing_ends_the_telling() -> None:
    """After it was unsubscribed a listener hears nothing; doing so twice does nothing."""
    events = Events()
    heard: list[Event] = []
    stop = events.subscribe(heard.append)
    other = recorded(events)
    events.emit("clock.unavailable", "job", logging.DEBUG, "")
    stop()
    stop()
    events.emit("clock.available", "job", logging.DEBUG, "")
    assert [event.slug for event in heard] == ["clock.unavailable"]
    assert [event.slug for event in other] == ["clock.unavailable", "clock.available"]


def test_a_listener_may_unsubscribe_and_subscribe_while_it_is_told() -> None:
    """A listener that unsubscribes itself, or brings another, changes what comes later and skips nobody now."""
    events = Events()
    order: list[str] = []

    def once(event: Event) -> None:
        order.append("once")
        stop()
        events.subscribe(lambda event: order.append("new"))

    stop = events.subscribe(once)
    events.subscribe(lambda event: order.append("other"))
    events.emit("clock.unavailable", "job", logging.DEBUG, "")
    assert order == ["once", "other"]
    events.emit("clock.available", "job", logging.DEBUG, "")
    assert order == ["once", "other", "other", "new"]


OBSTACLES: dict[str, Callable[[World, Instance], object]] = {
    "held": lambda world, one: Instance(world).acquire(),
    "paused": lambda world, one: world.put({"paused": True}),
    "malformed": lambda world, one: world.put({"expiresAt": "soon"}),
    "unavailable": lambda world, one: one.network.next("swap", before=failing(Unavailable("no answer")), times=100),
    "denied": lambda world, one: one.network.next("swap", before=failing(Denied("RTDB answered 401")), times=4),
}


@pytest.mark.parametrize(
    ("reason", "slug", "level", "words"),
    [
        ("held", "lock.refused", logging.INFO, 'Lock "job" held by another instance, skipping'),
        ("paused", "lock.refused", logging.INFO, 'Lock "job" is paused by an operator, skipping'),
        ("malformed", "lock.refused", logging.ERROR, 'Lock "job" can\'t be read: its field expiresAt'),
        ("unavailable", "lock.unavailable", logging.ERROR, 'RTDB unreachable - lock "job" could not be acquired.'),
        ("denied", "lock.refused", logging.ERROR, 'RTDB denies access - lock "job" could not be acquired.'),
    ],
)
def test_a_refusal_is_told_once_with_its_reason(world: World, reason: str, slug: str, level: int, words: str) -> None:
    """Contention is INFO; what is not known is an ERROR, which says that the job won't run."""
    one = Instance(world)
    OBSTACLES[reason](world, one)
    refusal = one.refused()
    [told] = one.events
    assert refusal.reason == reason == told.fields["reason"]
    assert (told.slug, told.level) == (slug, level)
    assert told.message.startswith(words)
    assert ("Job will NOT run" in told.message) is (level == logging.ERROR)


def test_the_first_spent_tick_is_info_and_later_ones_are_for_debugging(world: World) -> None:
    """A loser of a tick says so at INFO once a name, so that a fleet's losers cost little."""
    one = Instance(world)
    levels: list[tuple[str, int]] = []
    for name in ("job", "job", "other", "job"):
        claim = Instance(world)
        taken = try_once(claim.locks.database, claim.locks.database.bid(name, 60, slot=SLOT))
        if isinstance(taken, Lease):
            taken.release()
        answer = acquire(one.locks.database, one.locks.database.bid(name, 60, slot=SLOT), 0)
        assert not isinstance(answer, Lease)
        assert answer.reason == "slot_done"
        levels.append((one.events[-1].name, one.events[-1].level))
    told, quietly = logging.INFO, logging.DEBUG
    assert levels == [("job", told), ("job", quietly), ("other", told), ("job", quietly)]


def test_all_that_a_lock_tells_is_scalar(world: World, handler: Handler) -> None:
    """Whatever happens to a lock, its fields are texts, numbers and truth values, so that any log can store them."""
    one = Instance(world)
    for reason in ("held", "paused", "malformed", "denied"):
        OBSTACLES[reason](world, one)
        one.refused()
        world.put(None)
    one.network.next("swap", before=failing(Unavailable("busy", retry_after=3600)))
    one.refused()
    with one.locks.hold("job", 60) as kept:
        world.advance(20)
        one.renew()
        one.network.next("swap", before=failing(Unavailable("slow")), times=100)
        world.advance(20)
        one.renew()
        one.network.mend()
    assert not kept.is_held()
    lost = one.acquire(fenced=True)
    world.advance(60)
    assert lost.lost
    slugs = set(one.slugs())
    every = "acquired refused unavailable renewed renewal_failed lost released"
    assert {f"lock.{slug}" for slug in every.split()} <= slugs
    for fields in (*(event.fields for event in one.events), *handler.fields()):
        assert all(isinstance(value, str | int | float | bool) for value in fields.values()), fields
        json.dumps(dict(fields))
