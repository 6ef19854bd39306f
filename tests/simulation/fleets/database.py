"""The database of a run, and each machine's way to it.

The database itself never errs: it answers each request that reaches it, in the order of arrival, by its own clock,
which is true time. All else goes wrong on the way: see `Fate`. A request that its sender has given up may still
arrive, and one of a dead machine too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar

from tests.simulation.fleets.hints import Bell, Hints
from tests.simulation.fleets.steps import STEPS, refusal_of_step
from tests.simulation.greenlets import Scheduler
from tests.simulation.machines import MILLISECOND, SECOND, Machine
from tests.simulation.stand_ins import EPOCH

from firecron.base.clocks import Deadline
from firecron.errors import Denied, StoreError, Unavailable
from firecron.store import SERVER_TIME, Snapshot
from firecron.testing.memory import MemoryStore, MemoryWatch

if TYPE_CHECKING:
    from tests.simulation.fleets.timeline import Timeline

T = TypeVar("T")
Method: TypeAlias = Literal["read", "swap", "timestamp", "merge", "keys", "newest", "query", "watch"]
# What becomes of a request: it is answered; it never arrives; its reply never comes; the connection is reset before or
# after it was read; the database's edge refuses it for now (with or without doing it), or denies it.
Kind: TypeAlias = Literal[
    "answered", "lost", "unanswered", "reset", "reset_after", "busy", "busy_after", "denied", "slow"
]

# The paths of the locks' nodes, and of the entries of stored schedules.
LOCKS = "cron-locks/"
ENTRIES = "cron-schedules/"
CLOCK = "cron-instances/clock/seenAt"


@dataclass(frozen=True, slots=True)
class Fate:
    """What becomes of one request, and how long it takes there and back, in nanoseconds."""

    kind: Kind
    there: int
    back: int
    retry_after: float | None = None


class Database:
    """The nodes. `watch` is called after each write that has changed one. With `has_rules` those of steps are kept.

    It may refuse all watches, and leave a counter as it is that is no number: some other service may stand in for it.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        watch: Callable[[str, object, object, Machine | None], None],
        *,
        has_rules: bool,
        refuses_watches: bool = False,
        keeps_odd_counters: bool = False,
    ) -> None:
        self.has_rules = has_rules
        self.refuses_watches = refuses_watches
        self.keeps_odd_counters = keeps_odd_counters
        self._scheduler = scheduler
        self._watch = watch
        self.store = MemoryStore(self.now)
        self.store.condition = lambda: Bell(scheduler)  # type: ignore[assignment, return-value]  # all that it needs
        self.forever = Deadline(lambda: 0.0, 1.0)

    def now(self) -> int:
        """Return the database's time, in milliseconds."""
        return (EPOCH + self._scheduler.now) // MILLISECOND

    def swap(self, path: str, etag: str, node: dict[str, object] | None, machine: Machine) -> str | Snapshot:
        before = self.store.get(path)
        if self.has_rules and path.startswith(STEPS) and node is not None:
            lock = self.store.get(LOCKS + path.split("/")[1])
            if (why := refusal_of_step(path, node, before, lock)) is not None:
                raise Denied(why)
        answer = self.store.swap(path, etag, node, self.forever)
        if not isinstance(answer, Snapshot):
            self._watch(path, before, self.store.get(path), machine)
        return answer

    def merge(self, path: str, values: dict[str, object], machine: Machine) -> dict[str, object]:
        # The keys may be paths. What it changes of locks is watched node by node.
        below = [f"{path}/{key}".strip("/") for key in values]
        locks = {"/".join(one.split("/")[:2]): None for one in below if one.startswith(LOCKS)}
        before = {lock: self.store.get(lock) for lock in locks}
        odd = {one: self.store.get(one) for one in below if one.endswith("/beats")} if self.keeps_odd_counters else {}
        stored = self.store.merge(path, values, self.forever)
        for counter, number in odd.items():
            if isinstance(number, str):
                self.store.set(counter, number)
                stored[counter] = number
        for lock in locks:
            self._watch(lock, before[lock], self.store.get(lock), machine)
        return stored

    def edit(self, path: str, node: object) -> None:
        """What an operator does in the console."""
        before = self.store.get(path)
        self.store.set(path, node)
        self._watch(path, before, self.store.get(path), None)


class Wire:
    """A machine's `Store`: it sends requests to the database, and waits for the replies until the deadline.

    `fate` says what becomes of a request. A reply that comes while the machine `is_cut_off` is lost, too. `troubles`
    are the spans, in true time, in which a request had no answer within a second, or a bad one, or was to wait for its
    next try. `belated` has the times at which requests arrived that their sender had given up, `denied` those of
    refusals by the rules, `requests` the time, the method and the path of each request. `told_to_wait` has the path of
    each request that was refused for now, and the span that the database has asked its sender to wait. `watched` has
    the time and the path of each watch that was refused, `beats` the time of each beat that was answered. A sample of
    the time is late by `skew` on its way there; if that is below zero, on its way back.
    """

    def __init__(
        self,
        database: Database,
        machine: Machine,
        scheduler: Scheduler,
        timeline: Timeline,
        fate: Callable[[Machine, Method, str], Fate],
        is_cut_off: Callable[[Machine], bool],
        is_fair: Callable[[], bool],
        skew: int = 0,
    ) -> None:
        self._is_fair = is_fair
        self._skew = skew
        self._database = database
        self._machine = machine
        self._scheduler = scheduler
        self._timeline = timeline
        self.fate = fate
        self._is_cut_off = is_cut_off
        self.troubles: list[tuple[int, int]] = []
        self.belated: list[int] = []
        self.denied: list[int] = []
        self.first_answer: int | None = None
        self.requests: list[tuple[int, Method, str]] = []
        self.told_to_wait: list[tuple[str, int, int]] = []
        self.watched: list[tuple[int, str]] = []
        self.beats: list[int] = []

    @property
    def name(self) -> str:
        return "the simulated database"

    def connect(self) -> None:
        """Do nothing: it is known."""

    def close(self) -> None:
        """Do nothing: there are no connections."""

    def after_fork(self) -> None:
        """Do nothing: no machine forks."""

    def read(self, path: str, deadline: Deadline) -> Snapshot:
        return self._call("read", path, deadline, lambda: self._database.store.read(path, deadline))

    def swap(self, path: str, etag: str, node: dict[str, object] | None, deadline: Deadline) -> str | Snapshot:
        return self._call("swap", path, deadline, lambda: self._database.swap(path, etag, node, self._machine))

    def timestamp(self, path: str, deadline: Deadline) -> int:
        return self._call("timestamp", path, deadline, lambda: self._database.store.timestamp(path, deadline))

    def merge(
        self, path: str, values: dict[str, object], deadline: Deadline, *, echo: bool = True
    ) -> dict[str, object]:
        stored = self._call("merge", path, deadline, lambda: self._database.merge(path, values, self._machine))
        if any(SERVER_TIME in (value, value.get("seenAt")) for value in values.values() if isinstance(value, dict)):
            self.beats.append(self._scheduler.now)
        return stored

    def keys(self, path: str, deadline: Deadline) -> list[str]:
        return self._call("keys", path, deadline, lambda: self._database.store.keys(path, deadline))

    def newest(self, path: str, deadline: Deadline) -> tuple[str, object] | None:
        return self._call("newest", path, deadline, lambda: self._database.store.newest(path, deadline))

    def query(
        self,
        path: str,
        order_by: str,
        deadline: Deadline,
        *,
        start: tuple[int, str] | int | str | None = None,
        end: int | None = None,
        most: int,
    ) -> list[tuple[str, object]]:
        store = self._database.store
        return self._call(
            "query", path, deadline,
            lambda: store.query(path, order_by, deadline, start=start, end=end, most=most),
        )  # fmt: skip

    def watch(self, path: str, deadline: Deadline) -> Hints:
        if self._database.refuses_watches:
            self.watched.append((self._scheduler.now, path))
            self._scheduler.block(SECOND // 100)
            raise Denied("the rules allow no watch")
        inner = self._call("watch", path, deadline, lambda: self._database.store.watch(path, deadline))
        return Hints(inner, self._machine, self._scheduler, self._is_cut_off, self._is_fair)

    def _call(self, method: Method, path: str, deadline: Deadline, do: Callable[[], T]) -> T:
        scheduler, machine = self._scheduler, self._machine
        scheduler.point()
        left = deadline.remaining()
        self.requests.append((scheduler.now, method, path))
        fate, skew = self.fate(machine, method, path), self._skew if method in ("timestamp", "merge") else 0
        fate = replace(fate, there=fate.there + max(skew, 0), back=fate.back + max(-skew, 0))
        slow = SECOND + abs(skew)
        sent, thread = scheduler.now, scheduler.thread
        answers: list[T | StoreError] = []
        is_waiting = True

        def arrive() -> None:
            if fate.kind in ("lost", "reset"):
                return reply(Unavailable("the connection was reset")) if fate.kind == "reset" else None
            if fate.kind == "denied":
                return reply(Denied("the rules, or the credentials, deny it"))
            if fate.kind == "busy":
                return reply(Unavailable("the server is busy", retry_after=fate.retry_after))
            if not is_waiting:
                self.belated.append(scheduler.now)
            try:
                answer = do()
            except Denied as error:
                return reply(error)
            if fate.kind == "unanswered":
                return None
            if fate.kind == "reset_after":
                return reply(Unavailable("the connection was reset"))
            if fate.kind == "busy_after":
                return reply(Unavailable("the server is busy", retry_after=fate.retry_after))
            return reply(answer)

        def reply(answer: T | StoreError) -> None:
            scheduler.at(scheduler.now + fate.back, lambda: deliver(answer))

        def deliver(answer: T | StoreError) -> None:
            if self._is_cut_off(machine):
                if not is_waiting:
                    self.troubles.append((sent, scheduler.now))
                return
            answers.append(answer)
            if is_waiting:
                scheduler.wake(thread)

        scheduler.at(scheduler.now + fate.there, arrive)
        in_time = scheduler.block(scheduler.after(left) - scheduler.now)
        is_waiting = False
        # A machine that thaws after the deadline may find a reply that had come meanwhile, or only that it is too late.
        has_answer = bool(answers) and (in_time or scheduler.random.random() < 0.5)
        answer = answers[0] if has_answer else Unavailable("no reply within the deadline")
        is_bad = isinstance(answer, StoreError)
        waits_until = scheduler.now
        if isinstance(answer, Unavailable) and answer.retry_after is not None:
            waits_until += int(answer.retry_after * SECOND)
            self.told_to_wait.append((path, scheduler.now, waits_until))
        if isinstance(answer, Denied) and not path.startswith(STEPS):
            self.denied.append(scheduler.now)
        if not is_bad and self.first_answer is None:
            self.first_answer = scheduler.now
        # Who waits for milliseconds only has itself to blame that the reply comes later.
        is_prompt = fate.kind == "answered" and fate.there + fate.back < slow and not self._is_cut_off(machine)
        if not is_prompt or scheduler.now - sent > slow:
            # A tick is asked for again when the database has asked for that, and so is the time (seed 3055).
            asks_again = path.startswith((LOCKS, ENTRIES)) or path.endswith(CLOCK)
            self.troubles.append((sent, waits_until if asks_again else scheduler.now))
        if is_bad or path.startswith((LOCKS, ENTRIES)):
            took = (scheduler.now - sent) // MILLISECOND
            self._timeline.say(machine.name, "  {} {} in {} ms: {}", method, path, took, _Short(answer))
        if isinstance(answer, StoreError):
            raise answer
        return answer


@dataclass(frozen=True, slots=True)
class _Short:
    """An answer in few words, once somebody reads it."""

    answer: object

    def __format__(self, form: str) -> str:
        if isinstance(self.answer, StoreError):
            return f"{type(self.answer).__name__}: {self.answer}"
        if isinstance(self.answer, Snapshot):
            return f"it holds {brief(self.answer.node)}"
        if isinstance(self.answer, MemoryWatch):
            return "a stream"  # and not where it lies in memory
        if isinstance(self.answer, list):
            return " ".join(str(one[0] if isinstance(one, tuple) else one) for one in self.answer) or "nothing"
        return "written" if isinstance(self.answer, str) else str(self.answer)


def brief(node: object) -> str:
    """Return a lock's node in few words."""
    if not isinstance(node, dict):
        return repr(node)
    times = ("expiresAt", "releasedAt", "pausedUntil")
    entry = ("line", "every", "starting", "at", "until", "args", "nextAt", "since", "passed", "closed", "closedAt")
    kept = ("slot", "attempt", "fence", "holder", *times, "unfinished", "paused", "outcome", *entry)
    return " ".join(f"{name}={node[name]}" for name in kept if name in node)
