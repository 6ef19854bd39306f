"""What beats say of their group: once, again after a deletion, and by whom it was founded."""

from __future__ import annotations

import pytest

from firecron.cron.schedule import Schedule
from firecron.jobs.catalogue import digest
from firecron.scheduler.heartbeat import Membership

NINE = Schedule("0 9 * * *")
TOLD = {"jobs": "a b", "schedules": digest(NINE) * 2, "service": "api", "heartbeat": 30}


def fields(membership: Membership, group: str = "g") -> dict[str, object]:
    return membership.fields(group, {"b": NINE, "a": NINE}, "api", 30)


def test_the_jobs_are_told_until_a_beat_was_written() -> None:
    """A beat that fails leaves the membership as it was; the next group is told anew."""
    membership = Membership()
    assert fields(membership) == TOLD
    membership = membership.after("g", 7, 1_000)
    assert fields(membership) == {}
    assert fields(membership, "h") == TOLD


@pytest.mark.parametrize(("number", "founds"), [(1, True), (3, True), (4, False)])
def test_the_first_three_say_when_the_group_began(number: int, founds: bool) -> None:
    """Each with the time of its own first beat there, once."""
    membership = Membership().after("g", number, 1_000)
    assert fields(membership) == ({"firstSeenAt": 1_000} if founds else {})
    assert fields(membership, "h") == TOLD, "of another group it says nothing"
    assert fields(membership.after("g", number + 1, 2_000)) == {}


@pytest.mark.parametrize("number", [1, 5, 6])
def test_a_deleted_node_is_told_again(number: int) -> None:
    """A counter that has not risen was deleted: jobs and time are written anew, and then no more."""
    membership = Membership().after("g", 5, 1_000).after("g", 6, 2_000).after("g", number, 3_000)
    assert fields(membership) == {**TOLD, **({"firstSeenAt": 3_000} if number == 1 else {})}
    assert fields(membership.after("g", number + 1, 4_000)) == {}


def test_a_beat_without_a_ticket_tells_as_well() -> None:
    """Only tickets show who was first."""
    membership = Membership().after("g", None, 1_000)
    assert fields(membership) == {}
    membership = membership.after("g", 1, 2_000)
    assert fields(membership) == {"firstSeenAt": 2_000}
    assert fields(membership.after("g", None, 3_000)) == {}
    assert fields(membership.after("g", None, 3_000).after("g", 2, 4_000)) == {}
