"""A holder: an instance that goes through a plan (acquire, renew, release, and again) by the real exchanges."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Literal

from tests.interleaving.choices import Event
from tests.interleaving.clocks import MARGIN, TTL, MachineClock
from tests.interleaving.model import Flight, Model

from firecron.base.clocks import Moment
from firecron.errors import StoreError
from firecron.lock import protocol
from firecron.lock.fields import LEADER
from firecron.lock.protocol import Action, Answer, BackOff, Exchange, Held, Now, Read, Swap, Swapped
from firecron.lock.record import Lost, Number, Refused, Request, Trust
from firecron.store import Snapshot


@dataclass(frozen=True, slots=True)
class Op:
    """One thing that a holder sets out to do. An acquire is tried `tries` times with the same token. A cancel is of
    whoever has the lock then.
    """

    kind: Literal["acquire", "renew", "release", "cancel"]
    fenced: bool = True
    slot: str | None = None
    rerun: bool = False
    tries: int = 1
    hold_at_least: int = 0
    finishes: bool = True
    leads: bool = False


class Holder:
    """Drives one exchange at a time, as a `Lease` does. What it `trusts` is what its user would act upon."""

    def __init__(self, name: str, model: Model, clock: MachineClock, plan: tuple[Op, ...], *, restarts: bool) -> None:
        self.name = name
        self.clock = clock
        self.held: Held | None = None
        self.token = ""
        self.request: Request | None = None
        self._model = model
        self._plan = plan
        self._restarts = restarts
        self._at = 0
        self._round = 0
        self._tries = 0
        self._believes = False
        self._known: Snapshot | None = None
        self._written: dict[Number, Trust] = {}
        self._talk: Exchange[object] | None = None
        self._step: Action | None = None
        self._reading: tuple[Moment, float] | None = None
        self._trail: int = 0  # tells apart what it went through; an exchange is where its answers have brought it

    @property
    def is_active(self) -> bool:
        return self._at < len(self._plan)

    def trusts(self) -> bool:
        """Whether it believes that the lock is its own: acquired, not told that it is lost, not begun to release."""
        return self._believes and self.held is not None and self.held.trust.is_trusted(self.clock.mono(), MARGIN)

    def state(self) -> Hashable:
        return self._at, self._trail

    def events(self) -> Iterator[Event]:
        if not self.is_active:
            return
        if self._talk is None:
            yield Event(f"{self.name}: begins to {self._plan[self._at].kind}", 1.0, self._begin)
        elif isinstance(self._step, Now):
            yield Event(f"{self.name}: reads its clock", 3.0, self._read_clock)
        elif isinstance(self._step, BackOff):
            yield Event(f"{self.name}: goes on", 2.0, lambda: self._tell(None))
            error = self._step.error
            yield Event(f"{self.name}: its deadline passes", 0.5, lambda: self._tell(error))
        if self._model.budget["crash"]:
            yield Event(f"{self.name}: crashes", 0.1, self._crash)

    def hear(self, answer: Snapshot | str | StoreError) -> None:
        """The reply to its request, or what came instead."""
        self._tell(Swapped(answer, self.clock.mono()) if isinstance(answer, str) else answer)

    def _begin(self) -> None:
        op = self._plan[self._at]
        if op.kind == "acquire":
            if not self._tries:
                self._round += 1
                self.token = f"{self.name}{self._round}"
                self.request = Request(
                    self.token,
                    TTL,
                    "test",
                    self.name,
                    MARGIN,
                    fenced=op.fenced,
                    slot=op.slot,
                    rerun=op.rerun,
                    kind=LEADER if op.leads else None,
                )
                self._written = {}
            assert self.request is not None, "an acquire has a request"
            self._talk = protocol.acquiring(self.request, self._known, self._written)
        elif op.kind == "cancel":
            node = self._model.node
            if node is None or "fence" not in node or "releasedAt" in node:
                self._at += 1
                return
            self.request = Request(str(node["holder"]), TTL, "test", self.name, MARGIN)
            self._reading = self.clock.now(), self._model.time
            self._talk = protocol.cancelling(self.request.holder, int(str(node["fence"])))
        else:
            assert self.held is not None, "what was not acquired is neither renewed nor released"
            assert self.request is not None, "every plan begins with an acquire"
            if op.kind == "renew":
                self._talk = protocol.renewing(self.held, TTL, MARGIN)
            else:
                self._believes = False
                finished = self.held.record.slot if op.finishes else None
                self._talk = protocol.releasing(
                    self.held,
                    hold_at_least=op.hold_at_least,
                    outcome="succeeded" if op.finishes else "lost",
                    finished=finished,
                    tick=self.request.slot,
                )
        self._tell(None)

    def _read_clock(self) -> None:
        reading = self.clock.now()
        self._reading = reading, self._model.time
        self._tell(reading)

    def _tell(self, answer: Answer | StoreError) -> None:
        assert self._talk is not None, "an answer is for an exchange"
        self._trail = hash((self._trail, _essence(answer)))
        try:
            self._step = self._talk.throw(answer) if isinstance(answer, StoreError) else self._talk.send(answer)
        except StopIteration as done:
            self._finish(done.value)
        except StoreError as error:
            self._finish(error)
        else:
            self._take(self._step)

    def _take(self, step: Action) -> None:
        if isinstance(step, Now) and self._model.brisk:
            self._read_clock()
        elif isinstance(step, Read | Swap):
            assert self._reading is not None, "every exchange begins with its clock"
            assert self.request is not None, "every plan begins with an acquire"
            flight = Flight(self, self._plan[self._at].kind, self.request, step, *self._reading)
            if isinstance(step, Swap):
                self._model.monitor.on_send(flight)
            self._model.send(flight)

    def _finish(self, result: object) -> None:
        op = self._plan[self._at]
        self._talk = self._step = None
        if op.kind == "acquire":
            self._acquired(op, result)
        elif op.kind == "renew":
            if isinstance(result, Held):
                self._model.monitor.on_held(self, result, None)
                self.held = result
            elif isinstance(result, Lost):
                self._believes = False
            self._at += 1
        elif op.kind == "cancel":
            self._at += 1
        else:
            if isinstance(result, Snapshot):
                self._known = result
            self.held = None
            self._at += 1
        # Nothing but this is carried over from one exchange to the next.
        known = self._known and self._known.etag
        held = self.held and (self.held.trust, self.held.snapshot.etag)
        self._trail = hash((known, held, self._believes, self._tries, self.token, tuple(self._written.items())))

    def _acquired(self, op: Op, result: object) -> None:
        self._tries += 1
        if isinstance(result, Held):
            self._model.monitor.on_held(self, result, self.request)
            self.held, self._known, self._believes, self._tries = result, result.snapshot, True, 0
            self._at += 1
            return
        if isinstance(result, Refused):
            assert self._reading is not None, "who is refused has read its clock"
            self._model.monitor.on_refused(self, result, self._reading[0])
        if self._tries == op.tries:
            self._next_round()

    def _next_round(self) -> None:
        self._tries = 0
        self._at += 1
        while self.is_active and self._plan[self._at].kind in ("renew", "release"):
            self._at += 1

    def _crash(self) -> None:
        """The process is gone; another one may come up in its place, and knows nothing."""
        self._model.spend("crash")
        self._model.hang_up(self)
        self._talk = self._step = self.held = self._known = None
        self._believes = False
        self._next_round()
        if not self._restarts:
            self._at = len(self._plan)
        self._trail = self._round


def _essence(answer: Answer | StoreError) -> Hashable:
    """What of an answer can make a difference."""
    if isinstance(answer, Snapshot):
        return answer.etag
    if isinstance(answer, StoreError):
        return type(answer).__name__
    return answer
