"""The real clocks: which of the machine's each one is."""

from __future__ import annotations

import time

import pytest

from firecron.base import clocks
from firecron.base.clocks import Deadline, ServerClock, SystemTiming


@pytest.mark.parametrize(("boot_clock", "expected"), [(7, 3.0), (None, 5.0)])
def test_the_monotonic_clock_goes_on_while_the_machine_sleeps(
    monkeypatch: pytest.MonkeyPatch, boot_clock: int | None, expected: float
) -> None:
    """It reads the clock that counts sleep, if the system has one; else the monotonic one. In milliseconds."""
    monkeypatch.setattr(clocks, "BOOT_CLOCK", boot_clock)
    monkeypatch.setattr(time, "clock_gettime_ns", {7: 3_000_000}.get)
    monkeypatch.setattr(time, "monotonic_ns", lambda: 5_000_000)
    assert SystemTiming().mono() == expected


class Machine:
    """A machine's clocks, in milliseconds: what it sleeps is in all of them but the monotonic one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, slept: float = 7_000_000) -> None:
        self.mono, self.slept = 5_000.0, slept
        monkeypatch.setattr(clocks, "BOOT_CLOCK", 7)
        monkeypatch.setattr(time, "clock_gettime_ns", lambda clock: round((self.mono + self.slept) * 1e6))
        monkeypatch.setattr(time, "monotonic_ns", lambda: round(self.mono * 1e6))
        monkeypatch.setattr(time, "time_ns", lambda: round((self.mono + self.slept + 1e12) * 1e6))


def test_the_wall_clock_goes_on_in_suspend(monkeypatch: pytest.MonkeyPatch) -> None:
    """It shows the time, as the monotonic clock does; how long the machine has slept is told apart."""
    machine = Machine(monkeypatch)
    timing = SystemTiming()
    wall, mono, slept = timing.wall(), timing.mono(), timing.suspended()
    machine.slept += 90_000
    assert (timing.wall() - wall, timing.mono() - mono, timing.suspended() - slept) == (90_000, 90_000, 90_000)


def test_rtdbs_time_is_asked_for_again_after_a_suspension(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clocks may have lost up to a second in suspend, and no other one shows it: the estimate is made anew."""
    machine = Machine(monkeypatch)
    timing = SystemTiming()
    lost = [0.0]
    clock = ServerClock(
        lambda deadline: round(machine.mono + machine.slept + lost[0]),
        timing, margin=1_000, samples=1, drift=200e-6, interval=300, request_timeout=5,
    )  # fmt: skip
    clock.now(Deadline.after(timing, 5))
    machine.mono += 10_000
    assert clock.peek() is not None
    machine.slept, lost[0] = machine.slept + 30_000, 990
    assert clock.peek() is None
    assert abs(clock.now(Deadline.after(timing, 5)).server - (machine.mono + machine.slept + 990)) <= 1


def test_a_pause_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """It sleeps for as long as it was asked to."""
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    SystemTiming().sleep(0.25)
    assert slept == [0.25]
