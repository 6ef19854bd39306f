"""One step of one claim: when it calls, what it writes, and what it remembers. Without I/O.

    look         a step that is recorded returns its result; an intent of an earlier try is in doubt
    intend       only with at_most_once: write the intent, before the call
    call         what it raises goes to the body, and nothing is recorded: the next try calls again
    remember     from here on this claim does not call again, whatever becomes of the record
    record       write the result, while the lease is trusted

It is a generator, so that sync jobs, async jobs and the tests that interleave two claims drive the same lines. It
yields what is to be done: `Ask` (an exchange on the step's node) or `Call` (the function). What may come between is in
`lock.step_protocol`. Of `at_most_once` this is left: whoever crashes, stops or loses the lease between the intent and
the record leaves a step in doubt, also if the call had not begun. It is never called again by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TypeAlias

from firecron.base.instants import to_datetime
from firecron.errors import ConfigurationError, LeaseLost, StepInDoubt
from firecron.lock.protocol import ABSENT, Exchange
from firecron.lock.record import Lost
from firecron.lock.step_protocol import IsTrusted, Settled, intending, recording
from firecron.lock.step_record import StepRecord
from firecron.lock.step_values import from_result, to_result
from firecron.store import Snapshot


@dataclass(frozen=True, slots=True)
class Claimant:
    """Whose steps they are: one claim of a tick. `tick` is the key of its entry in the history."""

    name: str
    tick: str
    fence: int
    attempt: int
    instance: str


@dataclass(frozen=True, slots=True)
class Returned:
    """What a call has returned, as it is, and when the call began."""

    value: object
    started_at: int


@dataclass(eq=False, slots=True)
class Step:
    """What this claim knows of one step.

    `record` is what the database is known to have. `known` is the node that the next write is based on; None if it has
    to be read first.
    """

    name: str
    record: StepRecord | None = None
    known: Snapshot | None = ABSENT
    returns: object = None
    returned: Returned | None = None
    may_retry: bool = False

    @property
    def in_doubt(self) -> bool:
        """Whether an earlier try has called it, or was about to, and it is not known how that ended."""
        return self.record is not None and not self.record.is_done and self.returned is None

    def take_known(self) -> Snapshot | None:
        """Return the node for the next write. A second round, after a failure, has to read it."""
        known, self.known = self.known, None
        return known


@dataclass(frozen=True, slots=True)
class Ask:
    """Asks for an exchange on the step's node. The answer is what it settled; LeaseLost is raised if it lost."""

    exchange: Callable[[], Exchange[Settled | Lost]]


@dataclass(frozen=True, slots=True)
class Call:
    """Asks for the call of the step's function. The answer is what it returned."""


Wish: TypeAlias = Ask | Call
Stepping: TypeAlias = Generator[Wish, object, object]


def stepping(
    step: Step, claimant: Claimant, now: Callable[[], int], is_trusted: IsTrusted, *, at_most_once: bool
) -> Stepping:
    """Do the step, and return its result. `now` returns RTDB's time."""
    if step.record is not None and step.record.is_done:
        return _result(step, step.record)
    if step.returned is None:
        if step.in_doubt and not step.may_retry:
            raise _doubt(step)
        started_at = now()
        if at_most_once:
            allowed = step.record
            intent = StepRecord(claimant.fence, started_at, claimant.attempt, claimant.instance)
            settled = yield Ask(lambda: intending(intent, step.take_known(), is_trusted, allowed))
            assert isinstance(settled, Settled), "that is the answer"
            step.record, step.known = settled.record, settled.snapshot
            if settled.verdict == "found":
                return _result(step, settled.record)
            if settled.verdict == "in_doubt":
                step.may_retry = False  # what was allowed was another intent
                raise _doubt(step)
            if not is_trusted():
                raise LeaseLost  # the reply came too late: another claim may have begun
        step.may_retry = False
        step.returned = Returned((yield Call()), started_at)
    return (yield from _recording(step, claimant, now, is_trusted))


def settling(step: Step, result: object, claimant: Claimant, now: Callable[[], int], is_trusted: IsTrusted) -> Stepping:
    """Record what an operator, or another system, says that a step in doubt has brought."""
    assert step.record is not None, "it is in doubt"
    to_result(step.name, result, step.returns)  # what can't be recorded must not count as returned
    step.returned = Returned(result, step.record.started_at)
    return (yield from _recording(step, claimant, now, is_trusted))


def _recording(step: Step, claimant: Claimant, now: Callable[[], int], is_trusted: IsTrusted) -> Stepping:
    returned = step.returned
    assert returned is not None, "it has been called"
    text = to_result(step.name, returned.value, step.returns)
    record = StepRecord(
        claimant.fence, returned.started_at, claimant.attempt, claimant.instance, max(now(), returned.started_at), text
    )
    settled = yield Ask(lambda: recording(record, step.take_known(), is_trusted))
    assert isinstance(settled, Settled), "that is the answer"
    step.record, step.known = settled.record, settled.snapshot
    return _result(step, settled.record)


def _result(step: Step, record: StepRecord) -> object:
    return from_result(step.name, record.result or "", step.returns)


def _doubt(step: Step) -> StepInDoubt:
    record = step.record
    assert record is not None, "it is in doubt"
    return StepInDoubt(step.name, record.instance, record.attempt, to_datetime(record.started_at))


def check_in_doubt(step: Step | None, name: str, method: str) -> Step:
    """Return the step if it is in doubt; otherwise raise ConfigurationError."""
    if step is None or not step.in_doubt:
        raise ConfigurationError(
            f'run.{method}({name!r}): that step is not in doubt; call it after run.step("{name}", …) has raised '
            "StepInDoubt"
        )
    return step
