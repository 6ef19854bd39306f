"""Workers: as many threads as are needed and allowed, and no work lost; and waiting for what is under way."""

from __future__ import annotations

import logging
import threading

import pytest
from tests.unit.locks import lock_of
from tests.unit.threads import PATIENCE, Followed, ended

from firecron.base.flag import begin_child
from firecron.base.threads import LINGERS, OpenWork, Workers
from firecron.testing import FakeTiming


class Gate:
    """Work that waits to be let go; `begun` counts how much of it is under way."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.open = threading.Event()
        self.threads: set[threading.Thread] = set()

    def __call__(self) -> None:
        self.threads.add(threading.current_thread())
        self.begun.release()
        assert self.open.wait(PATIENCE)

    def wait_for(self, number: int) -> None:
        for _ in range(number):
            assert self.begun.acquire(timeout=PATIENCE)

    def occupy(self, workers: Workers, number: int = 1) -> None:
        """Give them so much of it, and return once all is under way."""
        for _ in range(number):
            workers.submit(self)
        self.wait_for(number)


@pytest.mark.parametrize("number", [1, 4])
def test_there_are_as_many_threads_as_allowed(number: int) -> None:
    """So much is done at the same time and no more, and the rest in its order when there is room."""
    workers, authenticator = Workers(number), Gate()
    order: list[int] = []
    done = threading.Semaphore(0)

    def then(index: int) -> None:
        order.append(index)
        done.release()

    authenticator.occupy(workers, number)
    for index in range(20):
        workers.submit(lambda index=index: then(index))  # type: ignore[misc]  # bound at once
    assert (order, len(authenticator.threads)) == ([], number)
    authenticator.open.set()
    for _ in range(20):
        assert done.acquire(timeout=PATIENCE)
    assert sorted(order) == list(range(20))
    if number == 1:
        assert order == sorted(order)
    workers.dismiss()


def test_there_is_room_until_all_are_busy() -> None:
    """It is full when every thread that may be has work, or what waits takes the others; then it is not."""
    workers, authenticator = Workers(2), Gate()
    rooms = [workers.is_full]
    for _ in range(2):
        authenticator.occupy(workers)
        rooms.append(workers.is_full)
    workers.submit(authenticator)
    rooms.append(workers.is_full)
    assert rooms == [False, False, True, True]
    authenticator.open.set()
    authenticator.wait_for(1)
    while workers.idle < 2:
        threading.Event().wait(0.001)
    assert not workers.is_full
    workers.dismiss()
    assert not workers.is_full


@pytest.mark.parametrize("error", [ValueError, SystemExit])
def test_a_task_that_raises_costs_no_thread(error: type[BaseException], caplog: pytest.LogCaptureFixture) -> None:
    """What a task raises, whatever it is, is logged, and its thread goes on to the next."""
    workers, done = Workers(1), threading.Event()

    def fail() -> None:
        raise error

    with caplog.at_level(logging.ERROR, "firecron"):
        workers.submit(fail)
        workers.submit(done.set)
        assert done.wait(PATIENCE)
    assert "A worker's task failed" in caplog.text
    workers.dismiss()


def test_the_dismissed_go_home() -> None:
    """After a dismissal what nobody had begun is dropped, threads end when they are done, and new work has new ones."""
    workers, authenticator = Workers(2), Gate()
    dropped = threading.Event()
    authenticator.occupy(workers, 2)
    workers.submit(dropped.set)
    workers.dismiss()
    done, thread = threading.Event(), []

    def work() -> None:
        thread.append(threading.current_thread())
        done.set()

    workers.submit(work)
    assert done.wait(PATIENCE), "the old threads are still busy"
    authenticator.open.set()
    for old in authenticator.threads:
        assert ended(old)
    assert not set(thread) & authenticator.threads
    assert not dropped.is_set()
    workers.dismiss()
    assert ended(thread[0])


def test_a_thread_that_does_not_linger_ends_with_its_work() -> None:
    """Without lingering all that was submitted is done in order, the thread then ends, and new work has a new one."""
    workers = Workers(1, lingers=0)
    threads: list[threading.Thread] = []
    order: list[int] = []
    for number in range(2):
        authenticator, done = Gate(), threading.Event()
        workers.submit(authenticator)
        for index in range(3):
            workers.submit(lambda index=index: order.append(index))  # type: ignore[misc]  # bound at once
        workers.submit(done.set)
        authenticator.wait_for(1)
        authenticator.open.set()
        assert done.wait(PATIENCE)
        (thread,) = authenticator.threads
        assert ended(thread)
        threads.append(thread)
        assert order == [0, 1, 2] * (number + 1)
    assert len(set(threads)) == 2
    assert workers.threads == 0


def test_after_a_burst_the_threads_end() -> None:
    """Fifty threads that find nothing to do have ended 30 s later, and not before. Later work has a new thread."""
    timing = Followed(0)
    workers, burst = Workers(50, timing=timing), Gate()
    burst.occupy(workers, 50)
    burst.open.set()
    timing.rest(50)
    timing.pass_by(LINGERS - 1)
    assert workers.threads == workers.idle == 50
    timing.pass_by(1)
    assert all(map(ended, burst.threads))
    assert workers.threads == workers.idle == 0
    done = threading.Event()
    workers.submit(done.set)
    assert done.wait(PATIENCE)
    assert workers.threads == 1
    workers.dismiss()


def test_some_work_now_and_then_keeps_one_thread() -> None:
    """A job every ten seconds goes to the thread that worked last, so the others of a burst end all the same."""
    timing = Followed(0)
    workers, burst = Workers(4, timing=timing), Gate()
    burst.occupy(workers, 4)
    burst.open.set()
    timing.rest(4)
    job = Gate()
    job.open.set()
    for _ in range(6):
        job.occupy(workers)
        idle(workers, workers.threads)
        for thread in burst.threads:
            timing.await_rest(thread)
        timing.pass_by(10)
    assert len(job.threads) == 1
    assert workers.threads == 1
    workers.dismiss()


def test_work_that_comes_as_a_thread_is_to_end_is_done() -> None:
    """Whoever is first has the lock: the thread, which has ended then, or the work, which it takes with it."""
    for _ in range(20):
        timing = Followed(0)
        workers, first, second = Workers(1, timing=timing), Gate(), threading.Event()
        first.open.set()
        first.occupy(workers)
        timing.rest(1)
        with lock_of(workers):
            timing.advance(LINGERS + 1)  # it wakes, and waits for the lock
            workers.submit(second.set)
        assert second.wait(PATIENCE)
        workers.dismiss()


def test_a_dismissal_ends_idle_threads_at_once() -> None:
    """A stop doesn't wait until the threads have lingered for long enough."""
    timing = Followed(0)
    workers, burst = Workers(4, timing=timing), Gate()
    burst.occupy(workers, 4)
    burst.open.set()
    timing.rest(4)
    workers.dismiss()
    assert all(map(ended, burst.threads))


def test_a_dismissed_thread_takes_no_new_work_with_it() -> None:
    """Work that comes right after a dismissal is done, though threads that were idle have not gone home yet."""
    workers, first, second = Workers(2), threading.Event(), threading.Event()
    workers.submit(first.set)
    assert first.wait(PATIENCE)
    idle(workers)
    with lock_of(workers):
        workers.dismiss()
        workers.submit(second.set)
    assert second.wait(PATIENCE)
    workers.dismiss()


def test_without_threads_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no thread can be started (the process ends) work is refused and forgotten, unless there is one already."""
    busy, authenticator, done = Workers(2), Gate(), threading.Event()
    authenticator.occupy(busy)

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        fresh = Workers(2)
        with pytest.raises(RuntimeError):
            fresh.submit(done.set)
        busy.submit(done.set)
    later = threading.Event()
    fresh.submit(later.set)
    assert later.wait(PATIENCE)
    fresh.dismiss()
    assert not done.is_set()
    authenticator.open.set()
    assert done.wait(PATIENCE)
    busy.dismiss()


def test_a_forked_child_starts_empty() -> None:
    """In a forked child the parent's work is not done, its threads are not counted, busy or idle, and the lock that one
    of them held keeps nobody waiting.
    """
    workers, authenticator = Workers(1), Gate()
    authenticator.occupy(workers)
    parents = threading.Event()
    workers.submit(parents.set)
    workers._idle.append(*workers._workers)  # as if it waited for work, which no thread of the child does
    holder = threading.Thread(target=lock_of(workers).acquire)
    holder.start()
    assert ended(holder)
    begin_child()
    done = threading.Event()
    workers.submit(done.set)
    assert done.wait(PATIENCE)
    assert not parents.is_set()
    authenticator.open.set()
    workers.dismiss()


def test_an_interrupted_submit_costs_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Ctrl-C comes before the thread has started, the work is refused, and the next has a thread."""
    workers, done = Workers(1), threading.Event()
    refused = threading.Event()

    def interrupt(thread: threading.Thread) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", interrupt)
        with pytest.raises(KeyboardInterrupt):
            workers.submit(refused.set)
    workers.submit(done.set)
    assert done.wait(PATIENCE)
    assert not refused.is_set()
    workers.dismiss()


def idle(workers: Workers, number: int = 1) -> None:
    """Come back when so many threads have nothing to do."""
    while workers.idle < number:
        pass


def test_an_idle_thread_takes_what_comes() -> None:
    """What comes while a thread is idle is done by that; only while all are busy there is another. All are daemons."""
    workers, first, second, third = Workers(3), Gate(), Gate(), Gate()
    first.open.set()
    first.occupy(workers)
    idle(workers)
    second.occupy(workers)
    third.occupy(workers)
    assert second.threads == first.threads
    assert workers.threads == 2
    assert not second.threads & third.threads
    for authenticator in (second, third):
        authenticator.open.set()
        assert all(thread.daemon for thread in authenticator.threads)
    workers.dismiss()


@pytest.mark.parametrize("has_started", [True, False])
def test_an_interrupted_submit_is_refused_beside_others(has_started: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C as a second thread is started refuses the work; a thread that has started all the same counts."""
    workers, authenticator, refused = Workers(2), Gate(), threading.Event()
    authenticator.occupy(workers)
    start = threading.Thread.start

    def interrupt(thread: threading.Thread) -> None:
        if has_started:
            start(thread)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", interrupt)
        with pytest.raises(KeyboardInterrupt):
            workers.submit(refused.set)
    assert workers.threads == 1 + has_started
    authenticator.open.set()
    done = threading.Event()
    workers.submit(done.set)
    assert done.wait(PATIENCE)
    assert not refused.is_set()
    workers.dismiss()


def test_what_ends_twice_has_ended_once() -> None:
    """A mark may be removed again, and one that was never added too; others stay."""
    open_work = OpenWork(FakeTiming())
    open_work.add("one")
    open_work.add("other")
    for mark in ("one", "one", "none"):
        open_work.remove(mark)
    assert len(open_work) == 1


def waiting(open_work: OpenWork, timing: FakeTiming) -> threading.Thread:
    """Somebody who waits for a second."""
    thread = threading.Thread(target=open_work.wait, args=[timing.mono() + 1_000])
    thread.start()
    return thread


def test_a_wait_ends_with_the_last_work() -> None:
    """Whoever waits is woken by each end, and goes on at the last."""
    timing = FakeTiming()
    open_work = OpenWork(timing)
    for mark in ("one", "other"):
        open_work.add(mark)
    thread = waiting(open_work, timing)
    for mark in ("one", "other"):
        open_work.remove(mark)
    assert ended(thread)


def test_the_last_moment_is_waited_for() -> None:
    """A wait of less than a millisecond is one as well."""
    waits: list[float | None] = []

    class Timing(FakeTiming):
        def wait(self, condition: threading.Condition, seconds: float | None) -> None:
            waits.append(seconds)
            self.advance(seconds or 0)

    timing = Timing()
    open_work = OpenWork(timing)
    open_work.add("one")
    open_work.wait(timing.mono() + 0.5)
    assert waits == [0.0005]


def test_a_forked_child_has_no_work_to_wait_for() -> None:
    """What the parent's threads do never ends in the child."""
    timing = FakeTiming()
    open_work = OpenWork(timing)
    open_work.add("one")
    held, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        with open_work.changed:  # as another thread may have at the fork
            held.set()
            assert go_on.wait(PATIENCE)

    threading.Thread(target=hold).start()
    try:
        assert held.wait(PATIENCE)
        begin_child()
        assert open_work.changed.acquire(timeout=PATIENCE)
        open_work.changed.release()
    finally:
        go_on.set()
    open_work.wait(timing.mono() + 1_000)
    assert len(open_work) == 0
