"""The history: who may write over whom, what is tried again, and what is pruned."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.simulation.fleet import Fleet
from tests.simulation.instance import Instance
from tests.simulation.world import NAME, START, slot

from firecron.errors import Unavailable
from firecron.jobs.run import Outcome
from firecron.lock.protocol import Held
from firecron.lock.record import LockRecord
from firecron.runs.entry import Entry, manual_key, read_entry, unrun
from firecron.runs.policy import Claim


def finished(fence: int | None = 5, outcome: Outcome = "succeeded", key: str = slot(), attempt: int = 1) -> Entry:
    return Entry(key, outcome, key, "schedule", START, START + 10, 10, attempt, fence)


def write(one: Instance, entry: Entry) -> None:
    one.crons.history.record(NAME, entry)


RUN, LATER_RUN, UNFENCED = finished(5), finished(6), finished(None)
ABANDONED, LATER_ABANDONED = unrun(slot(), "abandoned", 1, 5), unrun(slot(), "abandoned", 2, 6)
MISSED = unrun(slot(), "missed")


@pytest.mark.parametrize(
    ("first", "then", "is_replaced"),
    [
        (RUN, LATER_RUN, True),
        (LATER_RUN, RUN, False),
        (RUN, finished(5, "failed"), False),
        (ABANDONED, RUN, True),
        (RUN, ABANDONED, False),
        (ABANDONED, LATER_RUN, True),
        (RUN, LATER_ABANDONED, True),
        (LATER_RUN, ABANDONED, False),
        (LATER_ABANDONED, RUN, False),
        (ABANDONED, ABANDONED, False),
        # The fence that the bookkeeper found was a run by hand's, after this one.
        (unrun(slot(), "abandoned", 1, 20), RUN, True),
        (RUN, unrun(slot(), "abandoned", 1, 20), False),
        (unrun(slot(), "abandoned", 2, 20), RUN, False),
        (MISSED, RUN, True),
        (RUN, MISSED, False),
        (MISSED, UNFENCED, True),
        (UNFENCED, MISSED, False),
        (UNFENCED, finished(None, "failed"), False),
    ],
)
def test_the_higher_fence_wins_and_a_run_over_a_guess(
    fleet: Fleet, first: Entry, then: Entry, is_replaced: bool
) -> None:
    """An entry replaces one of a lower fence, and a run the bookkeeper's of its own; all others stay."""
    one = fleet.instance()
    write(one, then)
    wanted = fleet.world.history()[slot()]
    fleet.world.store.set(f"cron-runs/{NAME}/{slot()}", None)
    write(one, first)
    before = fleet.world.history()[slot()]
    write(one, then)
    assert fleet.world.history() == {slot(): wanted if is_replaced else before}


@given(st.permutations([finished(4, "lost"), RUN, LATER_RUN, ABANDONED, MISSED]))
def test_the_order_of_the_writers_does_not_matter(entries: list[Entry]) -> None:
    """Whoever comes first, the entry of the latest claim of a slot is the one that stays."""
    fleet = Fleet()
    one = fleet.instance()
    for entry in entries:
        write(one, entry)
    assert fleet.world.history() == {slot(): LATER_RUN.to_node()}


def test_what_is_there_without_sense_is_replaced(fleet: Fleet) -> None:
    """A node that is no entry gives way to one."""
    fleet.world.store.set(f"cron-runs/{NAME}/{slot()}", "note")
    write(fleet.instance(), RUN)
    assert fleet.world.outcomes() == {slot(): "succeeded"}


def test_an_entry_has_what_the_console_shows(fleet: Fleet) -> None:
    """An unrun tick's entry has outcome and slot, a count only where it stands for several, and its writer's name."""
    one = fleet.instance()
    write(one, replace(MISSED, instance="instance", instance_id="revision"))
    write(one, unrun(slot(60), "skipped", count=77))
    write(one, unrun(slot(120), "missed", count=500, at_least=True))
    first, second, third = fleet.world.history().values()
    assert first == {
        "outcome": "missed",
        "slot": slot(),
        "recordedBy": "bookkeeper",
        "instance": "instance",
        "instanceId": "revision",
    }
    assert (second["count"], second.get("atLeast")) == (77, None)
    assert (third["count"], third["atLeast"]) == (500, True)


def test_a_lost_reply_is_written_once_more(fleet: Fleet) -> None:
    """A write that failed is tried again, and finds its own entry where it had landed."""
    one = fleet.instance()
    one.network.lose_reply()
    write(one, RUN)
    assert fleet.world.history() == {slot(): RUN.to_node()}
    assert one.network.requests() == ["swap", "swap"]
    assert one.said("history.failed") == []


def test_what_can_not_be_written_is_given_up(fleet: Fleet) -> None:
    """An entry that can't be written within release_timeout is reported and given up; nothing is raised."""
    one = fleet.instance(release_timeout=4)
    one.network.is_down = True
    write(one, RUN)
    assert 2_000 < fleet.world.mono() <= 4_000
    one.network.is_down, one.network.is_denied = False, True
    write(one, MISSED)
    assert [event.fields["key"] for event in one.said("history.failed")] == [slot(), slot()]
    assert fleet.world.history() == {}


def test_a_write_that_is_always_overtaken_ends(fleet: Fleet) -> None:
    """An entry that others keep changing is given up, and said to be, within the same time."""
    one = fleet.instance()
    numbers = iter(range(10_000))

    def overtake(method: str, path: str) -> None:
        fleet.world.store.set(path, {"fence": -1, "number": next(numbers)})

    one.network.before = overtake
    write(one, RUN)
    assert len(one.said("history.failed")) == 1
    assert fleet.world.mono() <= 5_000


def test_every_tenth_write_or_so_prunes(fleet: Fleet) -> None:
    """As chance has it a write also prunes, after itself, to the limit."""
    one = fleet.instance(history_limit=3)
    for number in range(6):
        one.chance.value = 0.1
        write(one, finished(key=slot(60 * number)))
    assert len(fleet.world.history()) == 6
    one.chance.value = 0.0999
    write(one, finished(key=slot(400)))
    assert list(fleet.world.history()) == [slot(240), slot(300), slot(400)]


def test_a_long_history_is_pruned_as_much_more_seldom(fleet: Fleet) -> None:
    """A prune lists all keys: a write in a tenth of the limit does, so that a run costs the same bytes."""
    one = fleet.instance(history_limit=400)
    for chance, prunes in ((0.0251, False), (0.0249, True)):
        one.chance.value = chance
        write(one, finished(key=slot(round(chance * 100_000))))
        assert ("keys" in one.network.methods) is prunes


def test_pruning_that_fails_is_only_said(fleet: Fleet) -> None:
    """When pruning fails the entry is there all the same."""
    one = fleet.instance()
    one.chance.value = 0.0

    def before(method: str, path: str) -> None:
        one.network.is_denied = method == "keys"

    one.network.before = before
    write(one, RUN)
    assert fleet.world.outcomes() == {slot(): "succeeded"}
    assert len(one.said("history.failed")) == 1


def test_keys_sort_by_time(fleet: Fleet) -> None:
    """Runs by hand lie between the ticks, where they happened."""
    one = fleet.instance()
    keys = [slot(), manual_key(START + 30_000, "abc123"), slot(60)]
    for key in reversed(keys):
        write(one, finished(key=key))
    assert list(fleet.world.history()) == keys
    fleet.world.store.set(f"cron-runs/{NAME}", {key: {"outcome": "succeeded"} for key in reversed(keys)})
    assert list(one.crons.history.read(NAME)) == keys
    assert one.crons.history.read("nothing") == {}


def test_half_a_character_in_an_error_is_written_down(fleet: Fleet) -> None:
    """What RTDB would refuse in the text of an error doesn't cost the history its entry."""
    one = fleet.instance()

    def fail(run: object) -> None:
        raise ValueError("no such file: caf\udce9")

    fleet.body = fail
    one.turn(slot())
    assert fleet.world.history()[slot()]["error"] == "ValueError: no such file: caf?"


def test_an_error_is_cut(fleet: Fleet) -> None:
    """Of an error's text 500 characters are kept."""
    one = fleet.instance()

    def fail(run: object) -> None:
        raise ValueError("x" * 1_000)

    fleet.body = fail
    one.turn(slot())
    assert len(str(fleet.world.history()[slot()]["error"])) == 500


def test_a_node_that_is_no_entry_is_quoted_in_part() -> None:
    """Whatever somebody has written there, the message that says so stays short."""
    assert len(read_entry("key", {"outcome": "x" * 5_000_000}).error or "") < 300


@pytest.mark.parametrize("node", [{"fence": True}, {"outcome": "lost"}])
def test_what_is_no_fence_counts_as_none(fleet: Fleet, node: object) -> None:
    """An entry whose fence is missing, or no number, gives way to one with any fence."""
    fleet.world.store.set(f"cron-runs/{NAME}/{slot()}", node)
    write(fleet.instance(), finished(1))
    assert fleet.world.outcomes() == {slot(): "succeeded"}


@pytest.mark.parametrize(("asked", "times"), [(None, [0, 0.025, 0.075, 0.175]), (2.0, [0, 2]), (4.0, [0])])
def test_a_write_is_tried_again_after_growing_pauses(fleet: Fleet, asked: float | None, times: list[float]) -> None:
    """The pauses double, are no shorter than the database asks for, and none begins that would last to the end."""
    one = fleet.instance(release_timeout=4)
    one.chance.value = 1.0
    tried: list[float] = []

    def fail(method: str, path: str) -> None:
        tried.append(fleet.world.mono() / 1000)
        raise Unavailable("busy", retry_after=asked)

    one.network.before = fail
    write(one, RUN)
    assert tried[: len(times)] == pytest.approx(times)
    assert asked is None or len(tried) == len(times)
    assert len(one.said("history.failed")) == 1


def test_nothing_is_pruned_where_nothing_is_old_or_written(fleet: Fleet) -> None:
    """Within the limit pruning is one question, and after a write that failed there is none."""
    one = fleet.instance()
    one.chance.value = 0.0
    write(one, RUN)
    assert one.network.requests() == ["swap", "keys"]
    one.network.is_denied = True
    write(one, LATER_RUN)
    assert "keys" not in one.network.requests("cron-runs")


def steps(fleet: Fleet) -> list[str]:
    """The ticks that have steps."""
    node = fleet.world.store.get(f"cron-steps/{NAME}")
    return sorted(node) if isinstance(node, dict) else []


DONE = {"a": {"fence": 1, "startedAt": 1, "doneAt": 2, "result": "1"}}


def with_steps(fleet: Fleet, *keys: str) -> Instance:
    """An instance, and a history of six entries with these ticks' steps."""
    for number in range(6):
        fleet.world.store.set(f"cron-runs/{NAME}/{slot(60 * number)}", {"outcome": "succeeded"})
    for key in keys:
        fleet.world.store.set(f"cron-steps/{NAME}/{key}", DONE)
    return fleet.instance(history_limit=3)


def test_steps_are_pruned_in_one_write_with_their_entry(fleet: Fleet) -> None:
    """Whole ticks go, also one whose run died before it had an entry; what a lock does once stays for ever."""
    orphan = manual_key(START + 90_000, "abc123")
    keys = [*(slot(60 * number) for number in range(6)), orphan, "once"]
    one = with_steps(fleet, *keys)
    one.crons.history.prune(NAME)
    assert list(fleet.world.history()) == [slot(180), slot(240), slot(300)]
    assert steps(fleet) == [slot(180), slot(240), slot(300), "once"]
    assert one.network.methods.count("merge") == 1


def test_i46_the_steps_of_an_unfinished_tick_are_kept(fleet: Fleet) -> None:
    """However old it is, another attempt may need them; its entry stays with them."""
    one = with_steps(fleet, slot(), slot(60))
    fleet.world.put({"expiresAt": 1, "unfinished": slot(), "slot": slot(300)})
    one.crons.history.prune(NAME)
    assert steps(fleet) == [slot()]
    assert list(fleet.world.history()) == [slot(), slot(180), slot(240), slot(300)]
    one.crons.history.prune(NAME)
    assert steps(fleet) == [slot()]


def test_pruning_of_a_stored_job_leaves_other_schedules_alone(fleet: Fleet) -> None:
    """The oldest runs of all its schedules go, each with its own steps and traceback: not those of another schedule at
    the same tick, an unfinished tick, another job, nor any schedule.
    """
    one, store = fleet.instance(), fleet.world.store
    one.crons.history.limits[NAME] = 3
    done = {"outcome": "succeeded"}
    runs = [(slot(), "42"), (slot(), "43"), (slot(60), "42"), (slot(60), "43"), (slot(120), "42"), (slot(180), "43")]
    for tick, key in runs:
        store.set(f"cron-runs/{NAME}/{tick}:{key}", done)
        store.set(f"cron-errors/{NAME}/{tick}:{key}", "a traceback")
        store.set(f"cron-steps/{NAME}:{key}/{tick}", DONE)
    store.set(f"cron-runs/other/{slot()}:42", done)
    store.set(f"cron-steps/other:42/{slot()}", DONE)
    entries = {":42": {"line": "* * * * *", "nextAt": START}, ":43": {"expiresAt": 1, "unfinished": slot()}}
    store.set(f"cron-schedules/{NAME}", entries)
    one.crons.history.prune(f"{NAME}:42")
    left = {(slot(), "43"), *runs[3:]}
    for node in ("cron-runs", "cron-errors"):
        assert keys_below(fleet, f"{node}/{NAME}") == sorted(f"{tick}:{key}" for tick, key in left)
    for key in ("42", "43"):
        assert keys_below(fleet, f"cron-steps/{NAME}:{key}") == sorted(tick for tick, of in left if of == key)
    assert keys_below(fleet, "cron-runs/other") == [f"{slot()}:42"]
    assert keys_below(fleet, "cron-steps/other:42") == [slot()]
    assert store.get(f"cron-schedules/{NAME}") == entries


def keys_below(fleet: Fleet, path: str) -> list[str]:
    node = fleet.world.store.get(path)
    return sorted(node) if isinstance(node, dict) else []


def test_a_job_without_steps_asks_for_two_more_lists_when_it_prunes(fleet: Fleet) -> None:
    """For those of steps and of tracebacks. Its lock is not read, and rules that don't know steps keep no history from
    being pruned.
    """
    one = with_steps(fleet)
    one.crons.history.prune(NAME)
    assert one.network.requests() == ["keys", "keys", "keys", "merge"]
    one = with_steps(fleet)

    def deny(method: str, path: str) -> None:
        one.network.is_denied = path.startswith("cron-steps")

    one.network.before = deny
    one.crons.history.prune(NAME)
    assert len(fleet.world.history()) == 3


def test_the_history_of_a_stored_job_is_read_whole_or_by_schedule(fleet: Fleet) -> None:
    """By the job's name all runs are found, by a schedule's its own; an entry names the schedule for the rules."""
    one = fleet.instance()
    for key in ("42", "43"):
        one.crons.history.record(f"{NAME}:{key}", RUN)
    assert list(one.crons.history.read(NAME)) == [f"{slot()}:42", f"{slot()}:43"]
    assert one.crons.history.read(f"{NAME}:43") == {f"{slot()}:43": {**RUN.to_node(), "key": "43"}}
    write(one, RUN)
    assert "key" not in fleet.world.history()[slot()]


def test_a_died_run_is_told_of_although_it_can_not_be_written(fleet: Fleet) -> None:
    """Nobody else tells of it, so it is told of at least once."""
    one = fleet.instance(release_timeout=4)
    one.network.is_down = True
    one.crons.history.record_entries(one.job(), [ABANDONED])
    assert len(one.said("run.abandoned")) == 1


def test_pruning_a_stored_job_asks_for_no_more_than_it_needs(fleet: Fleet) -> None:
    """Only the lock of a schedule with steps is read. Where there are no steps none are named, as older rules would
    refuse the write. Where nothing may go nothing is written.
    """
    one, store = fleet.instance(history_limit=1), fleet.world.store
    done = {"outcome": "succeeded"}
    store.set(f"cron-runs/{NAME}", {f"{slot()}:42": done, f"{slot(60)}:43": done})
    merged: list[str] = []
    merge = one.network.merge

    def noting(path: str, values: dict[str, object], *rest: Any, **words: Any) -> dict[str, object]:
        merged.extend(values)
        return merge(path, values, *rest, **words)

    one.network.merge = noting  # type: ignore[method-assign]  # the same, and noted
    one.crons.history.prune(f"{NAME}:43")
    assert one.network.requests() == ["keys", "keys", "merge"]
    assert not [path for path in merged if path.startswith("cron-steps")]
    store.set(f"cron-steps/{NAME}:43/{slot(60)}", DONE)
    store.set(f"cron-schedules/{NAME}", {":43": {"expiresAt": 1, "unfinished": slot(60)}})
    store.set(f"cron-runs/{NAME}/{slot(120)}:42", done)
    one.crons.history.prune(f"{NAME}:42")
    assert "merge" not in one.network.requests()


def test_runs_from_before_a_job_was_stored_are_pruned_with_the_others(fleet: Fleet) -> None:
    """Among old runs of both kinds, each stored schedule's goes with its steps."""
    one, store = fleet.instance(history_limit=1), fleet.world.store
    done = {"outcome": "succeeded"}
    store.set(f"cron-runs/{NAME}", {slot(): done, f"{slot(60)}:43": done, f"{slot(120)}:42": done})
    store.set(f"cron-steps/{NAME}:43/{slot(60)}", DONE)
    one.crons.history.prune(f"{NAME}:42")
    assert list(fleet.world.history()) == [f"{slot(120)}:42"]
    assert store.get(f"cron-steps/{NAME}:43") is None


@pytest.mark.parametrize(
    ("unfinished", "since", "entries"),
    [
        # Before the put, so that nobody reruns it, and no tick up to the put was missed.
        (0, 150, {slot(): "abandoned", slot(180): "missed"}),
        (0, 200, {slot(): "abandoned"}),
        # After it: one entry for the run, and those of the ticks that nobody claimed.
        (60, 30, {slot(60): "abandoned", slot(120): "missed", slot(180): "missed"}),
        (None, 150, {slot(180): "missed"}),
    ],
)
def test_a_put_ends_what_was_before_it(
    fleet: Fleet, unfinished: int | None, since: int, entries: dict[str, str]
) -> None:
    """A run that died before its schedule was put anew is written as abandoned, once. Ticks before that don't exist, so
    they are neither skipped nor missed.
    """
    one = fleet.instance()
    fields = {
        "slot": slot(unfinished or 0),
        "acquiredAt": START,
        "expiresAt": START + 70_000,
        "since": START + since * 1000,
    }
    ended = {"releasedAt": START + 70_000} if unfinished is None else {"unfinished": slot(unfinished)}
    held = cast("Held", SimpleNamespace(replaced=LockRecord.of({**fields, **ended})))  # all that is read of it
    stored = replace(one.job(), declared=one.job())
    one.crons.history.record_passed_over(stored, held, Claim(slot(240), "schedule"))
    fleet.world.advance(1)
    assert fleet.world.outcomes() == entries
    assert len(one.said("run.abandoned")) == (unfinished is not None)
    assert one.said("history.failed") == []
