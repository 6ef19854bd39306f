"""The catalogue and the holds: what is declared while an operator holds it, and what is tried again."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from tests.unit.scheduler.test_publishing import HOUR, Programs, job

from firecron.base.clocks import Deadline
from firecron.lock.fields import hold_name
from firecron.lock.holds import JobHold
from firecron.store import Snapshot


@pytest.fixture
def programs() -> Programs:
    return Programs()


def holding(programs: Programs, **scope: Any) -> JobHold:
    """A hold that stands for an hour, as its record has it."""
    at = programs.timing.now()
    hold = JobHold(hold_name("0000", "ann", at), "ann", at, at + HOUR * 1000, "migrating", **scope)
    programs.store.set(f"cron-hold/{hold.name}", hold.to_node())
    return hold


def paused_with(programs: Programs, name: str = "digest") -> object:
    return programs.store.get(f"cron-locks/{name}/pausedWith")


def test_what_is_declared_during_a_hold_is_held(programs: Programs) -> None:
    """Whoever declares a job pauses it by the holds that cover it: what an operator holds, and no other job."""
    hold = holding(programs, match="m*", service="api")
    programs.begin(job(), job("mail"))
    assert (paused_with(programs), paused_with(programs, "mail")) == (None, hold.name)
    assert programs.store.get("cron-locks/mail/pausedUntil") == hold.until
    programs.begin(job("more"), service="worker")
    assert paused_with(programs, "more") is None


def test_a_hold_that_is_over_holds_nothing_that_is_declared(programs: Programs) -> None:
    """Nor does one that was taken back, or a node that is no hold."""
    hold = holding(programs)
    programs.store.set(f"cron-hold/{hold.name}", {**hold.to_node(), "until": 0})
    programs.store.set("cron-hold/0123456789ab", {**hold.to_node()})
    programs.begin(job())
    programs.store.set(f"cron-hold/{hold.name}", hold.to_node())
    programs.timing.advance(HOUR)
    programs.store.since()
    programs.begin(job("mail"))
    assert programs.store.get("cron-locks") is None
    assert programs.store.since() == ["read cron-jobs/mail", "merge 1", "read cron-hold"], "nothing else is asked"


def test_a_job_that_was_resumed_is_not_held_by_its_next_declaration(programs: Programs) -> None:
    """An operator has let it run during the hold: a new revision leaves it so."""
    hold = holding(programs)
    programs.begin(job())
    programs.store.set("cron-locks/digest", {"resumedAt": programs.timing.now() + 1})
    programs.begin(job(), revision="api-2")
    assert programs.store.get("cron-locks/digest") == {"resumedAt": programs.timing.now() + 1}
    assert hold.stands(programs.timing.now())


def test_a_hold_that_is_taken_back_while_a_job_is_declared(programs: Programs) -> None:
    """The declaration looks once more after it has paused, and resumes what no hold pauses any more."""
    hold = holding(programs)
    swap, taken = programs.store.swap, programs.store.swap

    def swap_late(path: str, etag: str, node: dict[str, object] | None, deadline: Deadline) -> str | Snapshot:
        programs.store.set(f"cron-hold/{hold.name}", None)
        programs.store.swap = taken  # type: ignore[method-assign]  # once
        return swap(path, etag, node, deadline)

    programs.store.swap = swap_late  # type: ignore[method-assign]  # the hold is taken back before the lock is written
    programs.begin(job())
    assert programs.store.get("cron-locks/digest") == {"resumedAt": programs.timing.now()}


@pytest.mark.parametrize("path", ["cron-hold", "cron-locks/digest"])
def test_a_hold_that_can_not_be_obeyed_is_told_once_and_tried_again(programs: Programs, path: str) -> None:
    """The entry is written, and is not written again: only `cron-hold` is read, until that goes well."""
    crons = programs.program(job())
    hold = holding(programs)
    programs.store.fails = path
    crons.engine.publisher.begin()
    crons.locks.clock.now(Deadline.after(programs.timing, 1))
    for _ in range(2):
        (event,) = programs.events
        assert (event.slug, event.level) == ("hold.failed", logging.WARNING)
        assert "digest: down" in event.message
        assert paused_with(programs) is None
        programs.timing.advance(300)
        crons.engine.ticker.work()
    programs.store.fails = ""
    programs.store.since()
    programs.timing.advance(300)
    crons.engine.ticker.work()
    assert "merge 1" not in programs.store.since()
    assert paused_with(programs) == hold.name


def test_rules_that_are_older_than_holds_let_jobs_be_declared(programs: Programs) -> None:
    """They deny `cron-hold` alone: nothing is held, and nothing is told."""
    programs.store.denied = "cron-hold"
    programs.begin(job())
    assert programs.entry()["line"] == "0 9 * * *"
    assert (programs.events, programs.store.get("cron-locks")) == ([], None)
