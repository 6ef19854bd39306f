"""One step of one claim: when it calls, what it writes, and what it remembers. Without I/O.

    look         a step that is recorded returns its result; an intent of an earlier try is in doubt
    intend       only with at_most_once: write the intent, before the call
    call         what it raises goes to the body, and nothing is recorded: the next try calls again
    remember     from here on this claim does not call again, whatever becomes of the record
    record       write the result, while the lease is trusted

A step is a generator, so that sync jobs, async jobs and the tests that interleave two claims drive the same lines. It
yields what is to be done: `Ask` (an exchange on the step's node) or `Call` (the function).

The exchanges that write are generators, too, and keep the rules of `lock.protocol`: a write is conditional on what was
read, a write that may have been applied is not sent again before a read, and after a 401 one read settles what can be
settled. `record` decides. On top of that, nothing is sent once the lease of the writer is over: `is_trusted` is asked
before each write.

What may come between, for a claim and the claim after it:

    crash before the call       nothing is recorded: the next claim calls
    crash after the call        nothing is recorded: the next claim calls again, with the same key
    crash after the write       the next claim finds the result, and doesn't call
    reply lost                  the write is read back, by its fence
    a write that is late        it carries the ETag of what its writer had read. If the successor has written, it is
                                refused. If not, it stands until the successor's own write replaces it
    the writer is frozen        between `is_trusted` and the write, it becomes such a late write; before, it is lost
    two late writes             of two claims: one may replace the other that a third claim has found. The rules refuse
                                both
    two attempts of one tick    have two fences, and the lock keeps their leases apart

Of `at_most_once` this is left: a claim that crashes, stops or loses the lease between the intent and the record leaves
a step in doubt, also if the call had not begun. It is never called again by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias, cast

from firecron.base.instants import to_datetime
from firecron.errors import ConfigurationError, Denied, LeaseLost, StepInDoubt, Unavailable
from firecron.lock.protocol import ABSENT, Exchange, Pause, Swap, Swapped, expect, overtaken, reading
from firecron.lock.record import Lost
from firecron.steps.record import StepRecord, Verdict, from_result, judge_intent, judge_result, read_step, to_result
from firecron.store import Snapshot

# --- writing: the exchanges

IsTrusted: TypeAlias = Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Settled:
    """What is in the database now: this write, a result that was `found` there, or an intent that is `in_doubt`."""

    verdict: Literal["written", "found", "in_doubt"]
    record: StepRecord
    snapshot: Snapshot


def recording(own: StepRecord, known: Snapshot | None, is_trusted: IsTrusted) -> Exchange[Settled | Lost]:
    """Record a result.

    `known` is the node as it was last seen; None if it was not seen. Raise Denied if the rules refuse the write and
    nothing in the node explains it, Unavailable if the database doesn't say, Malformed for a node that is no record.
    """
    return _writing(own, known, is_trusted, partial(judge_result, own=own))


def intending(
    own: StepRecord, known: Snapshot | None, is_trusted: IsTrusted, allowed: StepRecord | None = None
) -> Exchange[Settled | Lost]:
    """Write down that a call is about to be made, unless it was made before.

    `allowed` is an intent that doesn't count.
    """
    return _writing(own, known, is_trusted, partial(judge_intent, own=own, allowed=allowed))


def _writing(
    own: StepRecord,
    known: Snapshot | None,
    is_trusted: IsTrusted,
    judge: Callable[[StepRecord | None], Verdict],
) -> Exchange[Settled | Lost]:
    snapshot = known if known is not None else (yield from reading())
    node = own.to_node()
    was_denied = False
    tries = 0
    while True:
        found = read_step(snapshot.node)
        verdict = judge(found)
        if verdict == "overtaken":
            return Lost("a later claim has written this step")
        if verdict != "write":
            return Settled(verdict, cast("StepRecord", found), snapshot)
        if not is_trusted():
            return Lost("its lease is over")
        try:
            answer = yield Swap(snapshot.etag, node)
        except Unavailable as error:
            tries += 1
            yield Pause(tries, error)
            snapshot = yield from reading()
            continue
        except Denied:
            # The rules refuse a zombie, and a second write of the same result. Either shows in the node.
            before, snapshot = snapshot, (yield from reading())
            if was_denied and snapshot == before:
                raise
            was_denied = True
            continue
        if isinstance(answer, Swapped):
            return Settled("written", own, Snapshot(answer.etag, node))
        snapshot = expect(answer, Snapshot)
        tries += 1
        yield from overtaken(tries)


# --- the step


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
