"""The modules that the engine finds in place of the standard library's, while it is imported for a simulation.

A stand-in has what would read a real clock, start a real thread, or draw a real random number. Every other name is the
real module's. `environ` is empty, so the shell of whoever runs the tests changes nothing.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import os
import random
import secrets
import signal
import time
from collections.abc import Callable, Coroutine
from types import ModuleType
from typing import TypeVar

from tests.simulation import threads
from tests.simulation.greenlets import Thread, current
from tests.simulation.loops import run
from tests.simulation.machines import Machine

T = TypeVar("T")

# The wall clocks' zero, in nanoseconds: 2026-11-18T08:59:30Z.
EPOCH = 1_794_992_370 * 1_000_000_000


class StandIn(ModuleType):
    """A module with some names of its own, and the rest of the real one."""

    def __init__(self, real: ModuleType, **names: object) -> None:
        super().__init__(real.__name__)
        self.__dict__.update(names)
        self._real = real

    def __getattr__(self, name: str) -> object:
        return getattr(self._real, name)


def _machine() -> Machine:
    machine = current().machine
    assert machine is not None, "only a machine has clocks"
    return machine


def _mono_ns(clock: int = 0) -> int:
    scheduler = current()
    scheduler.point()
    return _machine().mono(scheduler.now)


def _time_ns() -> int:
    scheduler = current()
    scheduler.point()
    return EPOCH + scheduler.now + _machine().wall_error


def sleep(seconds: float) -> None:
    """Let time pass on the clock of this thread's machine."""
    scheduler = current()
    scheduler.block(scheduler.after(seconds) - scheduler.now)


def _random() -> float:
    machine = current().machine
    return 0.5 if machine is None else machine.random.random()


def _token(length: int | None = None) -> str:
    return f"{_machine().random.getrandbits(8 * (length or 16)):0{2 * (length or 16)}x}"


def _url_token(length: int | None = None) -> str:
    # The name of the machine, so that a timeline shows whose token it is.
    return f"{_machine().name}-{_machine().random.getrandbits(32):08x}"


def _at_exit(call: Callable[[], object]) -> Callable[[], object]:
    _machine().at_exit.append(call)
    return call


def _not_at_exit(call: Callable[[], object]) -> None:
    machine = current().machine
    if machine is not None:
        machine.at_exit[:] = [other for other in machine.at_exit if other != call]


class Executor:
    """A `ThreadPoolExecutor` that starts a thread for each call."""

    def __init__(self, max_workers: int | None = None, thread_name_prefix: str = "executor") -> None:
        self._name = thread_name_prefix

    def submit(self, call: Callable[..., T], *arguments: object) -> concurrent.futures.Future[T]:
        future: concurrent.futures.Future[T] = concurrent.futures.Future()

        def make_the_call() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(call(*arguments))
                except BaseException as error:
                    future.set_exception(error)

        Thread(target=make_the_call, name=self._name, daemon=True).start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Do nothing: no thread waits for work."""


def _run_coroutine(main: Coroutine[object, object, T]) -> T:
    return run(main)


NO_SIGNALS = StandIn(signal, getsignal=lambda number: None)
MODULES: dict[str, ModuleType] = {
    "threading": threads,
    "time": StandIn(
        time,
        CLOCK_BOOTTIME=7,
        monotonic_ns=_mono_ns,
        clock_gettime_ns=_mono_ns,
        monotonic=lambda: _mono_ns() / 1e9,
        time_ns=_time_ns,
        time=lambda: _time_ns() / 1e9,
        sleep=sleep,
    ),
    "random": StandIn(random, random=_random, uniform=lambda low, high: low + (high - low) * _random()),
    "secrets": StandIn(secrets, token_hex=_token, token_urlsafe=_url_token),
    "atexit": StandIn(atexit, register=_at_exit, unregister=_not_at_exit),
    "os": StandIn(os, getpid=lambda: _machine().pid, environ={}, register_at_fork=lambda **calls: None),
    "asyncio": StandIn(asyncio, run=_run_coroutine),
    "concurrent.futures": StandIn(concurrent.futures, ThreadPoolExecutor=Executor),
}
