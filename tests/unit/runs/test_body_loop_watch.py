"""When a task is said to block its event loop: probes that are overdue, while the loop is in that very task."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from firecron.runs.body import LoopWatch
from firecron.testing import FakeTiming

TASK: asyncio.Task[None] = object()  # type: ignore[assignment]  # nothing is asked of it


class Bench:
    """A loop that is in `current`, and returns the probes that it was sent when it is told to; time in milliseconds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.timing = FakeTiming()
        self.probes: list[Callable[[], object]] = []
        self.current: object = TASK
        self.told: list[int] = []
        monkeypatch.setattr(asyncio, "current_task", lambda loop: self.current)
        self.watch = LoopWatch(self, self.timing, self.told.append)  # type: ignore[arg-type]  # what is used of a loop

    def call_soon_threadsafe(self, call: Callable[[], object]) -> None:
        self.probes.append(call)

    def until(self, mono: int) -> None:
        self.timing.advance((mono - self.timing.mono()) / 1000)

    def look(self, mono: int, task: asyncio.Task[None] | None = TASK) -> None:
        self.until(mono)
        self.watch.probe(task)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    """The task begins after half a second."""
    bench = Bench(monkeypatch)
    bench.until(500)
    bench.watch.begin()
    return bench


def test_a_probe_is_sent_a_second_after_a_sign_of_life(bench: Bench) -> None:
    """There is one probe at a time, each a second after the task began, or the last one came back."""
    sent: list[int] = []
    for mono in (1_000, 1_499, 1_500, 2_000):
        bench.look(mono)
        sent.append(len(bench.probes))
    bench.probes[0]()
    for mono in (2_999, 3_000):
        bench.look(mono)
        sent.append(len(bench.probes))
    bench.watch.end()
    assert sent == [0, 0, 1, 1, 1, 2]
    assert bench.told == []


@pytest.mark.parametrize(("mono", "told"), [(3_499, []), (3_500, [4_500])])
def test_a_task_blocks_while_its_probe_is_overdue(bench: Bench, mono: int, told: list[int]) -> None:
    """Where a probe isn't back after two seconds, the task is told of once it is, with its time since the last sign."""
    bench.look(1_500)
    bench.look(mono)
    bench.until(5_000)
    bench.probes[0]()
    assert bench.told == []
    bench.look(5_000)
    assert bench.told == told


def test_a_task_that_ends_before_its_probe_is_back_is_told_of(bench: Bench) -> None:
    """At the end the time counts that was seen."""
    bench.look(1_500)
    bench.look(3_500)
    bench.watch.end()
    assert bench.told == [3_000]


@pytest.mark.parametrize(("task", "current"), [(None, None), (None, TASK), (TASK, None), (TASK, object())])
def test_who_is_not_at_work_does_not_block(bench: Bench, task: asyncio.Task[None] | None, current: object) -> None:
    """An overdue probe says nothing of a task that the loop isn't in, or that has not begun."""
    bench.current = current
    bench.look(1_500, task)
    bench.look(9_000, task)
    bench.watch.end()
    assert bench.told == []


@pytest.mark.parametrize(("mono", "told"), [(30_499, []), (30_500, [30_000])])
def test_half_a_minute_is_told_of_at_once(bench: Bench, mono: int, told: list[int]) -> None:
    """A task that blocks for half a minute is told of while it does: it may never end."""
    bench.look(1_500)
    bench.look(mono)
    assert bench.told == told
