"""Writing a step: the exchanges that record a result, or the intent to call.

They are generators, as in `protocol`, and keep its rules: a write is conditional on what was read, a write that may
have been applied is not sent again before a read, and after a 401 one read settles what can be settled. `step_record`
decides. On top of that, nothing is sent once the lease of the writer is over: `is_trusted` is asked before each write.

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
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias, cast

from firecron.errors import Denied, Unavailable
from firecron.lock.protocol import Exchange, Pause, Swap, Swapped, expect, overtaken, reading
from firecron.lock.record import Lost
from firecron.lock.step_record import StepRecord, Verdict, judge_intent, judge_result, read_step
from firecron.store import Snapshot

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
            # The rules refuse a zombie, and whoever writes the same result twice. Either shows in the node.
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
