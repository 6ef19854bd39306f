"""On which thread a stop is done: where the caller is, or on one of its own where that would wait for itself."""

from __future__ import annotations

import atexit
import inspect
import signal
import threading
from collections.abc import Callable

import pytest
from tests.unit.threads import PATIENCE, ended, named

from firecron.app import Stopper, hurried_by_ctrl_c


def called_from(module: str, call: Callable[[], object]) -> None:
    """Make the call from a function of a module of that name."""
    scope: dict[str, object] = {"__name__": module, "call": call}
    exec("def function(): call()\nfunction()", scope)


class Bench:
    """A stopper, the threads that it has worked on, and what is registered for the end of the process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, has_threads: bool = True) -> None:
        self.threads: list[threading.Thread] = []
        self.registered: list[object] = []
        self.working: Callable[[], object] = lambda: None
        monkeypatch.setattr(atexit, "register", self.registered.append)
        monkeypatch.setattr(atexit, "unregister", self._unregister)
        self.stopper = Stopper(self._work, has_threads=has_threads)

    def _unregister(self, call: object) -> None:
        self.registered[:] = [other for other in self.registered if other != call]

    def _work(self) -> None:
        self.threads.append(threading.current_thread())
        assert self.registered == ([] if self.threads[-1] is threading.main_thread() else [self.stopper.stop_here])
        self.working()

    def stop(self) -> None:
        self.stopper.stop(inspect.currentframe())


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(monkeypatch)


@pytest.mark.parametrize("module", ["shop", "firecron.cli.commands.run", "firecron.demo.show", "firecrony"])
def test_who_is_outside_stops_by_itself(bench: Bench, module: str) -> None:
    """A caller outside of the engine stops on its own thread."""
    called_from(module, bench.stop)
    assert bench.threads == [threading.current_thread()]


def test_who_is_inside_has_a_thread_for_it(bench: Bench) -> None:
    """A caller inside of the engine has a daemon thread stop, which the end of the process completes; each time, but
    not from the stop itself.
    """
    bench.working = lambda: called_from("firecron.runs.runner", bench.stop)
    bench.stop()
    for number in (2, 3):
        called_from("firecron.runs.runner", bench.stop)
        assert all(ended(thread) for thread in threading.enumerate() if thread.name == "firecron-stop")
        assert len(bench.threads) == number
        assert bench.threads[-1].name == "firecron-stop"
        assert bench.threads[-1].daemon
        assert bench.registered == []


def test_without_threads_it_is_done_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there are no threads the stop is done where it is asked for, from the inside too."""
    bench = Bench(monkeypatch, has_threads=False)
    called_from("firecron.runs.runner", bench.stop)
    assert bench.threads == [threading.current_thread()]


def test_stops_that_overlap_leave_the_programs_handler() -> None:
    """Whichever of two stops on one loop ends first, Ctrl-C is the program's again once both have ended."""
    before = signal.getsignal(signal.SIGINT)
    first, second = hurried_by_ctrl_c(lambda: None, {}), hurried_by_ctrl_c(lambda: None, {})
    for block in (first, second):
        block.__enter__()
    assert signal.getsignal(signal.SIGINT) is not before
    for block in (first, second):
        block.__exit__(None, None, None)
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize(("environment", "hurries"), [({}, 2), ({"K_SERVICE": "api"}, 0)])
def test_a_ctrl_c_during_a_stop_hurries_it(environment: dict[str, str], hurries: int) -> None:
    """Each one in the block does, except on Cloud Run; the handler that was there is called, and put back."""
    hurried, handled = threading.Semaphore(0), list[int]()
    before = signal.signal(signal.SIGINT, lambda number, frame: handled.append(number))
    try:
        mine = signal.getsignal(signal.SIGINT)
        with hurried_by_ctrl_c(hurried.release, environment):
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is mine
        signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
    assert handled == [signal.SIGINT] * 3
    for _ in range(hurries):
        assert hurried.acquire(timeout=PATIENCE)
    assert all(map(ended, named("firecron-hurry")))
    assert not hurried.acquire(blocking=False)


def test_only_the_main_thread_hears_signals() -> None:
    """On another thread, as with a server in a test, the block changes no handler."""
    before, seen = signal.getsignal(signal.SIGINT), list[object]()

    def stop() -> None:
        with hurried_by_ctrl_c(lambda: None, {}):
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=stop)
    thread.start()
    assert ended(thread)
    assert seen == [before]
