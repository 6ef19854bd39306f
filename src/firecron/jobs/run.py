"""A run, as the job sees it: which tick it is for, whether it should go on, and its steps.

`steps.steps` has what a step does. A run that was made by hand has none.

The name of a step is any text of 1 to 200 bytes. RTDB takes no `. $ # [ ] /` and no control characters in a key, and
shows a node whose keys are all numbers as an array. Those characters, and `%`, are written as `%XX`, and so is the
first digit of a name of digits. So two names never have one key, and a key has 600 of the 768 bytes that RTDB allows,
at the most.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar
from datetime import datetime
from typing import Any, Literal, ParamSpec, Protocol, TypeAlias, TypeVar, overload

from firecron.base.flag import Flag
from firecron.base.texts import redacted, storable
from firecron.errors import Cancelled, ConfigurationError, LeaseLost, Stopping

Trigger: TypeAlias = Literal["schedule", "catch_up", "rerun", "manual", "http", "firebase"]
Outcome: TypeAlias = Literal[
    "succeeded", "failed", "lost", "interrupted", "cancelled", "abandoned", "skipped", "missed"
]
LONGEST_NOTE = 500
_MOST_READ = 20 * LONGEST_NOTE
P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
# What a step of an async job is until it is awaited.
Awaited: TypeAlias = Coroutine[object, object, T]


class RunSteps(Protocol):
    """The steps of one claim of a tick. `left` is what is wrong with them after a try."""

    left: ConfigurationError | None

    def begin_try(self) -> None:
        """Let each step be used once more."""

    def step(
        self,
        name: str,
        function: Callable[..., object],
        args: tuple[object, ...],
        kwargs: dict[str, object],
        *,
        returns: object,
        at_most_once: bool,
    ) -> object:
        """Do the step, or return what does it once it is awaited."""

    def settle(self, name: str, result: object) -> object:
        """Record the result of a step in doubt, or return what does it once it is awaited."""

    def retry(self, name: str) -> None:
        """Allow one more call of a step in doubt."""

    def are_awaited(self) -> None:
        """From now on return what has to be awaited: the body turned out to be async."""

    def close(self) -> None:
        """Let no step begin any more: the body has ended."""


class Run:
    """One run of a job on this instance.

    `lost` is set when another instance may have begun. `cancelled` is set when an operator or a later tick asks this
    run to end. `stopping` is set when this instance shuts down. `noted` is the last note.

    Args:
        name: The job's name.
        slot: The tick that was claimed, in UTC; None for a run by hand.
        attempt: The number of this claim of the tick.
        fence: A number that is higher than that of every earlier run; None if the job takes no fence.
        idempotency_key: The same for every attempt at one tick. Pass it to any system that must not act twice.
        trigger: Why it runs: `schedule`, `catch_up`, `rerun`, `manual`, `http` or `firebase`.
        previous_slot: The tick before this one by the schedule, in UTC; of a run by hand, the newest up to its start.
        last_success: The newest tick before this one whose run has succeeded, in UTC; None if none is known.
    """

    def __init__(
        self,
        name: str,
        *,
        slot: datetime | None,
        attempt: int,
        fence: int | None,
        idempotency_key: str,
        trigger: Trigger,
        previous_slot: datetime | None = None,
        last_success: datetime | None = None,
    ) -> None:
        self.name = name
        self.slot = slot
        self.attempt = attempt
        self.fence = fence
        self.idempotency_key = idempotency_key
        self.trigger = trigger
        self.last_success = last_success
        self.noted: str | None = None
        self._has_ended = False
        self._previous: Callable[[], datetime | None] = lambda: previous_slot
        flag = Flag()
        self._lost: Callable[[], Flag] = lambda: flag
        self.cancelled = Flag()
        self.stopping = Flag()
        # They are made once the body asks for one. Threads of the body may ask at once: a dictionary keeps what came
        # first. Each flag is set before the steps are told, and read after they were made.
        self._make_steps: Callable[[Run], RunSteps] | None = None
        self._made: dict[str, RunSteps] = {}
        self._are_steps_awaited = self._are_steps_closed = False

    @property
    def lost(self) -> Flag:
        """Set when the lock is lost or max_runtime is over: another instance may be running the job already."""
        return self._lost()

    @property
    def previous_slot(self) -> datetime | None:
        """The tick before this one by the schedule, whether or not it ran: the same at every attempt.

        Of a run by hand it is the newest tick up to its start. None if the schedule has no earlier tick.
        """
        return self._previous()

    def note(self, text: str) -> None:
        """Say in a few words what the run has done, for the history: `run.note("1,204 mails")`.

        The last note of a run is kept, also one of a try that failed. An empty text takes it back. Raise
        ConfigurationError once the run has ended.

        Args:
            text: The note: the first 500 characters are kept, and what looks like a secret isn't.
        """
        if not isinstance(text, str):
            raise ConfigurationError(f"a note is a text, and not {text!r:.80}: write run.note(str(…))")
        if self._has_ended:
            raise ConfigurationError(f'"{self.name}" has ended, and is noted no more: {text!r:.80} came too late')
        # A text of megabytes isn't searched for secrets.
        said = storable(redacted(text[:_MOST_READ].strip()))
        self.noted = (said if len(said) <= LONGEST_NOTE else f"{said[: LONGEST_NOTE - 1]}…") or None

    def end(self) -> None:
        """Take no note any more: the run has ended, and is recorded."""
        self._has_ended = True

    def look_back(self, previous: Callable[[], datetime | None]) -> None:
        """Take `previous_slot` from this function, once it is asked for."""
        self._previous = previous

    def look_at(self, lost: Callable[[], Flag]) -> None:
        """Take `lost` from this function, at each look.

        So a process that was frozen learns at its next look that its lease is over.
        """
        self._lost = lost

    def take_steps(self, make: Callable[[Run], RunSteps]) -> None:
        """Let the run have steps, recorded by what this makes for it."""
        self._make_steps = make

    def begin_steps(self) -> None:
        """Let each step be used once more: the body is called, perhaps again."""
        self._are_steps_closed = False
        for steps in self._made.values():
            steps.begin_try()

    def awaits_steps(self) -> None:
        """Have steps awaited from now on: the function of the job was not async, but has returned an awaitable."""
        self._are_steps_awaited = True
        for steps in self._made.values():
            steps.are_awaited()

    def close_steps(self) -> None:
        """Let no step begin any more: the body has ended."""
        self._are_steps_closed = True
        for steps in self._made.values():
            steps.close()

    @property
    def steps_left(self) -> ConfigurationError | None:
        """What is wrong with the steps of the last try: one was not awaited, or still ran."""
        return next((steps.left for steps in self._made.values()), None)

    def check(self) -> None:
        """Raise LeaseLost, Cancelled or Stopping if the run should end. Call it now and then in long work."""
        if self.lost:
            raise LeaseLost
        if self.cancelled:
            raise Cancelled
        if self.stopping:
            raise Stopping

    # The keyword arguments of a step can't stand between those of a function: where one is given, a type checker does
    # not check the arguments of the function. The signatures marked below overlap the last but one only for a function
    # that has an argument `returns` or `at_most_once` of its own, and the step takes that for itself.

    @overload
    def step(
        self,
        name: str,
        function: Callable[..., Awaitable[object]],
        /,
        *args: object,
        returns: type[T],
        at_most_once: bool = False,
        **kwargs: object,
    ) -> Awaited[T]: ...

    @overload
    def step(  # type: ignore[overload-overlap]  # see above
        self,
        name: str,
        function: Callable[..., object],
        /,
        *args: object,
        returns: type[T],
        at_most_once: bool = False,
        **kwargs: object,
    ) -> T: ...

    @overload
    def step(
        self,
        name: str,
        function: Callable[..., Awaitable[R]],
        /,
        *args: object,
        returns: None = None,
        at_most_once: bool,
        **kwargs: object,
    ) -> Awaited[R]: ...

    @overload
    def step(  # type: ignore[overload-overlap]  # see above
        self,
        name: str,
        function: Callable[..., R],
        /,
        *args: object,
        returns: None = None,
        at_most_once: bool,
        **kwargs: object,
    ) -> R: ...

    @overload
    def step(
        self, name: str, function: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Awaited[R]: ...

    @overload
    def step(self, name: str, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...

    def step(
        self,
        name: str,
        function: Callable[..., object],
        /,
        *args: object,
        returns: object = None,
        at_most_once: object = False,
        **kwargs: object,
    ) -> object:
        """Call the function and record its result, or return the result that an earlier attempt has recorded.

        A step whose result was recorded is never called again for its tick. A step whose process died between the call
        and the record is called again: hand `run.key(name)` to the system that must not do it twice. In an async job
        the step is awaited, and a blocking function runs on a thread. In a sync job the result is returned.

        Args:
            name: The step, once in a try: 1 to 200 bytes of any text.
            function: What to call with the arguments that follow. In an async job, a type checker is told of a blocking
                function by `await run.step(name, asyncio.to_thread, function, …)`, which is the same.
            args, kwargs: Its arguments. They are not compared with those of an earlier attempt.
            returns: The type of the result, which pydantic writes and reads; without one, what JSON can say.
            at_most_once: Write down the intent before the call, too. If an earlier try began the call and did not
                record its end, StepInDoubt is raised.
        """
        return self._recorder.step(name, function, args, kwargs, returns=returns, at_most_once=bool(at_most_once))

    def settle(self, name: str, result: object) -> Any:
        # Any: in a sync job it is the result, in an async job an awaitable of it, and nothing here shows which.
        """Record the result of a step that is in doubt, as its call would have, and return it.

        It is awaited in an async job.

        Args:
            name: The step that raised StepInDoubt.
            result: What the call is known to have brought.
        """
        return self._recorder.settle(name, result)

    def retry(self, name: str) -> None:
        """Let the next `step` of this name call, although an earlier call is in doubt.

        Args:
            name: The step that raised StepInDoubt.
        """
        self._recorder.retry(name)

    def key(self, name: str) -> str:
        """Return the idempotency key of a step: the same at every attempt at the tick.

        It is `<idempotency_key>:<name>`. If that is longer than 255 characters, it ends in a hash.

        Args:
            name: The step.
        """
        return idempotency_key(self.idempotency_key, check_step_name(name))

    @property
    def _recorder(self) -> RunSteps:
        if self._make_steps is None:
            raise ConfigurationError(
                f'"{self.name}" has no steps: they need a run with a lease and a fence, so not overlap="allow", not '
                "once_per_tick=False, and no Run that was made by hand (in a test: crons.testing())"
            )
        steps = self._made.get("steps") or self._made.setdefault("steps", self._make_steps(self))
        if self._are_steps_awaited:
            steps.are_awaited()
        if self._are_steps_closed:
            steps.close()
        return steps

    def __repr__(self) -> str:
        return f"<Run {self.idempotency_key} attempt {self.attempt}, {self.trigger}>"


# The run whose body is called in this context.
running: ContextVar[Run | None] = ContextVar("firecron_run", default=None)


def current_run() -> Run | None:
    """Return the run that this code is part of; None outside a run."""
    return running.get()


# --- the names of steps

MOST_BYTES = 200
# Stripe takes no idempotency key that is longer.
_LONGEST_KEY = 255
_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f.$#\[\]/%]")
_HASH = 64


def check_step_name(name: object) -> str:
    """Return the name, or raise a ConfigurationError that says what is wrong with it."""
    if not isinstance(name, str) or not name:
        raise ConfigurationError(f"the name of a step is a text of 1 to {MOST_BYTES} bytes, not {name!r:.80}")
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise ConfigurationError(f"the name of a step has half a character in it: {name!r:.80}") from None
    if size > MOST_BYTES:
        raise ConfigurationError(
            f"the name of a step has {MOST_BYTES} bytes at the most, and {name[:40]!r}… has {size}: use an id"
        )
    return name


def to_key(name: str) -> str:
    """Return the key of a step in the database."""
    key = _FORBIDDEN.sub(lambda found: _escaped(found[0]), name)
    return _escaped(key[0]) + key[1:] if key.isascii() and key.isdigit() else key


def to_name(key: str) -> str:
    """Return the name that a key in the database stands for."""
    from urllib.parse import unquote

    return unquote(key, errors="replace")


def idempotency_key(of_run: str, name: str) -> str:
    """Return the key of one step of a run: the same at every attempt, and 255 characters long at the most."""
    key = f"{of_run}:{name}"
    if len(key) <= _LONGEST_KEY:
        return key
    from hashlib import sha256

    return f"{key[: _LONGEST_KEY - _HASH - 1]}:{sha256(key.encode()).hexdigest()}"


def _escaped(character: str) -> str:
    return f"%{ord(character):02X}"
