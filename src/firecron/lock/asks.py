"""Asks: an operator asks for a run, and one instance that has the job's code takes the ask. The schema of `cron-asks`.

`cron-asks/<job>` is the one ask of a job:

    id         six random hexadecimal digits: the run has them as its id, if it claims no tick
    at         when it was made, in milliseconds of RTDB's clock. It is valid for five minutes (`VALID`)
    by, why    who asks, and the reason that was given, without what looks like a secret
    kind       `run`: a run without a tick; `slot`: the run of a tick that was missed; `resume`: a tick's next attempt
    tick       of the last two: the tick, or the key of the run by hand that is resumed
    takenBy    who takes it: a random token of one instance's

    ask      1. read the node: an ask that is valid is refused, with who asked   2. swap: the new ask
    take     1. read the ask   2. acquire the job's lock, as a run by hand does, or for the tick   3. swap: `takenBy`,
             while the lease is trusted   4. begin the run   5. delete the node

So what is taken runs, and an ask begins at most once: the lock keeps takers apart, and 3. decides where it does not,
as with `overlap="allow"`. What may interleave, and what becomes of it:

    an ask beside ticks              who has the lock runs: a tick is refused as by any run by hand, and an ask waits,
                                     and is tried again
    two takers                       the second is refused the lock, or finds `takenBy` at 3. and gives the lock back
    two takers of a tick             the second finds the tick claimed at 2. before the first comes to 3., however slow
                                     that is. It declines the ask only once the lease of that claim is over, or was
                                     given back; without a lease it leaves the ask until its end
    a slow taker, a decline          the decline is a take of its own: it comes after the lease, so a write of the
                                     first one's that arrives later finds the node changed, and nothing runs
    frozen between 2. and 3.         its lease is over, so another one takes the ask, or declines it of a tick. Its swap
                                     finds the node changed or gone, and nothing runs
    frozen between 3. and 4.         its lease is over: it doesn't begin, and says so. Nobody else takes the ask
    frozen after 4.                  as any run
    a second ask                     is refused at 1., or at 2. by the node that it finds; after 5. it is another ask
    the ask ends while its run       it could not be deleted: it stays as long as a lock that was acquired while it was
      goes on                        valid is held, and until the run's entry is there. Without a lease nothing shows
                                     that the run goes on, and the reason says so
    the ask ends while one waits     3. looks at the time: an ask that is over is never taken
    a pause, a hold                  2. is refused, and the ask waits for its end
    deleted in the console           3. finds nothing, and nothing runs

A reply that is lost:

    to the ask                       the node is read: it has this id, or another's. If nothing is there, it may have
                                     been run already: it is not written again, and that is an error
    to the acquisition               the lock is read, as ever
    to `takenBy`                     the node is read: it has this token, or another one, or none
    to `takenBy`, and no answer      the lock is given back. It may land: the same token is used again, and recognised
    to the deletion                  the node is read, and it is done again; by whoever sees the ask once it is over, if
                                     nothing answers

Killed, as by `kill -9`:

    before 3.                        the lock expires, and another one takes the ask; of a tick, which stays claimed,
                                     it declines it, and says how to ask for another attempt
    between 3. and 4.                nobody runs it. Once it is over it is removed, with this reason
    after 4.                         as any run that dies. If 5. has not come the ask is removed once it is over

An ask that is over is removed by whoever sees it, an instance that looks for asks or the next who asks, and why it was
not run is an act (`lapse`). Versions that don't know asks take none. Rules that don't know them refuse the ask.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from firecron.base.instants import number, to_milliseconds, to_text
from firecron.base.texts import plain
from firecron.errors import Denied, Unavailable
from firecron.lock.audit_log import AuditLog
from firecron.lock.database import Database
from firecron.lock.protocol import BackOff, Exchange, Swap, Swapped, editing, expect, overtaken, reading
from firecron.lock.refusal import Refusal
from firecron.store import Snapshot, is_name

AskKind: TypeAlias = Literal["run", "slot", "resume"]

# In milliseconds.
VALID = 300_000

# --- an ask, and what becomes of its node: pure


@dataclass(frozen=True, slots=True)
class AskedRun:
    """An ask. `at` is milliseconds of RTDB's clock."""

    job: str
    id: str
    at: int
    by: str
    why: str | None = None
    kind: AskKind = "run"
    tick: str | None = None
    taken_by: str | None = None

    def is_over(self, now: int) -> bool:
        """Return whether nobody may take it any more."""
        return now >= self.at + VALID

    @property
    def what(self) -> str:
        """What is asked for, in words."""
        return {"run": "a run", "slot": f"the run of {self.tick}", "resume": f"another attempt at {self.tick}"}[
            self.kind
        ]

    def __str__(self) -> str:
        why = "" if self.why is None else f" ({self.why})"
        return plain(f"{self.by} has asked for {self.what} at {to_text(self.at)}{why}")

    def to_node(self) -> dict[str, object]:
        """Return the ask as it is stored."""
        fields = {"id": self.id, "at": self.at, "by": self.by, "why": self.why, "kind": self.kind, "tick": self.tick}
        return {name: value for name, value in {**fields, "takenBy": self.taken_by}.items() if value is not None}

    def to_json(self) -> dict[str, object]:
        """Return the ask for programs: it always has every field, and the instant is a text."""
        return {
            "id": self.id,
            "at": to_text(self.at),
            "by": plain(self.by),
            "why": None if self.why is None else plain(self.why),
            "kind": self.kind,
            "tick": self.tick,
            "taken": self.taken_by is not None,
        }


def read_asks(node: object) -> dict[str, AskedRun]:
    """Return what `cron-asks` says, by the jobs' names. What no version has written is none."""
    found = node if isinstance(node, Mapping) else {}
    asks = (read_ask(name, child) for name, child in sorted(found.items()))
    return {ask.job: ask for ask in asks if ask is not None}


def read_ask(name: object, node: object) -> AskedRun | None:
    """Return the ask that a node is; None if it is none."""
    if not isinstance(node, Mapping) or not is_name(name):
        return None
    found, by, at = node.get("id"), node.get("by"), number(node.get("at"))
    kind = next((one for one in get_args(AskKind) if one == node.get("kind")), None)
    why, tick, taken_by = (
        value if isinstance(value := node.get(field), str) else None for field in ("why", "tick", "takenBy")
    )
    if not isinstance(found, str) or not isinstance(by, str) or at is None or kind is None:
        return None
    return None if (tick is None) != (kind == "run") else AskedRun(name, found, at, by, why, kind, tick, taken_by)


@dataclass(frozen=True, slots=True)
class Standing:
    """The ask that stands in the way of another one."""

    ask: AskedRun


def asked(node: object, now: int, ask: AskedRun) -> dict[str, object] | Standing | None:
    """Return the node with this ask; the one that is valid already; None if it is this one."""
    other = read_ask(ask.job, node)
    if other is not None and other.id == ask.id:
        return None
    return ask.to_node() if other is None or other.is_over(now) else Standing(other)


Why: TypeAlias = Literal["mine", "taken", "over", "gone"]


def taken(node: object, now: int, ask: AskedRun, token: str) -> dict[str, object] | Why:
    """Return the node with the token; `mine` if it has it already; else why this ask can't be taken."""
    found = read_ask(ask.job, node)
    if found is None or found.id != ask.id or not isinstance(node, Mapping):
        return "gone"
    if found.taken_by is not None:
        return "mine" if found.taken_by == token else "taken"
    return "over" if found.is_over(now) else {**node, "takenBy": token}


def may_be_claimed_for(ask: AskedRun, refusal: Refusal, has_lease: bool, now: int | None) -> bool:
    """Return whether this refusal of a tick may be due to another taker, which still comes to take the ask.

    It takes under its lease. Without a lease nothing shows when it has given up, so the ask is left until its end.
    """
    if refusal.reason != "slot_done":
        return False
    if not has_lease:
        return True
    is_live = refusal.free_at is not None and (now is None or now < to_milliseconds(refusal.free_at))
    return is_live and refusal.unfinished == ask.tick


def removing(ask: AskedRun) -> Exchange[bool]:
    """Delete the node of an ask. Return whether this call did it, as if it is gone after a write without an answer."""
    snapshot, tries, is_sent = (yield from reading()), 0, False
    while (found := read_ask(ask.job, snapshot.node)) is not None and found.id == ask.id:
        tries += 1
        try:
            answer = yield Swap(snapshot.etag, None)
        except Unavailable as error:
            is_sent = True
            yield BackOff(tries, error)
            snapshot = yield from reading()
            continue
        if isinstance(answer, Swapped):
            return True
        snapshot = expect(answer, Snapshot)
        yield from overtaken(tries)
    return is_sent


# --- the asks of a database


class Asks:
    """Makes, takes and removes the asks of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def read(self) -> dict[str, AskedRun]:
        """Return all asks, by the jobs' names: none where the security rules don't know them. Raise StoreError."""
        try:
            return read_asks(self._database.node(self._database.paths.asks))
        except Denied:
            return {}

    def make(self, ask: AskedRun) -> AskedRun | None:
        """Write an ask. Return None, or the ask that is there already. Raise StoreError if that is not known."""
        found: list[AskedRun] = []

        def decide(node: object, now: int) -> dict[str, object] | Standing | None:
            found[:] = [other] if (other := read_ask(ask.job, node)) is not None and other.id != ask.id else []
            return asked(node, now, ask)

        deadline = self._database.deadline(self._database.settings.acquire_timeout)
        path = self._database.paths.ask(ask.job)
        # An ask that is gone may have been run: to write it again would begin it again.
        _, standing = self._database.run(editing(decide, once=True), path, deadline)
        if isinstance(standing, Standing):
            return standing.ask
        for over in found:
            if over.taken_by is None:
                self.lapse(over, "nobody took it in five minutes")
            else:
                self._note(over, "it was taken and not removed: the history says whether it was run")
        return None

    def take(self, ask: AskedRun, token: str, ends: float | None) -> Why | None:
        """Take an ask before the lease ends, which is at `ends` on the monotonic clock. Return None, or why not.

        Raise StoreError if it is not known whether it is taken: then the same token may be tried again.
        """
        database = self._database
        most = database.settings.acquire_timeout
        left = most if ends is None else min(most, (ends - database.timing.mono()) / 1000)

        def decide(node: object, now: int) -> dict[str, object] | Why:
            return taken(node, now, ask, token)

        exchange: Exchange[tuple[Snapshot, Why | None]] = editing(decide)
        _, why = database.run(exchange, database.paths.ask(ask.job), database.deadline(left), ends)
        return None if why == "mine" else why

    def remove(self, ask: AskedRun) -> bool:
        """Delete the node of an ask. Return whether this call did it, or may have. Raise StoreError if it failed."""
        deadline = self._database.deadline(self._database.settings.acquire_timeout)
        return self._database.run(removing(ask), self._database.paths.ask(ask.job), deadline)

    def decline(self, ask: AskedRun, why: str) -> bool:
        """Remove an ask that nobody can run, with the reason. Return whether this call did it. Raise StoreError."""
        # Under the rules only what is taken, or over, is removed.
        if self.take(ask, secrets.token_hex(6), None) is not None:
            return False
        # Nobody runs it any more. The reason comes first: once the ask is gone, nobody else would say it.
        self.lapse(ask, why)
        self.remove(ask)
        return True

    def lapse(self, ask: AskedRun, why: str) -> None:
        """Record that an ask was not run, and why."""
        self._note(ask, f"it was not run: {why}")

    def _note(self, ask: AskedRun, said: str) -> None:
        by = f"{self._database.identity.instance_id}/{self._database.identity.instance}"
        AuditLog(self._database).record("lapse", ask.job, by, f"{ask}, and {said}")


class Taking:
    """One instance's way to an ask: `take` under the lock, `begin` once the run has begun.

    `token` is this instance's for this ask. It may take the ask again if it is not known whether it has.
    """

    def __init__(self, database: Database, ask: AskedRun, token: str, begun: Callable[[], object]) -> None:
        self.ask = ask
        self.has_begun = False
        self._database = database
        self._token = token
        self._begun = begun

    def take(self, ends: float | None) -> bool:
        """Take the ask under a lease that `ends` then. Return whether the run is to begin. Raise StoreError."""
        asks = Asks(self._database)
        if asks.take(self.ask, self._token, ends) is not None:
            return False
        if ends is None or self._database.timing.mono() < ends:
            return True
        if asks.remove(self.ask):
            asks.lapse(self.ask, "the instance that took it was frozen until its lease was over")
        return False

    def begin(self) -> None:
        """Note that the run has begun."""
        self.has_begun = True
        self._begun()


def new_ask(job: str, by: str, at: int, why: str | None, kind: AskKind, tick: str | None) -> AskedRun:
    """Return an ask with an id of its own."""
    return AskedRun(job, secrets.token_hex(3), at, by, why, kind, tick)
