"""The heartbeats of a fleet's instances, as its emulator has them: when all are there, and when all know how many."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from rtdb_emulator import Emulator

PATIENCE = 120


def wait_until_all_live(emulator: Emulator, number: int) -> None:
    """Wait until so many instances have started."""
    _until(lambda: len(_beats(emulator)) == number, lambda: f"{len(_beats(emulator))} of {number} instances beat")


def wait_until_all_know(emulator: Emulator, number: int) -> None:
    """Wait until so many instances have beaten twice since all were there: two tickets tell how many they are."""
    wait_until_all_live(emulator, number)
    for _ in range(2):
        _until(partial(_have_beaten, emulator, _beats(emulator)), lambda: "some instances have stopped beating")


def _beats(emulator: Emulator) -> dict[str, object]:
    """When each instance has beaten last."""
    found = emulator.get("bench", "/cron-instances")
    nodes = found if isinstance(found, dict) else {}
    return {name: node["seenAt"] for name, node in nodes.items() if name != "clock"}


def _have_beaten(emulator: Emulator, before: dict[str, object]) -> bool:
    """Whether each instance has beaten since these were the last beats."""
    return not before.items() & _beats(emulator).items()


def _until(is_so: Callable[[], bool], problem: Callable[[], str]) -> None:
    ends = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < ends, problem()
        time.sleep(0.1)
