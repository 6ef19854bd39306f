"""Any sequence of operations by several holders, against a small model that knows nothing of records."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.unit.lock.records import MARGIN, NOW, at, request, slot, verdict

from firecron.base.clocks import Moment
from firecron.lock.record import (
    LockRecord,
    Lost,
    Number,
    Take,
    Trust,
    cancelled,
    check_holding,
    decide,
    released,
    renewed,
)

HOLDERS = st.integers(0, 2)
SECONDS = st.integers(0, 8)


@dataclass
class Model:
    """One lock as a person would think of it: who has it until when, and what is remembered."""

    owner: int | None = None
    until: int = 0  # the expiry while held, the end of a minimum hold after a release
    since: int = 0
    released: bool = True
    exists: bool = False
    paused: bool = False
    slot: str | None = None
    unfinished: str | None = None
    succeeded: str | None = None
    claims: int = 0
    fence: int | None = None
    is_cancelled: bool = False
    tick: str | None = None  # what the owner has claimed
    outcome: str | None = None

    def is_live(self, now: int) -> bool:
        return self.exists and now < self.until + (0 if self.released else MARGIN)

    @property
    def open(self) -> str | None:
        return None if self.is_cancelled else self.unfinished

    def answer(self, now: int, wanted: str | None, rerun: bool) -> str:
        live = self.is_live(now)
        if self.paused:
            return "paused"
        if wanted and self.slot and wanted <= self.slot and not (rerun and wanted == self.open and not live):
            return "slot_done"
        if live:
            return "held"
        if wanted and wanted > slot((now + MARGIN - NOW) // 1000):
            return "slot_early"
        return "take"

    def take(self, who: int, now: int, ttl: int, wanted: str | None, fenced: bool) -> None:
        self.owner, self.since, self.until, self.released, self.exists = who, now, now + ttl, False, True
        if wanted:
            self.claims = self.claims + 1 if wanted == self.open else 1
            self.slot = max(self.slot or wanted, wanted)
        self.unfinished = wanted or self.open
        self.is_cancelled = False
        self.tick, self.outcome = wanted, None
        if fenced:
            self.fence = now if self.fence is None else max(self.fence + 1, now)

    def holds(self, who: int) -> bool:
        return self.exists and self.owner == who and not self.released

    def release(self, now: int, hold: int, finished: bool) -> None:
        self.released, self.until = True, max(now, self.since + hold)
        self.outcome = "succeeded" if finished else "interrupted"
        if finished and self.tick:
            self.succeeded, self.unfinished = max(self.succeeded or self.tick, self.tick), None
        if self.unfinished and self.unfinished != self.tick:
            # It is another's: the cancel was not meant for it, and the end doesn't tell of it.
            self.is_cancelled, self.outcome = False, self.outcome if finished else None
        if not (self.slot or self.fence is not None or self.paused or self.until > now):
            self.forget()

    def forget(self) -> None:
        self.__init__()  # type: ignore[misc]  # as new


@dataclass(frozen=True)
class Acquire:
    who: int
    ttl: int
    slot: int | None
    rerun: bool
    fenced: bool


@dataclass(frozen=True)
class Act:
    what: Literal["renew", "release", "finish"]
    who: int
    seconds: int


@dataclass(frozen=True)
class Operate:
    what: Literal["pause", "resume", "unlock", "delete", "cancel"]


@dataclass(frozen=True)
class Pass:
    milliseconds: int


OPERATIONS = st.one_of(
    st.builds(
        Acquire,
        HOLDERS,
        st.integers(2, 8).map(lambda seconds: seconds * 1000),
        st.none() | st.integers(-2, 12),
        st.booleans(),
        st.booleans(),
    ),
    st.builds(Act, st.sampled_from(["renew", "release", "finish"]), HOLDERS, SECONDS),
    st.builds(Operate, st.sampled_from(["pause", "resume", "unlock", "delete", "cancel"])),
    st.builds(Pass, st.sampled_from([1, 999, 1000, 1001, 3000])),
)


@dataclass
class Lock:
    """The node that the rules make of the same operations."""

    node: dict[str, object] | None = None
    now: int = NOW
    tokens: int = 0
    holders: dict[int, tuple[str, Trust]] = field(default_factory=dict)
    ticks: dict[str, str | None] = field(default_factory=dict)

    @property
    def moment(self) -> Moment:
        return at(self.now)

    def acquire(self, operation: Acquire) -> str:
        self.tokens += 1
        wanted = request(
            holder=f"token-{self.tokens}",
            ttl=operation.ttl,
            slot=None if operation.slot is None else slot(operation.slot),
            rerun=operation.rerun,
            fenced=operation.fenced,
        )
        decision = decide(self.node, wanted, self.moment, {})
        if isinstance(decision, Take):
            self.node = decision.record.to_json()
            self.holders[operation.who] = (wanted.holder, decision.trust)
            self.ticks[wanted.holder] = wanted.slot
        return verdict(decision)

    def renew(self, who: int, ttl: int) -> bool:
        token, trust = self.holders.get(who, ("nobody", Trust(0, at())))
        answer = renewed(self.node, token, ttl, self.moment, trust, MARGIN, None)
        if isinstance(answer, Take):
            self.node = answer.record.to_json()
            self.holders[who] = (token, answer.trust)
        return isinstance(answer, Take)

    def release(self, who: int, hold: int, *, finish: bool) -> bool:
        token, _ = self.holders.get(who, ("nobody", None))
        tick = self.ticks.get(token)
        finished, outcome = (tick, "succeeded") if finish else (None, "interrupted")
        answer = released(self.node, token, self.now, hold_at_least=hold, outcome=outcome, finished=finished, tick=tick)
        if isinstance(answer, Lost):
            return False
        self.node = None if answer is None else answer.to_json()
        return True

    def operate(self, what: str) -> None:
        match what:
            case "pause":
                self.node = {**(self.node or {}), "paused": True}
            case "resume":
                self.node = {name: value for name, value in (self.node or {}).items() if name != "paused"} or None
            case "unlock" if self.node and "expiresAt" in self.node:
                self.node = {**self.node, "expiresAt": 0}
            case "delete":
                self.node = None
            case "cancel" if self.node and "fence" in self.node:
                answer = cancelled(self.node, str(self.node["holder"]), int(str(self.node["fence"])), self.now)
                self.node = answer.to_json() if isinstance(answer, LockRecord) else self.node


def both(lock: Lock, model: Model, operation: object) -> None:
    """Do it to both, and see that they answer the same."""
    match operation:
        case Pass(milliseconds):
            lock.now += milliseconds
        case Operate(what):
            lock.operate(what)
            match what:
                case "pause" | "resume":
                    model.paused = what == "pause"
                case "unlock":
                    model.until = 0
                case "cancel":
                    model.is_cancelled |= model.exists and not model.released and model.fence is not None
                case "delete":
                    model.forget()
        case Acquire(who, ttl, number, rerun, fenced):
            wanted = None if number is None else slot(number)
            expected = model.answer(lock.now, wanted, rerun)
            assert lock.acquire(operation) == expected
            if expected == "take":
                model.take(who, lock.now, ttl, wanted, fenced)
        case Act("renew", who, seconds):
            ttl = 2_000 + seconds * 1000
            can = model.holds(who) and lock.now < model.until - MARGIN
            assert lock.renew(who, ttl) == can
            if can:
                model.until = lock.now + ttl
        case Act(what, who, seconds):
            holds = model.holds(who)
            assert lock.release(who, seconds * 1000, finish=what == "finish") == holds
            if holds:
                model.release(lock.now, seconds * 1000, what == "finish")


def compare(lock: Lock, model: Model) -> None:
    """Everything that the model remembers is in the node, and nothing else of the kind."""
    found = lock.node or {}
    assert ("expiresAt" in found) == model.exists
    assert bool(found.get("paused")) == model.paused
    assert (found.get("slot"), found.get("unfinished"), found.get("succeededSlot"), found.get("fence")) == (
        model.slot,
        model.unfinished,
        model.succeeded,
        model.fence,
    )
    if model.exists:
        assert found["expiresAt"] == model.until
        assert ("cancel" in found) == model.is_cancelled
        assert ("releasedAt" in found) == model.released
        assert found.get("attempt", 0) == model.claims
        assert found.get("outcome") == model.outcome
    for who, (token, _) in lock.holders.items():
        assert isinstance(check_holding(lock.node, token, lock.now), Lost) != model.holds(who)


@settings(max_examples=300)
@given(st.lists(OPERATIONS, max_size=30))
@example([Acquire(1, 2_000, 0, rerun=False, fenced=True), Operate("cancel"), Act("release", 1, 0)])
@example(
    [
        Acquire(1, 2_000, 0, rerun=False, fenced=True),
        Pass(3_000),
        Acquire(2, 2_000, None, rerun=False, fenced=True),
        Operate("cancel"),
        Act("release", 2, 0),
    ]
)
def test_any_sequence_of_operations(operations: list[object]) -> None:
    """Every answer and every remembered field is what the model says, after each of any operations."""
    lock, model = Lock(), Model()
    for operation in operations:
        both(lock, model, operation)
        compare(lock, model)


@dataclass
class Skewed:
    """An instance whose idea of the time is off by a constant, and which may hold a lease."""

    error: int
    trust: Trust | None = None
    token: str = ""

    def moment(self, true: int) -> Moment:
        return Moment(true + self.error, float(true))


ERRORS = st.integers(-MARGIN, MARGIN)
STEPS = st.lists(
    st.tuples(st.sampled_from(["acquire", "renew", "release"]), HOLDERS, st.sampled_from([0, 1, 500, 999, 2_500])),
    max_size=40,
)


@settings(max_examples=300)
@given(st.tuples(ERRORS, ERRORS, ERRORS), STEPS)
def test_two_never_trust_their_leases_at_once(errors: tuple[int, int, int], steps: list[tuple[str, int, int]]) -> None:
    """Instances whose clocks are off by up to the margin, either way, never both trust a lease, and fences rise."""
    fleet = [Skewed(error) for error in errors]
    node: dict[str, object] | None = None
    true, fences = NOW, [0]
    written: dict[Number, Trust] = {}
    for number, (what, who, pause) in enumerate(steps):
        true += pause
        me = fleet[who]
        now = me.moment(true)
        trusted = me.trust is not None and me.trust.is_trusted(now.mono, MARGIN)
        if what == "acquire" and not trusted:
            wanted = request(holder=f"token-{number}", ttl=6_000, fenced=True)
            decision = decide(node, wanted, now, written)
            if isinstance(decision, Take):
                node, me.trust, me.token = decision.record.to_json(), decision.trust, wanted.holder
                fences.append(int(decision.record.fence or 0))
        elif what == "renew" and me.trust is not None:
            answer = renewed(node, me.token, 6_000, now, me.trust, MARGIN, None)
            if isinstance(answer, Take):
                node, me.trust = answer.record.to_json(), answer.trust
        elif what == "release" and trusted:
            left = released(node, me.token, now.server)
            assert not isinstance(left, Lost), "who trusts its lease has the lock"
            node, me.trust = None if left is None else left.to_json(), None
        holders = [one for one in fleet if one.trust is not None and one.trust.is_trusted(float(true), MARGIN)]
        assert len(holders) <= 1
    assert fences == sorted(set(fences))
