"""Groups as an operator's tools see them: what lives, who would run what, and which jobs were taken out."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.jobs.test_catalogue import entry

from firecron.cron.schedule import Schedule
from firecron.jobs.catalogue import Group, digest, dissenting, group_fields, live_groups_of, read_groups, retired

NOW = 1_794_992_400_000
A, B = "0123456789abcdef", "fedcba9876543210"


def group(*jobs: str, name: str = A, seen: int = 0, first: int | None = 100, service: str = "api") -> Group:
    """A group that was last seen so many seconds ago, and first so many."""
    return Group(name, frozenset(jobs), service, None if first is None else NOW - first * 1000, NOW - seen * 1000)


NINE, TEN = Schedule("0 9 * * *"), Schedule("0 10 * * *")


def test_what_a_group_tells_is_read() -> None:
    """Names come back as they were told, with the digests of their schedules, and the groups in order."""
    told = {**group_fields({"mail": TEN, "digest": NINE}, "api", 20), "seenAt": NOW, "firstSeenAt": NOW - 9, "beats": 3}
    assert (told["jobs"], told["schedules"]) == ("digest mail", digest(NINE) + digest(TEN))
    found = read_groups({B: told, A: {**group_fields({}, "api", 30), "seenAt": NOW}})
    digests = {"digest": digest(NINE), "mail": digest(TEN)}
    assert found == (
        Group(A, frozenset(), "api", None, NOW, 30),
        Group(B, frozenset(digests), "api", NOW - 9, NOW, 20, digests),
    )


@pytest.mark.parametrize("schedules", [None, 5, "", digest(NINE), digest(NINE) * 3, digest(NINE) + "x"])
def test_digests_that_do_not_fit_the_names_are_not_known(schedules: object) -> None:
    """An older version writes none, and somebody may have edited them."""
    (found,) = read_groups({A: {"jobs": "digest mail", "schedules": schedules}})
    assert found.jobs == frozenset({"digest", "mail"})
    assert found.digests == {}


@pytest.mark.parametrize("node", [None, "x", 5, [], {A: "x"}])
def test_what_is_no_group_is_left_out(node: object) -> None:
    """Whatever somebody has typed there."""
    assert read_groups(node) == ()


def test_odd_fields_are_not_known() -> None:
    """An older version tells no jobs: then it may run any of them."""
    odd = {"jobs": 5, "service": {}, "firstSeenAt": "x", "seenAt": True, "heartbeat": -1}
    (found,) = read_groups({A: odd})
    assert found == Group(A, None, None, None, None, 30)
    assert found.may_run("digest")
    assert not found.is_live(NOW)


@pytest.mark.parametrize("value", [0, -1, 3_601, 1e308, 10**400, True, "30", float("nan"), 3_600, 0.5])
def test_a_heartbeat_that_nobody_has_is_not_known(value: object) -> None:
    """Else a group would live for ever by a typing error. An hour is the longest."""
    (found,) = read_groups({A: {"heartbeat": value}})
    assert found.heartbeat == (value if value in (3_600, 0.5) else 30)


def test_too_many_names_are_left_out() -> None:
    """They don't fit into the node; who reads it doesn't know them."""
    names = [f"{number:099}" for number in range(999)]
    fits, too_long = (group_fields(dict.fromkeys([*names, "x" * last], NINE), "api", 30) for last in (100, 101))
    assert {"jobs", "schedules"} <= fits.keys()
    assert {"jobs", "schedules"}.isdisjoint(too_long)


@pytest.mark.parametrize(("heartbeat", "seconds"), [(30, 90), (5, 15)])
def test_a_group_lives_for_three_beats(heartbeat: float, seconds: int) -> None:
    """By its own heartbeat."""
    for seen, lives in ((seconds, True), (seconds + 0.001, False)):
        one = Group(A, frozenset(), "api", None, NOW - round(seen * 1000), heartbeat)
        assert one.is_live(NOW) is lives


def test_who_runs_a_job() -> None:
    """Live groups that have it, and those of which nobody knows."""
    has, lacks, dead, unknown = (group("digest"), group("mail"), group("digest", seen=91), replace(group(), jobs=None))
    assert live_groups_of("digest", [has, lacks, dead, unknown], NOW) == (has, unknown)


DIGEST = replace(entry(), declared_at=NOW - 200_000)


def test_a_job_that_a_younger_group_of_its_service_lacks_is_retired() -> None:
    """Its service lives on without it, so somebody has taken it out."""
    assert retired(DIGEST, [group("mail"), group("digest", name=B, seen=91)], NOW)


@pytest.mark.parametrize(
    "groups",
    [
        [], [group("digest", seen=91)], [group("mail"), group("digest", name=B)], [group("mail", service="web")],
        [group("mail", first=200)], [group("mail", first=None)], [group("mail", seen=91)],
        [group("mail"), replace(group(), jobs=None)],
    ],
)  # fmt: skip
def test_otherwise_it_is_not(groups: list[Group]) -> None:
    """Nobody lives, somebody has it or may have it, or who lives is another service, or older than the entry."""
    assert not retired(DIGEST, groups, NOW)


@pytest.mark.parametrize(
    "declared", [replace(DIGEST, ticks=False), replace(DIGEST, disabled=True), replace(DIGEST, declared_at=None)]
)
def test_of_a_job_that_is_in_no_group_it_cannot_be_said(declared: object) -> None:
    """A job that only triggers run, and a disabled one."""
    assert not retired(declared, [group("mail")], NOW)  # type: ignore[arg-type]  # a Declared each


def other(name: str = A, schedule: Schedule = TEN, seen: int = 0) -> Group:
    """A group that runs the job, by ten unless by another schedule."""
    return replace(group("digest", name=name, seen=seen), digests={"digest": digest(schedule)})


def test_a_live_group_with_another_schedule_dissents() -> None:
    """Whether one or several do; one that runs what was declared doesn't."""
    agreeing, first, second = other("0" * 16, NINE), other(A), other(B)
    assert dissenting(DIGEST, [agreeing, first, second], NOW) == (first, second)


@pytest.mark.parametrize(
    "found",
    [
        other(schedule=NINE),
        other(seen=91),
        group("digest"),
        group("mail"),
        replace(other(), jobs=None),
        replace(other(), jobs=frozenset({"mail"})),
        replace(other(), seen_at=None),
    ],
    ids=["the same", "dead", "by which is not known", "without it", "not known", "edited", "never seen"],
)
def test_another_group_does_not_dissent(found: Group) -> None:
    """Only what is known for certain is said."""
    assert dissenting(DIGEST, [found], NOW) == ()


@pytest.mark.parametrize(("after", "counts"), [(-1, False), (0, False), (1, True)])
def test_a_group_that_was_not_seen_since_the_declaration_does_not_count(after: int, counts: bool) -> None:
    """Its instances may be those that have declared the job anew."""
    declared = replace(DIGEST, declared_at=NOW - 5_000)
    found = replace(other(), seen_at=NOW - 5_000 + after)
    assert dissenting(declared, [found], NOW) == ((found,) if counts else ())
    assert dissenting(replace(declared, declared_at=None), [found], NOW) == (found,)


def test_a_group_that_runs_a_disabled_job_dissents() -> None:
    """By whatever schedule, also if that is not known."""
    declared = replace(DIGEST, disabled=True)
    for found in (other(), other(schedule=NINE), group("digest")):
        assert dissenting(declared, [found], NOW) == (found,)
    assert dissenting(declared, [group("mail"), other(seen=91)], NOW) == ()
