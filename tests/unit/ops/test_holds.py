"""What is seen of the holds: who holds what, what is not held, and what a hold has left behind. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.lock.records import NOW, node, released_node
from tests.unit.lock.test_holds import hold, pause, written
from tests.unit.ops.declared import JOB

from firecron import FireCron, distributed_cron
from firecron.base.instants import to_datetime
from firecron.jobs.catalogue import CatalogueEntry
from firecron.lock.holds import JobHold, held, taken_back
from firecron.ops.findings import holds as findings_of
from firecron.ops.health import JobVerdict
from firecron.ops.holds import Holds, HoldView, covered, inspect_holds
from firecron.ops.status import Report

CATALOGUE: dict[str, CatalogueEntry | None] = {
    "digest": JOB,
    "mail": replace(JOB, name="mail", service="worker"),
    "odd": None,
    "a b": None,
}
LEADER = released_node(kind="leader", fence=5)
ALL = hold(2)


def seen(locks: Mapping[str, object], *holds: JobHold) -> tuple[HoldView, ...]:
    return inspect_holds({one.name: one for one in holds}, CATALOGUE, locks, NOW)


def test_a_hold_names_what_it_holds_and_what_it_does_not() -> None:
    """A job that nothing pauses until the hold's end is not held: also one that was resumed, or paused for less."""
    locks: dict[str, object] = {"digest": held(None, NOW, ALL), "mail": pause(1), "odd": {"resumedAt": NOW}}
    (view,) = seen(locks, ALL)
    assert (view.hold, view.stands, view.jobs, view.not_held) == (ALL, True, ("digest",), ("mail", "odd"))
    (view,) = seen({**locks, "mail": pause(2), "odd": pause(None)}, ALL)
    assert view.not_held == ()
    for unpaused in (node(), "text", None, {**pause(5), "paused": False}):
        (view,) = seen({**locks, "mail": unpaused}, ALL)
        assert view.not_held == ("mail", "odd")


def test_a_hold_covers_jobs_and_the_leaders_that_are_there() -> None:
    """A key that can name no job has no lock; an entry that can't be read is of no service."""
    locks: dict[str, object] = {"chief": LEADER, "cache": node(fence=5), "digest": None}
    scopes: list[tuple[dict[str, Any], list[str]]] = [
        ({}, ["digest", "mail", "odd"]),
        ({"leaders": True}, ["chief", "digest", "mail", "odd"]),
        ({"service": "worker"}, ["mail"]),
        ({"match": "[!m]*", "leaders": True}, ["chief", "digest", "odd"]),
    ]
    for scope, names in scopes:
        assert covered(hold(**scope), CATALOGUE, locks) == names


def test_a_hold_that_was_taken_back_is_seen_while_it_pauses_a_lock() -> None:
    """With all that the lock says of it; what it covers is not known any more, and it stands no more."""
    locks: dict[str, object] = {"digest": held(None, NOW, ALL), "mail": held(pause(1), NOW, ALL)}
    for left in ((), (replace(ALL, until=0),)):
        (view,) = seen(locks, *left)
        assert (view.hold, view.stands, view.jobs, view.not_held) == (ALL, False, ("digest", "mail"), ())
    resumed = {name: taken_back(node, NOW, {ALL.name}) for name, node in locks.items()}
    assert seen(resumed, replace(ALL, until=0)) == ()
    assert seen({name: {**written(node), "pausedBy": "bob"} for name, node in locks.items()}) == ()  # type: ignore[arg-type]  # nodes


def test_two_holds_are_both_seen_by_the_time_they_were_made() -> None:
    """The one that lies below holds its jobs as well."""
    later = hold(3, "ffff", at=NOW + 1)
    both = held(written(held(None, NOW, ALL)), NOW + 1, later)
    views = inspect_holds({later.name: later, ALL.name: ALL}, {"digest": JOB}, {"digest": both}, NOW + 1)
    assert [(view.hold, view.jobs, view.not_held) for view in views] == [
        (ALL, ("digest",), ()),
        (later, ("digest",), ()),
    ]


def test_the_doctor_says_what_is_held_and_what_is_not() -> None:
    """A hold is no fault; what it does not hold, and what it has left behind, is a warning with the remedy."""
    whole = HoldView(ALL, True, ("digest",))
    part = replace(whole, not_held=tuple(f"job-{number:02}" for number in range(12)))
    left = HoldView(ALL, False, ("digest", "mail"))
    fine, warned, behind, one = findings_of([whole, part, left, replace(left, jobs=("mail",))])
    assert (fine.level, fine.message.startswith("ann@laptop holds every job until 20")) == ("ok", True)
    assert warned.level == behind.level == "warning"
    assert warned.message.endswith("but not " + ", ".join(f"job-{number:02}" for number in range(10)) + " and 2 more")
    assert behind.message.startswith(f"digest and 1 more are still paused with hold {ALL.name} by ann@laptop")
    assert one.message.startswith("mail is still paused")
    assert str(behind.remedy) == f"resume what it has left behind: firecron unhold {ALL.name}"


@pytest.mark.parametrize(
    ("verdicts", "word"),
    [
        ((JobVerdict("a", "paused", hold="x"), JobVerdict("b", "ok")), "held"),
        ((JobVerdict("a", "paused", hold="x"), JobVerdict("b", "late")), "failing"),
        ((JobVerdict("a", "paused"), JobVerdict("b", "ok")), "ok"),
        ((), "unknown"),
    ],
)
def test_the_word_for_a_monitoring_service(verdicts: tuple[JobVerdict, ...], word: str) -> None:
    """Held is well, as long as what is not held is."""
    report = Report(verdicts)
    assert (report.status, report.is_well) == (word, word in ("ok", "held"))


def test_a_hold_in_a_rehearsal() -> None:
    """Its jobs don't run while it lasts, by the rehearsal's clock; they run after its end, or once it is taken back."""
    jobs = [distributed_cron(name, "0 * * * *")(lambda: None) for name in ("digest", "mail")]
    with FireCron(*jobs).testing("2026-11-18T08:30:00Z") as test:
        for name in ("digest", "mail"):
            test.store.set(f"cron-jobs/{name}", JOB.to_node())
        holds = Holds(test.locks.database)
        assert holds.hold(to_datetime("2026-11-18T10:30:00Z"), "migrating").held == ("digest", "mail")
        test.move_to("2026-11-18T10:00:00Z")
        assert test.outcomes("digest") == []
        test.move_to("2026-11-18T11:00:00Z")
        assert test.outcomes("digest") == ["succeeded"]
        made = holds.hold(to_datetime("2026-11-18T20:00:00Z"), "more", match="d*")
        test.move_to("2026-11-18T12:00:00Z")
        assert holds.unhold(made.hold.name).resumed == ("digest",)
        test.move_to("2026-11-18T13:00:00Z")
        assert [test.outcomes(name).count("succeeded") for name in ("digest", "mail")] == [2, 3]
