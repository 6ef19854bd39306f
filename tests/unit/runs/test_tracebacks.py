"""Tracebacks of failed runs: what is kept of them, beside which entry, and for how long."""

from __future__ import annotations

import asyncio
import logging

from tests.simulation.fleet import Fleet
from tests.simulation.world import NAME, START, slot

from firecron import LeaseLost, Run
from firecron.errors import Denied, StoreError, Unavailable
from firecron.jobs.run import Outcome
from firecron.runs.body import LONGEST_TRACEBACK, last_frames
from firecron.runs.entry import Entry


def read_rates() -> None:
    raise ConnectionError("no reply, password=hunter2")


def refresh(run: Run) -> None:
    read_rates()


def raised_by(body: object) -> BaseException:
    try:
        body() if callable(body) else None
    except BaseException as error:
        return error
    raise AssertionError("it raises nothing")


def kept(fleet: Fleet) -> dict[str, str]:
    node = fleet.world.store.get(f"cron-errors/{NAME}")
    return {key: str(text) for key, text in node.items()} if isinstance(node, dict) else {}


def finished(outcome: Outcome, fence: int, attempt: int = 1) -> Entry:
    return Entry(slot(), outcome, slot(), "schedule", START, START + 10, 10, attempt, fence)


# --- what is kept


def test_a_failed_run_leaves_its_last_frames(fleet: Fleet) -> None:
    """From the job's own code on, with the error, and without what looks like a secret; after its entry, once."""
    fleet.body = refresh
    one = fleet.instance()
    one.turn(slot())
    ((key, text),) = kept(fleet).items()
    assert key == slot()
    lines = text.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert [line.rpartition(" in ")[2] for line in lines if line.startswith("  File")][-2:] == ["refresh", "read_rates"]
    assert lines[-1] == "ConnectionError: no reply, password=[redacted]"
    assert one.network.requests(f"cron-errors/{NAME}") == ["merge"]


def test_a_run_that_succeeds_costs_nothing_more(fleet: Fleet) -> None:
    """Neither a request nor a node."""
    one = fleet.instance()
    one.turn(slot())
    assert (kept(fleet), one.network.requests("cron-errors")) == ({}, [])


def test_they_can_be_left_out(fleet: Fleet) -> None:
    """By a setting: the entry is written as ever."""
    fleet.body = refresh
    one = fleet.instance(tracebacks=False)
    one.turn(slot())
    assert (kept(fleet), fleet.world.outcomes()) == ({}, {slot(): "failed"})


def test_the_end_of_a_long_traceback_is_kept() -> None:
    """Of 2,000 characters, from the beginning of a line on: what is nearest to the error. No line fills it alone."""
    text = last_frames(raised_by(lambda: nested(60)))
    assert text is not None
    assert len(text) <= LONGEST_TRACEBACK
    first, second, *_, last = text.splitlines()
    assert (first, second.startswith("  ")) == ("…", True)
    assert (last[:14], len(last)) == ("ValueError: xx", 300)


def failing_with(length: int, last: int) -> str:
    """The traceback of an error whose text fills it up to this length, and its last lines to that one."""

    def fail() -> None:
        raise ValueError(text)

    text = ""
    without = len(last_frames(raised_by(fail)) or "") + len(": ")
    lines = "\n".join(["x" * 99] * 30)[:last]
    filler = "\n".join(["y" * 99] * 30)[: length - without - last - 1]
    text = f"{filler}\n{lines}"
    return last_frames(raised_by(fail)) or ""


def test_a_traceback_that_just_fits_is_whole() -> None:
    """One of 2,000 characters is kept as it is; with one more its beginning is cut off."""
    whole, cut = failing_with(LONGEST_TRACEBACK, 500), failing_with(LONGEST_TRACEBACK + 1, 500)
    assert (len(whole), whole.splitlines()[0]) == (LONGEST_TRACEBACK, "Traceback (most recent call last):")
    assert (len(cut) < LONGEST_TRACEBACK, cut.splitlines()[0]) == (True, "…")


def test_a_traceback_is_cut_between_two_lines() -> None:
    """Wherever its lines end, no more is kept than there may be, and no line is lost that has room."""
    room = LONGEST_TRACEBACK - len("…\n")
    for last in range(room - 2, room + 5):
        text = failing_with(4_000, last)
        assert text.splitlines()[0] == "…"
        assert len(text) <= LONGEST_TRACEBACK
        assert (len(text) == len("…\n") + last) is (last < room), last


def nested(left: int) -> None:
    """Frames that a traceback can't fold, because two functions take turns."""
    if left == 0:
        raise ValueError("x" * 5_000)
    nested_too(left - 1)


def nested_too(left: int) -> None:
    nested(left)


def test_what_led_to_an_error_is_kept_as_well() -> None:
    """Its cause, and the errors that a group has."""

    def chained() -> None:
        try:
            read_rates()
        except ConnectionError as error:
            raise ValueError("no rates") from error

    async def grouped() -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(asyncio.to_thread(read_rates))

    for body in (chained, lambda: asyncio.run(grouped())):
        text = last_frames(raised_by(body))
        assert text is not None
        assert "in read_rates" in text


def test_an_error_of_firecrons_own_code_has_no_traceback_for_users() -> None:
    """Its frames would say nothing to them; the error itself is in the entry."""
    assert last_frames(LeaseLost("it was lost")) is None


def test_an_error_that_can_not_be_read_hides_nothing_else() -> None:
    """The frames are there, and the error's type."""

    class BrokenError(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    def broken() -> None:
        raise BrokenError

    text = last_frames(raised_by(broken))
    assert text is not None
    assert "in broken" in text
    assert "BrokenError" in text


# --- beside which entry


def test_the_next_attempt_takes_it_away(fleet: Fleet) -> None:
    """A tick that has succeeded since has no traceback; one that has failed again has the newer."""
    one = fleet.instance()
    record, first, second = one.crons.history.record, raised_by(read_rates), raised_by(lambda: int("x"))
    record(NAME, finished("failed", 5), first)
    record(NAME, finished("failed", 6, 2), second)
    assert "int(" in kept(fleet)[slot()]
    record(NAME, finished("failed", 4), first)  # it comes late, and doesn't outrank what stands there
    assert "int(" in kept(fleet)[slot()]
    record(NAME, finished("succeeded", 7, 3))
    assert kept(fleet) == {}


def test_it_is_pruned_with_its_entry(fleet: Fleet) -> None:
    """In one write. Rules that don't know it keep the history from nothing."""
    for number in range(5):
        fleet.world.store.set(f"cron-runs/{NAME}/{slot(60 * number)}", {"outcome": "failed"})
        fleet.world.store.set(f"cron-errors/{NAME}/{slot(60 * number)}", "Traceback")
    one = fleet.instance(history_limit=3)
    one.crons.history.prune(NAME)
    assert list(kept(fleet)) == [slot(120), slot(180), slot(240)]
    assert one.network.methods.count("merge") == 1
    fleet.world.store.set(f"cron-runs/{NAME}/{slot(300)}", {"outcome": "failed"})

    def deny(method: str, path: str) -> None:
        one.network.is_denied = path.startswith("cron-errors")

    one.network.before = deny
    one.crons.history.prune(NAME)
    assert list(fleet.world.history()) == [slot(180), slot(240), slot(300)]


# --- where it can't be written


def test_older_rules_are_told_of_once(fleet: Fleet) -> None:
    """With the remedy, whatever fails later; the entry is there."""
    one = fleet.instance()

    def deny(method: str, path: str) -> None:
        one.network.is_denied = path.startswith("cron-errors")

    one.network.before = deny
    for attempt in (1, 2):
        one.crons.history.record(NAME, finished("failed", attempt, attempt), raised_by(read_rates))
    one.crons.history.record(NAME, finished("succeeded", 3, 3))
    found = [event for event in one.events if event.slug == "history.failed"]
    assert [event.level for event in found] == [logging.WARNING, logging.DEBUG]
    assert "deploy the rules that `firecron rules` prints, or set FIRECRON_TRACEBACKS=0" in found[0].message
    assert fleet.world.outcomes() == {slot(): "succeeded"}


def test_a_database_that_is_away_is_told_of(fleet: Fleet) -> None:
    """The entry was written, so nothing else is lost."""
    one = fleet.instance()

    def fail() -> None:
        raise Unavailable("no reply")

    one.network.next("merge", before=fail)
    one.crons.history.record(NAME, finished("failed", 1), raised_by(read_rates))
    (told,) = [event for event in one.events if event.slug == "history.failed"]
    assert (told.level, told.message) == (
        logging.WARNING,
        f'The traceback of "{NAME}", {slot()}, was not kept. no reply',
    )


def test_each_reason_for_a_lost_traceback_is_told_of(fleet: Fleet) -> None:
    """Older rules are told of once; a database that is away after that is another reason, and a warning again."""
    one = fleet.instance()
    problems: list[StoreError] = [Denied("no"), Unavailable("no reply"), Denied("no")]

    def fail() -> None:
        raise problems.pop(0)

    one.network.next("merge", before=fail, times=3)
    for attempt in (1, 2, 3):
        one.crons.history.record(NAME, finished("failed", attempt, attempt), raised_by(read_rates))
    assert [event.level for event in one.said("history.failed")] == [logging.WARNING] * 3


def test_what_is_no_traceback_is_not_read(fleet: Fleet) -> None:
    """Whoever has written something else there, those that read get texts."""
    fleet.world.store.set(f"cron-errors/{NAME}", {slot(): "Traceback", slot(60): 7})
    assert fleet.instance().crons.history.tracebacks(NAME) == {slot(): "Traceback"}
