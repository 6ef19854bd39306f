"""`H` in a cron line: which numbers it stands for, and that they never change."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firecron import ConfigurationError, FireCron, Run, Schedule, distributed_cron
from firecron.cron.hashed_line import resolved
from firecron.cron.line import FIELDS, is_hashed, numbers
from firecron.jobs.catalogue import declared as declared_entry
from firecron.jobs.decorator import declared
from firecron.settings import Settings

NAMES = st.from_regex(r"[a-z][a-z0-9_-]{0,30}", fullmatch=True)


@pytest.mark.parametrize(
    ("line", "name", "expected"),
    [
        ("H * * * *", "digest", "3 * * * *"),
        ("H * * * *", "ops/cron/digest", "51 * * * *"),
        ("H * * * *", "remind:42", "27 * * * *"),
        ("h h * * *", "digest", "3 13 * * *"),
        ("H H(1-5) * * *", "digest", "3 5 * * *"),
        ("H/15 * * * *", "digest", "3,18,33,48 * * * *"),
        ("H/5 * * * *", "digest", "3-58/5 * * * *"),
        ("H(0-29)/10 * * * *", "digest", "3,13,23 * * * *"),
        ("H(0-29),H(30-59) * * * *", "digest", "3,33 * * * *"),
        ("H H(22-4)/3 * * *", "digest", "3 23,2 * * *"),
        ("H H(20-4)/1 * * *", "digest", "3 20,21,22,23,0,1,2,3,4 * * *"),
        ("H H H(1-28)/27 * *", "digest", "3 13 21 * *"),
        ("H H H H H", "digest", "3 13 4 9 5"),
        ("H H * * H(MON-FRI)", "digest", "3 13 * * 3"),
        ("H H H * * *", "digest", "15 3 13 * * *"),
        ("H 6 H,L * *", "digest", "3 6 4,L * *"),
    ],
)
def test_the_numbers_of_a_name_never_change(line: str, name: str, expected: str) -> None:
    """These are the numbers of these names, in every version: others would move the ticks of all who have an H."""
    schedule = Schedule(line, "Europe/Berlin", name=name)
    assert (schedule.line, schedule.written) == (expected, line)
    assert schedule == Schedule(expected, "Europe/Berlin")
    assert Schedule(expected).written is None


def test_a_range_that_goes_on_after_the_last_number_has_all_of_its_numbers() -> None:
    """From before midnight to after it; each of them is some name's."""
    found = {Schedule("0 H(22-1) * * *", name=f"job-{number}").line for number in range(100)}
    assert found == {f"0 {hour} * * *" for hour in (22, 23, 0, 1)}


@given(name=NAMES, field=st.sampled_from([(0, 0, 59), (1, 0, 23), (2, 1, 28), (3, 1, 12), (4, 0, 6)]), data=st.data())
def test_a_number_is_one_of_its_range(name: str, field: tuple[int, int, int], data: st.DataObject) -> None:
    """Whatever the name: H is a number of its field (a day that each month has), and of its range; a step goes on."""
    place, first, last = field
    low = data.draw(st.integers(first, last))
    high = data.draw(st.integers(low, last))
    step = data.draw(st.integers(1, high - low + 1))
    for term, bounds in (("H", (first, last)), (f"H({low}-{high})", (low, high))):
        line = " ".join(term if index == place else "*" for index in range(5))
        assert bounds[0] <= int(resolved(line, name)[0].split()[place]) <= bounds[1]
    line = " ".join(f"H({low}-{high})/{step}" if index == place else "*" for index in range(5))
    found = sorted(numbers(FIELDS[1:][place], resolved(line, name)[0].split()[place], []))
    assert low <= found[0] < low + step
    assert found == list(range(found[0], high + 1, step))


def test_names_are_spread_over_the_field() -> None:
    """Of a thousand jobs with `H 3 * * *` each minute gets some, and none gets many."""
    found = Counter(Schedule("H 3 * * *", name=f"job-{number}").line for number in range(1_000))
    assert len(found) == 60
    assert max(found.values()) < 40


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("H(5) * * * *", "'H(5)' is not a valid minute: an H is written as H, H(1-5), H/15 or H(1-30)/10"),
        ("H-5 * * * *", "'H-5' is not a valid minute"),
        ("H(50-60) * * * *", "60 is not a valid minute: use 0 to 59"),
        ("H/0 * * * *", "the step of 'H/0' must be 1 or more"),
        ("0 0 H(20-31) * *", "'H(20-31)' is not a valid day of the month: not every month has a day after the 28th"),
        ("H * * *", "has 4 fields"),
        ("H * * * * * *", "has 7 fields"),
        ("HELLO * * * *", "HELLO is not a valid minute"),
        ("R * * * *", "R is not a valid minute"),
    ],
)
def test_a_hash_that_can_not_be_read_is_refused(line: str, problem: str) -> None:
    """What is no H, or none of its field, is refused with what to write."""
    with pytest.raises(ValueError, match=r".") as caught:
        Schedule(line, name="digest")
    assert problem in str(caught.value)
    assert repr(line) in str(caught.value)


def test_a_hash_needs_a_name() -> None:
    """Without a name there is nothing to take the hash of; a line without an H needs none."""
    with pytest.raises(ValueError, match="has an H, which stands for a number from the hash of a job's name: give the"):
        Schedule("H 3 * * *")
    assert not any(map(is_hashed, ("0 9 * * THU", "@hourly", "0 0 * MARCH 4", None, 5)))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("H/7 * * * *", "H/7 is uneven: it starts again with each hour; write 4,11,18,25,32,39,46,53 if you want that"),
        ("H/90 * * * *", "the step of H/90 is too big for a minute: it matches 3 only"),
        ("H(0-5)/30 * * * *", "the step of H(0-5)/30 is too big for a minute: it matches 3 only"),
    ],
)
def test_an_uneven_hashed_step_gets_a_warning(line: str, said: str) -> None:
    """A step that hardly means what it says is named as it was written; an even one is not."""
    assert Schedule(line, name="digest").warnings == (f"in the cron line {line!r} {said}",)
    assert Schedule("H/15 H(0-22)/5 * * *", name="digest").warnings == ()


@distributed_cron("digest", "H 3 * * *")
def digest(run: Run) -> None: ...


def test_a_job_has_the_number_of_its_name_below_the_prefix() -> None:
    """Each database prefix has numbers of its own; the declaration shows the line as it was written."""
    (options,) = declared(digest)
    assert options.schedule.line == "3 3 * * *"
    assert "'H 3 * * *'" in repr(options)
    expected = {"": "3 3 * * *", "ops/cron": "51 3 * * *"}
    for prefix, line in expected.items():
        crons = FireCron(digest, settings=Settings(prefix=prefix), enabled=False)
        job = crons.registry.get("digest")
        assert job.options.schedule.line == line
        (tick,) = crons.registry.next_slots("digest")
        assert tick.minute == int(line.split()[0])
        entry = declared_entry(job.options, where="", ticks=True, service="local", revision=None)
        assert entry.to_node()["line"] == line, "older versions read the plain line"
        with crons.testing(datetime(2026, 11, 18, 2, tzinfo=UTC)) as test:
            test.advance(7_200)
            assert [entry["slot"] for entry in test.history("digest")] == [f"2026-11-18T03:{line[:2].strip():0>2}:00Z"]


def test_a_wrong_hash_is_refused_while_decorating() -> None:
    """The error of a line with an H comes while the program is loaded."""
    with pytest.raises(ConfigurationError, match=r"the cron line 'H\(70-80\) \* \* \* \*' can't be used: 70 is not"):
        distributed_cron("digest", "H(70-80) * * * *")
