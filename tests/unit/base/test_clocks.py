"""The real clocks: which of the machine's each one is."""

from __future__ import annotations

import time

import pytest

from firecron.base import clocks
from firecron.base.clocks import SystemTiming


@pytest.mark.parametrize(("boot_clock", "expected"), [(7, 3.0), (None, 5.0)])
def test_the_monotonic_clock_goes_on_while_the_machine_sleeps(
    monkeypatch: pytest.MonkeyPatch, boot_clock: int | None, expected: float
) -> None:
    """It reads the clock that counts sleep, if the system has one; else the monotonic one. In milliseconds."""
    monkeypatch.setattr(clocks, "BOOT_CLOCK", boot_clock)
    monkeypatch.setattr(time, "clock_gettime_ns", {7: 3_000_000}.get)
    monkeypatch.setattr(time, "monotonic_ns", lambda: 5_000_000)
    assert SystemTiming().mono() == expected


def test_a_pause_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """It sleeps for as long as it was asked to."""
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    SystemTiming().sleep(0.25)
    assert slept == [0.25]
