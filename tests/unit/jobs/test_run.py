"""A run, as its job asks it, and what it says of itself: its notes, and the names of its steps."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.unit.runs.bodies import make_run

from firecron import ConfigurationError, FireCron, LeaseLost, Run, Stopping, current_run, distributed_cron
from firecron.jobs.run import LONGEST_NOTE, check_step_name, idempotency_key, to_key, to_name
from firecron.testing import Rehearsal

NINE = "2026-11-18T09:00:00Z"


def new_run() -> Run:
    return Run("job", slot=None, attempt=1, fence=None, idempotency_key="job:x", trigger="manual")


def rehearsed(job: Callable[..., object], **options: Any) -> Rehearsal:
    declared = distributed_cron("job", "0 9 * * *", lock_ttl=60, **options)(job)
    return FireCron(declared, enabled=False).testing("2026-11-18T08:59:00Z")


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("1,204 mails", "1,204 mails"),
        ("  two\nlines \n", "two\nlines"),
        ("x" * LONGEST_NOTE, "x" * LONGEST_NOTE),
        ("x" * (LONGEST_NOTE + 1), "x" * (LONGEST_NOTE - 1) + "…"),
        ("y" * 1_000_000, "y" * (LONGEST_NOTE - 1) + "…"),
        ("", None),
        (" \n", None),
        ("signed in with password=hunter2secret", "signed in with password=[redacted]"),
        ("lone \ud800", "lone ?"),
    ],
)
def test_a_note_is_kept_as_far_as_it_may_be(text: str, kept: str | None) -> None:
    """A note is 500 characters without secrets, and an empty one is none."""
    run = new_run()
    assert run.noted is None
    run.note("before")
    run.note(text)
    assert run.noted == kept


@pytest.mark.parametrize("wrong", [1204, None, b"1,204 mails", ["1,204 mails"]])
def test_a_note_is_a_text(wrong: Any) -> None:
    """Anything else is refused with the remedy, and changes nothing."""
    run = new_run()
    run.note("before")
    with pytest.raises(ConfigurationError, match=r"a note is a text, and not .*: write run.note\(str\(…\)\)"):
        run.note(wrong)
    assert run.noted == "before"


@pytest.mark.parametrize("is_async", [False, True])
def test_the_last_note_is_recorded(is_async: bool) -> None:
    """The last note of a run, from any code and thread of it, is in its entry and in its event at the end."""

    def work() -> None:
        run = current_run()
        assert run is not None
        run.note("1 mail")
        thread = threading.Thread(target=run.note, args=["1,204 mails"])
        thread.start()
        thread.join()

    async def work_async() -> None:
        await asyncio.sleep(0)
        work()

    with rehearsed(work_async if is_async else work) as test:
        test.move_to(NINE)
        assert [entry.get("note") for entry in test.history("job")] == ["1,204 mails"]
        found = {event.slug: event.fields.get("note") for event in test.events if event.slug.startswith("run.")}
        assert found == {"run.started": None, "run.succeeded": "1,204 mails"}
        result = test.run("job")
        assert result.run is not None
        assert result.run.noted == "1,204 mails"


def test_a_failed_run_and_its_tries_are_noted() -> None:
    """The note of an earlier try stays if no later one says anything; it is beside the error."""
    tries: list[int] = []

    def work(run: Run) -> None:
        tries.append(1)
        if len(tries) == 1:
            run.note("came to page 3")
        raise ValueError("no more pages")

    with rehearsed(work, retries=1, retry_backoff=0) as test:
        test.move_to(NINE)
        test.advance(1)
        (entry,) = test.history("job")
        assert len(tries) == 2
        assert (entry["note"], entry["error"]) == ("came to page 3", "ValueError: no more pages")


def test_a_note_after_the_end_is_an_error() -> None:
    """Once a run has ended its note can't be recorded, and whoever tries learns of it."""
    with rehearsed(lambda: None) as test:
        result = test.run("job")
        assert result.run is not None
        with pytest.raises(ConfigurationError, match=r'"job" has ended, and is noted no more: \'late\' came too late'):
            result.run.note("late")
        assert result.run.noted is None


def test_what_is_around_a_run_may_note_as_it_is_left() -> None:
    """A run ends with what is around it: that may still say something."""

    class Counting:
        def __init__(self, run: Run) -> None:
            self.run = run

        def __enter__(self) -> None: ...

        def __exit__(self, *raised: object) -> None:
            self.run.note("counted")

    job = distributed_cron("job", "0 9 * * *")(lambda: None)
    with FireCron(job, enabled=False, around=[Counting]).testing() as test:
        test.run("job")
        assert [entry["note"] for entry in test.history("job")] == ["counted"]


def test_a_check_raises_what_should_end_the_run() -> None:
    """Looking at the run raises nothing while it may go on, Stopping at a stop, and LeaseLost before that."""
    run = make_run()
    run.check()
    run.stopping.set()
    with pytest.raises(Stopping):
        run.check()
    run.lost.set()
    with pytest.raises(LeaseLost):
        run.check()


def test_a_run_shows_what_it_is_for() -> None:
    """Printed, a run says its key, attempt and trigger."""
    assert repr(make_run()) == "<Run key attempt 1, manual>"


NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(lambda name: len(name.encode()) <= 200)


@given(NAMES)
@example("%2F")
@example("0")
@example("1" * 200)
@example("." * 200)
@example("a/b.c$d#e[f]g%h\x00\x1f\x7f")
def test_a_key_is_one_that_rtdb_takes_and_stands_for_its_name_alone(name: str) -> None:
    """It has no forbidden character, is no number, has 600 bytes at the most, and its name can be had from it."""
    key = to_key(name)
    assert not re.search(r"[\x00-\x1f\x7f.$#\[\]/]", key)
    assert not (key.isascii() and key.isdigit())
    assert len(key.encode()) <= 600
    assert to_name(key) == name


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("charge 42", "charge 42"),
        ("a/b", "a%2Fb"),
        ("10 %", "10 %25"),
        ("42", "%342"),
        ("4a", "4a"),
        ("tab\t", "tab%09"),
        ("größe ✓", "größe ✓"),
        ("٤٢", "٤٢"),
    ],
)
def test_a_key_reads_as_its_name_where_it_can(name: str, key: str) -> None:
    """Only what RTDB forbids, and the first digit of a number, is written otherwise."""
    assert to_key(name) == key


@pytest.mark.parametrize("name", ["", "x" * 201, "é" * 101, 5, None, b"x", "\ud800"])
def test_a_name_that_is_no_name_is_refused(name: object) -> None:
    """It has 1 to 200 bytes, and is a text of whole characters."""
    with pytest.raises(ConfigurationError, match="name of a step"):
        check_step_name(name)


@pytest.mark.parametrize("name", ["x", "x" * 200, "é" * 100])
def test_a_name_may_have_200_bytes(name: str) -> None:
    """The bytes are counted, not the characters."""
    assert check_step_name(name) == name


def test_a_key_for_other_systems_has_255_characters_at_the_most() -> None:
    """Up to there it is the run's and the step's name; beyond, it ends in a hash of all of it, and stays its own."""
    run = "j" * 100 + ":2026-11-18T09:00:00Z"
    fits = "s" * (255 - len(run) - 1)
    assert idempotency_key(run, fits) == f"{run}:{fits}"
    longer = {idempotency_key(run, fits + more) for more in ("a", "b", "bb")}
    assert [len(key) for key in longer] == [255] * 3
    assert all(key.startswith(run) for key in longer)
    assert all(re.search(":[0-9a-f]{64}$", key) for key in longer)


def test_a_run_names_the_key_of_a_step() -> None:
    """`run.key` needs no lock, and refuses a name that no step can have."""
    run = Run("job", slot=None, attempt=1, fence=1, idempotency_key="job:manual:a1", trigger="manual")
    assert run.key("charge 42") == "job:manual:a1:charge 42"
    with pytest.raises(ConfigurationError):
        run.key("")


def test_a_run_made_by_hand_has_no_steps() -> None:
    """Nothing could record them, so the call is an error that says how to have a run with steps."""
    run = Run("job", slot=None, attempt=1, fence=1, idempotency_key="job:manual:a1", trigger="manual")
    calls: list[Callable[[], object]] = [
        lambda: run.step("a", dict),
        lambda: run.settle("a", 1),
        lambda: run.retry("a"),
    ]
    for call in calls:
        with pytest.raises(ConfigurationError, match=r"crons\.testing"):
            call()
