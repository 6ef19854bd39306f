"""The steps of a run: the doors that the body calls, for sync and async jobs alike.

All tries of a claim share what they remember. A name is used once in a try, or a loop would get its first page for
ever. The first claim of a tick reads nothing, because nobody else can have recorded anything; a later one reads all
steps of the tick in one request, at its first step.

In an async job a step is a coroutine, and nothing happens before it is awaited. Requests are made off the loop. A
cancellation reaches an async function; it waits for a blocking one, for its record, and for each request. A step that
nobody awaited, or that still runs when the body has ended, fails the run.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from inspect import isawaitable, iscoroutine
from typing import Literal

from firecron.base.flag import in_each_process
from firecron.base.threads import in_thread, off_loop, to_its_end
from firecron.errors import ConfigurationError
from firecron.jobs.decorator import is_async
from firecron.jobs.run import Run, check_step_name, to_key
from firecron.lock.lease import Lease, write_under
from firecron.lock.protocol import reading
from firecron.steps.protocol import Ask, Claimant, Step, Stepping, check_in_doubt, read_step, settling, stepping


@dataclass(eq=False, slots=True)
class _Use:
    """The use of a step in one try, and the coroutine that waits to be awaited."""

    name: str
    function: Callable[..., object] | None = None
    args: tuple[object, ...] = ()
    kwargs: dict[str, object] = field(default_factory=dict)
    state: Literal["waiting", "running", "over"] = "waiting"
    coroutine: Coroutine[object, object, object] | None = None

    def call(self) -> object:
        assert self.function is not None, "it is no settling"
        return self.function(*self.args, **self.kwargs)


class Steps:
    """The steps of one claim of a tick. `path` is the node of the tick's steps, `now` returns RTDB's time.

    `is_first` says that no earlier claim of the tick can have recorded anything.
    """

    def __init__(
        self,
        run: Run,
        lease: Lease,
        path: str,
        claimant: Claimant,
        now: Callable[[], int],
        *,
        is_first: bool,
        is_async: bool,
    ) -> None:
        self._run = run
        self._lease = lease
        self._path = path
        self._claimant = claimant
        self._now = now
        self._is_async = is_async
        # The nodes of earlier claims, by their keys; None until they are read.
        self._found: dict[str, object] | None = {} if is_first else None
        self._steps: dict[str, Step] = {}
        self._uses: dict[str, _Use] = {}
        self._is_over = False
        # What is wrong with the steps of the last try: one was not awaited, or still ran.
        self.left: ConfigurationError | None = None
        in_each_process(self._begin_process)

    def _begin_process(self) -> None:
        self._lock = threading.Lock()
        self._reading = threading.Lock()

    # --- for the body, by way of its run

    def step(
        self,
        name: str,
        function: object,
        args: tuple[object, ...],
        kwargs: dict[str, object],
        *,
        returns: object,
        at_most_once: bool,
    ) -> object:
        check_step_name(name)
        if function is asyncio.to_thread and args and callable(args[0]):
            function, args = args[0], args[1:]  # what is done with a blocking function anyway
        if not callable(function):
            if iscoroutine(function):
                function.close()
            raise ConfigurationError(
                f'step "{name}" is given {function!r:.80}, which can\'t be called: pass the function and its '
                f'arguments, run.step("{name}", function, argument), not its result'
            )
        if not self._is_async and is_async(function):
            raise ConfigurationError(
                f'step "{name}" is given the async function {function!r}, but the job is sync: declare the job with '
                "async def, and await the step"
            )
        use = self._begin(_Use(name, function, args, kwargs))
        return self._do(use, lambda step: self._stepping(step, returns, at_most_once=at_most_once))

    def settle(self, name: str, result: object) -> object:
        step = check_in_doubt(self._steps.get(name), name, "settle")
        use = self._begin(_Use(name), again=True)
        return self._do(use, lambda _: settling(step, result, self._claimant, self._now, self._is_trusted))

    def retry(self, name: str) -> None:
        check_in_doubt(self._steps.get(name), name, "retry").may_retry = True
        with self._lock:
            self._uses.pop(name, None)

    def are_awaited(self) -> None:
        self._is_async = True

    # --- for the body's frame, and the execution of the run

    def close(self) -> None:
        with self._lock:
            self._is_over = True
            waiting = [use for use in self._uses.values() if use.state == "waiting"]
            still = [use.name for use in self._uses.values() if use.state == "running"]
        for use in waiting:
            if use.coroutine is not None:
                with suppress(RuntimeError, ValueError):  # it has begun at this moment
                    use.coroutine.close()
        if waiting:
            self.left = ConfigurationError(
                f"{_named([use.name for use in waiting])} never awaited: write await run.step(…)"
            )
        elif still:
            self.left = ConfigurationError(
                f"{_named(still)} still running when the job's function had ended: await it, or join its thread"
            )

    def begin_try(self) -> None:
        """Let each name be used once more."""
        with self._lock:
            self._is_over, self.left = False, None
            self._uses = {name: use for name, use in self._uses.items() if use.state == "running"}

    # --- one step

    def _begin(self, use: _Use, *, again: bool = False) -> _Use:
        with self._lock:
            if self._is_over:
                raise ConfigurationError(f'step "{use.name}" begins after the job\'s function has ended')
            if use.name in self._uses and not (again and self._uses[use.name].state == "over"):
                raise ConfigurationError(
                    f'step "{use.name}" is called a second time in one try, and would get its first result again: give '
                    "each step a name of its own, such as one with an id in it"
                )
            self._uses[use.name] = use
        return use

    def _do(self, use: _Use, make: Callable[[Step], Stepping]) -> object:
        if not self._is_async:
            return self._drive(use, make)
        use.coroutine = self._drive_async(use, make)
        return use.coroutine

    def _stepping(self, step: Step, returns: object, *, at_most_once: bool) -> Stepping:
        step.returns = returns
        return stepping(step, self._claimant, self._now, self._is_trusted, at_most_once=at_most_once)

    def _drive(self, use: _Use, make: Callable[[Step], Stepping]) -> object:
        use.state = "running"
        try:
            self._run.check()
            self._read()
            going = make(self._known(use.name))
            try:
                wish = next(going)
                while True:
                    try:
                        answer = self._ask(use.name, wish) if isinstance(wish, Ask) else _no_awaitable(use)
                    except BaseException as error:
                        wish = going.throw(error)
                    else:
                        wish = going.send(answer)
            except StopIteration as done:
                result: object = done.value
                return result
        finally:
            use.state = "over"

    async def _drive_async(self, use: _Use, make: Callable[[Step], Stepping]) -> object:
        use.state = "running"
        cancelled: asyncio.CancelledError | None = None
        try:
            self._run.check()
            if self._found is None:
                read, cancelled = await to_its_end(off_loop(self._read))
                _raise(cancelled)
                read.result()
            going = make(self._known(use.name))
            try:
                wish = next(going)
                while True:
                    try:
                        if isinstance(wish, Ask):
                            ask = wish
                            work, later = await to_its_end(off_loop(lambda: self._ask(use.name, ask)))  # noqa: B023  # awaited here
                            cancelled = later or cancelled
                            answer = work.result()
                        else:
                            # Cancelled while it wrote the intent: it may still leave the call.
                            _raise(cancelled)
                            answer, cancelled = await _called(use)
                    except BaseException as error:
                        wish = going.throw(error)
                    else:
                        wish = going.send(answer)
            except StopIteration as done:
                _raise(cancelled)
                result: object = done.value
                return result
            except Exception:
                _raise(cancelled)  # the cancellation that was kept waiting comes before what went wrong meanwhile
                raise
        finally:
            use.state = "over"

    def _ask(self, name: str, ask: Ask) -> object:
        return write_under(self._lease, ask.exchange, f"{self._path}/{to_key(name)}")

    def _read(self) -> None:
        """Read the steps of earlier claims, once."""
        with self._reading:
            if self._found is None:
                node = write_under(self._lease, reading, self._path).node
                self._found = node if isinstance(node, dict) else {}

    def _known(self, name: str) -> Step:
        with self._lock:
            if name not in self._steps:
                assert self._found is not None, "they are read"
                node = self._found.get(to_key(name))
                # The ETag of a child is not in the answer for all.
                known = None if node is not None else Step(name).known
                self._steps[name] = Step(name, read_step(node), known)
            return self._steps[name]

    def _is_trusted(self) -> bool:
        return not self._lease.lost


async def _called(use: _Use) -> tuple[object, asyncio.CancelledError | None]:
    """Return what the function returned, and the cancellation that came while it blocked a thread."""
    assert use.function is not None, "it is no settling"
    if is_async(use.function):
        result = use.call()
        return (await result if isawaitable(result) else result), None
    work, cancelled = await to_its_end(in_thread(use.call))
    result = work.result()
    # A lambda, or the like, may return a coroutine.
    return (await result if isawaitable(result) else result), cancelled


def _no_awaitable(use: _Use) -> object:
    result = use.call()
    if isawaitable(result):
        if iscoroutine(result):
            result.close()
        raise ConfigurationError(
            f'step "{use.name}" returned an awaitable, but the job is sync: declare the job with async def, and await '
            "the step"
        )
    return result


def _raise(cancelled: asyncio.CancelledError | None) -> None:
    if cancelled is not None:
        raise cancelled


def _named(names: list[str]) -> str:
    said = ", ".join(f'"{name}"' for name in names[:5]) + ("…" if len(names) > 5 else "")
    return f"step {said} was" if len(names) == 1 else f"steps {said} were"
