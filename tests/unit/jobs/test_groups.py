"""Groups as an operator's tools see them: what lives, who would run what, and which jobs were taken out."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.jobs.test_catalogue import entry

from firecron.jobs.groups import Group, group_fields, live_groups_of, read_groups, retired

NOW = 1_794_992_400_000
A, B = "0123456789abcdef", "fedcba9876543210"


def group(*jobs: str, name: str = A, seen: int = 0, first: int | None = 100, service: str = "api") -> Group:
    """A group that was last seen so many seconds ago, and first so many."""
    return Group(name, frozenset(jobs), service, None if first is None else NOW - first * 1000, NOW - seen * 1000)


def test_what_a_group_tells_is_read() -> None:
    """Names come back as they were told, and the groups in the order of their names."""
    told = {**group_fields(["mail", "digest"], "api", 20), "seenAt": NOW, "firstSeenAt": NOW - 9, "beats": 3}
    assert told["jobs"] == "digest mail"
    found = read_groups({B: told, A: {**group_fields([], "api", 30), "seenAt": NOW}})
    assert found == (
        Group(A, frozenset(), "api", None, NOW, 30),
        Group(B, frozenset({"digest", "mail"}), "api", NOW - 9, NOW, 20),
    )


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


def test_too_many_names_are_left_out() -> None:
    """They don't fit into the node; who reads it doesn't know them."""
    names = ["x" * 99] * 1_000
    assert "jobs" not in group_fields([*names, "xx"], "api", 30)
    assert "jobs" in group_fields(names, "api", 30)


@pytest.mark.parametrize(("heartbeat", "seconds"), [(30, 90), (5, 15)])
def test_a_group_lives_for_three_beats(heartbeat: float, seconds: int) -> None:
    """By its own heartbeat."""
    for seen, lives in ((seconds, True), (seconds + 0.001, False)):
        one = Group(A, frozenset(), "api", None, NOW - round(seen * 1000), heartbeat)
        assert one.is_live(NOW) is lives


def test_who_runs_a_job() -> None:
    """Live groups that have it, and those of which nobody knows."""
    has, lacks, dead, unknown = (
        group("digest"),
        group("mail"),
        group("digest", seen=91),
        replace(group(), jobs=None),
    )
    assert live_groups_of("digest", [has, lacks, dead, unknown], NOW) == (has, unknown)


DIGEST = replace(entry(), declared_at=NOW - 200_000)


def test_a_job_that_a_younger_group_of_its_service_lacks_is_retired() -> None:
    """Its service lives on without it, so somebody has taken it out."""
    assert retired(DIGEST, [group("mail"), group("digest", name=B, seen=91)], NOW)


@pytest.mark.parametrize(
    "groups",
    [
        [],
        [group("digest", seen=91)],
        [group("mail"), group("digest", name=B)],
        [group("mail", service="web")],
        [group("mail", first=200)],
        [group("mail", first=None)],
        [group("mail", seen=91)],
        [group("mail"), replace(group(), jobs=None)],
    ],
)
def test_otherwise_it_is_not(groups: list[Group]) -> None:
    """Nobody lives, somebody has it or may have it, or who lives is another service, or older than the entry."""
    assert not retired(DIGEST, groups, NOW)


@pytest.mark.parametrize(
    "declared",
    [replace(DIGEST, ticks=False), replace(DIGEST, disabled=True), replace(DIGEST, declared_at=None)],
)
def test_of_a_job_that_is_in_no_group_it_cannot_be_said(declared: object) -> None:
    """A job that only triggers run, and a disabled one."""
    assert not retired(declared, [group("mail")], NOW)  # type: ignore[arg-type]  # a Declared each
