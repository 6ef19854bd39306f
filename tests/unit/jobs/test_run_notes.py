"""What a run says of itself: `run.note`."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from firecron import ConfigurationError, FireCron, Run, current_run, distributed_cron
from firecron.jobs.run import LONGEST_NOTE
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


def test_a_run_without_a_note_has_none() -> None:
    """A run that says nothing has no such field, nor has one that took its note back."""
    notes = [["x", ""], []]

    def work(run: Run) -> None:
        for note in notes.pop():
            run.note(note)

    with rehearsed(work) as test:
        test.run("job")
        test.run("job")
        assert all("note" not in entry for entry in test.history("job"))
        assert all("note" not in event.fields for event in test.events)


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
