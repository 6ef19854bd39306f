"""One step of one claim: what is recorded of it, when it calls, what it writes, and what it remembers. Without I/O.

    look         a step that is recorded returns its result; an intent of an earlier try is in doubt
    intend       only with at_most_once: write the intent, before the call
    call         what it raises goes to the body, and nothing is recorded: the next try calls again
    remember     from here on this claim does not call again, whatever becomes of the record
    record       write the result, while the lease is trusted

A step is a generator, so that sync jobs, async jobs and the tests that interleave two claims drive the same lines. It
yields what is to be done: `Ask` (an exchange on the step's node) or `Call` (the function).

The exchanges that write are generators, too, and keep the rules of `lock.protocol`: a write is conditional on what was
read, a write that may have been applied is not sent again before a read, and after a 401 one read settles what can be
settled. The fences of the records decide. On top of that, nothing is sent once the lease of the writer is over:
`is_trusted` is asked before each write.

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

The record is the node `cron-steps/<name>/<tick>/<step>`. It has a result (`result`, `doneAt`), or it is an intent: its
call may have begun, and nobody knows how it ended. The fence of the claim that wrote it decides between writers. Fences
rise from claim to claim, so a record with

    no fence (no record)    is written
    a lower fence           is an earlier claim's. Its result was written after this claim had looked, by a zombie: the
                            claim has called meanwhile, and its own result replaces the zombie's
    the same fence          is this claim's own. A result is what an earlier write of it brought, with its reply lost
    a higher fence          is a successor's: this claim is the zombie, and must not write

Before a call that may happen only once, more is at stake: a result of a lower fence is used instead of the call, and an
intent of a lower fence stands for a call that may be under way at this moment.

RTDB has no null and no empty list, and gives 1.0 back as 1. So a result is stored as one JSON text. The first caller
gets its result through the text, too: what differs after a rerun differs at once, and a test sees it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from firecron.base.instants import number, to_datetime
from firecron.errors import ConfigurationError, Denied, LeaseLost, Malformed, StepInDoubt, Unavailable
from firecron.lock.protocol import ABSENT, BackOff, Exchange, Swap, Swapped, expect, overtaken, reading
from firecron.lock.record import Lost
from firecron.store import Snapshot

if TYPE_CHECKING:
    from pydantic import TypeAdapter

# --- the record

StepVerdict: TypeAlias = Literal["write", "written", "found", "in_doubt", "overtaken"]


@dataclass(frozen=True, slots=True)
class StepRecord:
    """A step that was recorded, or the intent to call it. Instants are milliseconds of RTDB's clock."""

    fence: int
    started_at: int
    attempt: int | None = None
    instance: str | None = None
    done_at: int | None = None
    result: str | None = None

    @property
    def is_done(self) -> bool:
        """Whether it has a result."""
        return self.result is not None

    def to_node(self) -> dict[str, object]:
        """Return the node that the database holds for it."""
        fields: dict[str, object] = {
            "result": self.result,
            "doneAt": self.done_at,
            "startedAt": self.started_at,
            "fence": self.fence,
            "attempt": self.attempt,
            "instance": self.instance,
        }
        return {name: value for name, value in fields.items() if value is not None}


def read_step(node: object) -> StepRecord | None:
    """Return the record that a node holds; None for no node.

    Raise Malformed for anything else: a step that can't be understood may have been called.
    """
    if node is None:
        return None
    if not isinstance(node, dict):
        raise Malformed(f"it holds {node!r:.40} instead of the record of a step")
    fence, started_at, done_at = (number(node.get(name)) for name in ("fence", "startedAt", "doneAt"))
    result, instance = node.get("result"), node.get("instance")
    if fence is None or started_at is None:
        raise Malformed("it has no fence, or no startedAt, that is a number")
    if (result is None) != (node.get("doneAt") is None) or (result is not None and done_at is None):
        raise Malformed("it has one of result and doneAt: a record has both, an intent neither")
    if result is not None and not isinstance(result, str):
        raise Malformed(f"its result is {result!r:.40}, which is no text")
    by = instance if isinstance(instance, str) else None
    return StepRecord(fence, started_at, number(node.get("attempt")), by, done_at, result)


def evaluate_result(found: StepRecord | None, own: StepRecord) -> StepVerdict:
    """Return what the writer of a result makes of the record that is there."""
    if found is None or found.fence < own.fence:
        return "write"
    if found.fence > own.fence:
        return "overtaken"
    return "found" if found.is_done else "write"


def evaluate_intent(found: StepRecord | None, own: StepRecord, allowed: StepRecord | None) -> StepVerdict:
    """Return what the writer of an intent makes of the record that is there.

    `allowed` is the intent of an earlier try whose call may be made again.
    """
    if found is None:
        return "write"
    if found.fence > own.fence:
        return "overtaken"
    if found.is_done:
        return "found"
    if found == own:
        return "written"
    return "write" if found == allowed else "in_doubt"


# --- results as texts

# What is written as the result of a step; RTDB takes 10 MB.
MOST_BYTES = 65_536


def to_result(name: str, value: object, returns: object) -> str:
    """Return the text of a result.

    Raise ConfigurationError for a result that the text would change, or that is too large. With `returns`, a type,
    pydantic writes the text.
    """
    text = _written(name, value) if returns is None else _written_by(name, value, returns)
    size = len(text.encode())
    if size > MOST_BYTES:
        raise ConfigurationError(
            f'step "{name}" returned {size:,} bytes of JSON, and {MOST_BYTES:,} are allowed: store it elsewhere, and '
            "return where it is"
        )
    return text


def from_result(name: str, text: str, returns: object) -> object:
    """Return the value of a recorded text. Raise ConfigurationError if this deployment does not understand it."""
    try:
        found: object = json.loads(text) if returns is None else _adapter(returns).validate_json(text)
    except ValueError as error:  # pydantic's ValidationError is one
        raise ConfigurationError(
            f'step "{name}" is recorded as {text[:80]!r}, which is not {_named(returns)}: read what earlier '
            f"deployments have recorded, or give the step another name, and it is called again. {error}"
        ) from error
    return found


def _written(name: str, value: object) -> str:
    remedy = "return what JSON can say, or pass returns= with the type"
    try:
        text = _dumped(value)
        is_same = _is_same(value, json.loads(text))
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigurationError(f'step "{name}" returned {value!r:.80}: {error}; {remedy}') from None
    if not is_same:
        raise ConfigurationError(
            f'step "{name}" returned {value!r:.80}, which JSON gives back as {text[:80]}, not equal or of other types: '
            f"{remedy}"
        )
    return text


def _written_by(name: str, value: object, returns: object) -> str:
    try:
        adapter = _adapter(returns)
        text = adapter.dump_json(value, warnings="error").decode()
        adapter.validate_json(text)
    except ValueError as error:  # pydantic's errors are ValueErrors
        raise ConfigurationError(
            f'step "{name}" returned {value!r:.80}, which is not {_named(returns)}: {error}'
        ) from None
    return text


def _dumped(value: object) -> str:
    """Return the value as JSON, readable where it is text."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, allow_nan=False, separators=(",", ":"))  # half a character: only as its number
    return text


def _is_same(value: object, other: object) -> bool:
    """Return whether the two are equal, and of the same types at every depth."""
    if type(value) is not type(other):
        return False
    if isinstance(value, dict) and isinstance(other, dict):
        return value.keys() == other.keys() and all(_is_same(value[key], other[key]) for key in value)
    if isinstance(value, list) and isinstance(other, list):
        return len(value) == len(other) and all(map(_is_same, value, other))
    return value == other


@lru_cache(maxsize=256)
def _cached(returns: object) -> TypeAdapter[object]:
    from pydantic import TypeAdapter

    return TypeAdapter(returns)  # type: ignore[arg-type]  # any type is allowed, and pydantic says what it can't use


def _adapter(returns: object) -> TypeAdapter[object]:
    try:
        # A type such as Annotated with a list can't be hashed.
        return _cached(returns) if _has_hash(returns) else _cached.__wrapped__(returns)
    except Exception as error:  # pydantic's own errors for a type that it can't use
        raise ConfigurationError(f"returns={returns!r} is no type that pydantic understands: {error}") from error


def _has_hash(returns: object) -> bool:
    try:
        hash(returns)
    except TypeError:
        return False
    return True


def _named(returns: object) -> str:
    return "JSON" if returns is None else getattr(returns, "__name__", None) or repr(returns)


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
    return _writing(own, known, is_trusted, partial(evaluate_result, own=own))


def intending(
    own: StepRecord, known: Snapshot | None, is_trusted: IsTrusted, allowed: StepRecord | None = None
) -> Exchange[Settled | Lost]:
    """Write down that a call is about to be made, unless it was made before.

    `allowed` is an intent that doesn't count.
    """
    return _writing(own, known, is_trusted, partial(evaluate_intent, own=own, allowed=allowed))


def _writing(
    own: StepRecord,
    known: Snapshot | None,
    is_trusted: IsTrusted,
    evaluate: Callable[[StepRecord | None], StepVerdict],
) -> Exchange[Settled | Lost]:
    snapshot = known if known is not None else (yield from reading())
    node = own.to_node()
    was_denied = False
    tries = 0
    while True:
        found = read_step(snapshot.node)
        verdict = evaluate(found)
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
            yield BackOff(tries, error)
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
    """Whose steps they are: one claim of a tick."""

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
