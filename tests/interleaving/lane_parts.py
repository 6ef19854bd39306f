"""What is around the lanes in a world of them: threads, time, agenda, store, streams, and what a run does.

A thread is a greenlet that goes on until it may be overtaken: where it takes the lanes' lock, plans or submits a call,
sends a request, or runs a body. A request lands at once or never, or lands without a reply: the steps of an exchange
are the other model's concern. A lease lasts as long as its instance lives.
"""

from __future__ import annotations

import json
import math
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, cast

from greenlet import GreenletExit, getcurrent, greenlet
from tests.interleaving.choices import Event
from tests.interleaving.clocks import START
from tests.interleaving.states import TOKEN

from firecron.base.clocks import Moment
from firecron.base.events import Events, Slug
from firecron.errors import Stopping, Unavailable
from firecron.jobs.job import Job
from firecron.jobs.registry import Result
from firecron.jobs.run import Outcome, Run
from firecron.lock.asks import Taking
from firecron.lock.database import Database
from firecron.lock.lease import Lease
from firecron.lock.protocol import Bid, Held, Now, Swap, acquiring
from firecron.lock.refusal import Refusal, not_known
from firecron.lock.waiting import Follow, Update
from firecron.runs.claimer import Claimed, Claimer
from firecron.runs.lane import Attempt, PendingClaim
from firecron.runs.runner import Ended, Runner
from firecron.settings import Settings, load
from firecron.store import NULL_ETAG, Snapshot

if TYPE_CHECKING:
    from tests.interleaving.lanes import Instance, LaneModel

HEARTBEAT = 5.0
# Threads of a program that runs a job by hand: what their runs raise is theirs.
CALLERS = ("by hand", "by tick")


class Thread:
    """A thread of an instance. It goes on until it pauses, and then stands until an event lets it go on, one `way`.

    `attempt` is the one that a worker is at, and `pending` the claim that is being made.
    """

    def __init__(self, instance: Instance, name: str, work: Callable[[], object], attempt: Attempt | None) -> None:
        self.instance = instance
        self.name = name
        self.work = work
        self.attempt = attempt
        self.pending: PendingClaim | None = None
        self.asked_at = 0.0
        self.was_stopped = bool(instance.lanes.stopping)
        self.where = ""
        self.ways: tuple[str, ...] = ()
        self.until = -math.inf
        self.greenlet = greenlet(self._live, instance.model.hub)
        self.greenlet.thread = self

    @property
    def is_over(self) -> bool:
        return bool(self.greenlet.dead)

    def pause(self, where: str, *ways: str, until: float = -math.inf) -> str:
        """Stand here until an event comes, and not before a time; return which of the `ways` it is."""
        self.where, self.ways, self.until = where, ways or ("goes on",), until
        return str(self.instance.model.hub.switch())

    def go_on(self, way: str) -> None:
        self.greenlet.switch(way)

    def interrupt(self, error: type[BaseException]) -> None:
        """Raise this where it stands."""
        self.greenlet.throw(error)

    def _live(self, _: str) -> None:
        try:
            self.work()
        except GreenletExit:
            pass
        except BaseException as error:
            if self.name not in CALLERS or not isinstance(error, Stopping | KeyboardInterrupt):
                self.instance.model.failure = self.instance.model.failure or error


def current() -> Thread:
    """The thread that this code runs on."""
    thread = getattr(getcurrent(), "thread", None)
    assert isinstance(thread, Thread), "the parts of an instance do their work on its threads"
    return thread


def overtakable(where: str) -> None:
    """Let others overtake the thread that comes here, in a fine world."""
    thread = getattr(getcurrent(), "thread", None)
    if isinstance(thread, Thread) and thread.instance.model.is_fine:
        thread.pause(where)


class ModelLock:
    """The lanes' lock. Others may come before whoever takes it."""

    def __init__(self) -> None:
        self._is_locked = False

    def __enter__(self) -> None:
        overtakable("takes the lock")
        assert not self._is_locked, "the lanes' lock is not held while others go on"
        self._is_locked = True

    def __exit__(self, *_: object) -> None:
        self._is_locked = False


class ModelTiming:
    """The clocks of all instances. A thread that sleeps stands until its time has come."""

    def __init__(self, model: LaneModel) -> None:
        self._model = model

    def mono(self) -> float:
        return self._model.time

    def wall(self) -> float:
        return START + self._model.time

    def suspended(self) -> float:
        return 0.0

    def sleep(self, seconds: float) -> None:
        current().pause("sleeps", until=self._model.time + math.ceil(seconds * 1000))

    def lock(self) -> threading.Lock:
        return threading.Lock()

    def wait(self, condition: object, seconds: float | None) -> None:
        raise AssertionError("nobody waits for a condition here")


class ModelClock:
    """RTDB's time, which everybody knows."""

    def __init__(self, model: LaneModel) -> None:
        self._model = model

    def peek(self) -> Moment:
        return Moment(START + math.floor(self._model.time), self._model.time)

    def now(self, _deadline: object) -> Moment:
        return self.peek()


class ModelStore:
    """The nodes of the jobs' locks. What a node says is all that it is, so its text serves as its ETag."""

    def __init__(self, model: LaneModel) -> None:
        self.nodes: dict[str, dict[str, Any]] = {}
        self.writes: Counter[str] = Counter()
        self._model = model

    def read(self, path: str, _deadline: object) -> Snapshot:
        node = self.nodes.get(path)
        return Snapshot(NULL_ETAG if node is None else json.dumps(node, sort_keys=True), node)

    def swap(self, path: str, etag: str, node: dict[str, Any] | None, _deadline: object) -> str | Snapshot:
        found = self.read(path, None)
        if found.etag != etag:
            return found
        self.put(path, node)
        return self.read(path, None).etag

    def put(self, path: str, node: dict[str, Any] | None) -> None:
        before = self.nodes.pop(path, None)
        if node is not None:
            self.nodes[path] = node
        self.writes[path] += 1
        self._model.monitor.on_write(path, before, node)


class ModelStreams:
    """Follows the nodes for one instance. A follower hears of a change by an event, some time after the write."""

    def __init__(self, instance: Instance, *, can_watch: bool) -> None:
        self.can_watch = can_watch
        self.follows: dict[Follow, None] = {}
        self._instance = instance

    def add(self, follow: Follow) -> None:
        self.follows.setdefault(follow)

    def ahead(self, follow: Follow) -> int:
        in_line = [one for one in self.follows if one.path == follow.path]
        return in_line.index(follow) if follow in self.follows else 0

    def discard(self, follow: Follow) -> None:
        follow.update = None
        self.follows.pop(follow, None)

    def close(self) -> None:
        follows, self.follows = list(self.follows), {}
        for follow in follows:
            follow.update = None
            follow.wake()

    def events(self) -> Iterator[Event]:
        writes = self._instance.model.store.writes
        for follow in list(self.follows):
            heard = 0 if follow.update is None else follow.update.number
            if heard <= writes[follow.path]:
                yield Event(f"{self._instance.name} hears of {follow.path}", 2.0, partial(self._hear, follow))

    def break_off(self) -> None:
        """All streams break off. They open again some time later."""
        for follow in list(self.follows):
            follow.update = None
            self._instance.begin("stream", follow.wake)

    def _hear(self, follow: Follow) -> None:
        store = self._instance.model.store
        follow.update = Update(store.writes[follow.path] + 1, store.nodes.get(follow.path))
        self._instance.begin("stream", follow.wake)


class ModelAgenda:
    """The calls that an instance makes later, on the ticker's thread."""

    def __init__(self, model: LaneModel) -> None:
        self._model = model
        self.calls: list[tuple[float, Callable[[], None]]] = []

    def at(self, instant: int, call: Callable[[], None]) -> None:
        overtakable("plans a call")
        self.calls.append((float(instant - START), call))
        self.calls.sort(key=lambda planned: planned[0])

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        self.at(START + math.floor(self._model.time) + math.ceil(round(seconds * 1000, 6)), call)


class ModelEvents(Events):
    """Tells the monitor of an instance's events, and no log."""

    def __init__(self, instance: Instance) -> None:
        super().__init__()
        self._instance = instance

    def emit(
        self, slug: Slug, name: str, level: int, message: str, error: BaseException | None = None, /, **fields: Any
    ) -> None:
        self._instance.model.monitor.on_event(self._instance, slug, name, message, fields)


class ModelDatabase(Database):
    """A database whose tries are answered, are lost, or land in vain, as the world chooses."""

    def __init__(self, instance: Instance) -> None:
        model = instance.model
        super().__init__(
            settings=_settings(model.scenario.workers, model.scenario.places),
            store=cast("Any", model.store),
            timing=cast("Any", model.timing),
            has_threads=False,
            chance=lambda: 0.5,
        )
        self._instance = instance
        self.events = ModelEvents(instance)
        self.clock = cast("Any", model.clock)

    def bid(self, *words: Any, **wishes: Any) -> Bid:
        bid = super().bid(*words, **wishes)
        return replace(bid, holder=self._instance.model.new_token())

    def try_to_acquire(self, bid: Bid, within: float = math.inf) -> Held | Refusal:
        thread, model = current(), self._instance.model
        model.monitor.on_ask(thread, bid)
        way = thread.pause("asks", "is answered", *(fault for fault in ("lose", "unread") if model.budget[fault]))
        if way == "is answered":
            return super().try_to_acquire(bid, within)
        model.budget[way] -= 1
        self._send(bid, lands=way == "unread")
        return not_known(bid.name, "unavailable", Unavailable("no reply"))

    def _send(self, bid: Bid, *, lands: bool) -> None:
        """Send a try's first write, whose reply does not come."""
        model, known = self._instance.model, self.known.get(bid.name)
        exchange = acquiring(bid, known, bid.written, bid.replaced, bid.choose)
        action = next(exchange)
        while isinstance(action, Now):
            action = exchange.send(model.clock.peek())
        if lands and isinstance(action, Swap):
            model.store.swap(self.paths.lock(bid.name), action.etag, action.node, None)

    def emit_refusal(self, refusal: Refusal, *, quietly: bool = False) -> None:
        self._instance.model.monitor.on_refusal(current(), refusal)
        super().emit_refusal(refusal, quietly=quietly)


class ModelClaimer(Claimer):
    """A claimer whose claims the monitor sees."""

    def claim(self, pending: PendingClaim) -> Claimed | Refusal | float | None:
        thread = current()
        thread.pending = pending
        answer = super().claim(pending)
        thread.instance.model.monitor.on_answer(thread, pending, answer)
        thread.pending = None
        return answer

    def drop(self, pending: PendingClaim) -> None:
        super().drop(pending)
        current().instance.model.monitor.on_drop(current().instance, pending)


_CUT_SHORT: Outcome = "interrupted"


class ModelRunner(Runner):
    """A runner whose runs last until the world has them end."""

    def go_on(self, attempt: Attempt) -> float | None:
        current().attempt = attempt
        return super().go_on(attempt)

    def _perform(self, job: Job, run: Run, claimed: Claimed, run_id: str = "", taking: Taking | None = None) -> Ended:
        thread, process, outcome = current(), self._database.process, _CUT_SHORT
        monitor, lease = thread.instance.model.monitor, Lease(self._database, claimed.bid, claimed.held)
        execution = ModelExecution(run, lease, claimed.slot, claimed.is_of_its_tick)
        self._active.append(cast("Any", execution))
        monitor.on_begin(thread, job, claimed)
        try:
            thread.pause("runs", "ends")
            outcome = "cancelled" if lease.cancelled else "succeeded"
        finally:
            if not claimed.bid.momentary:
                lease.release(outcome=outcome, finished=claimed.slot, tick=claimed.slot)
            self._active[:] = [one for one in self._active if cast("object", one) is not execution]
            monitor.on_end(thread, claimed)
        return Result(run, outcome if self._database.process is process else "lost"), None


@dataclass(eq=False)
class ModelExecution:
    """A run that is under way, for those who look for one to cancel or to stop."""

    run: Run
    lease: Lease
    slot: str | None
    is_of_its_tick: bool

    def stop(self) -> None:
        self.run.stopping.set()

    def cancel(self) -> None:
        """It ends when the world says so."""


class Nobody:
    """Writes no history."""

    def record_passed_over(self, *_: object) -> None: ...

    def record(self, *_: object) -> None: ...

    def wait(self, *_: object) -> None: ...


def token_of(number: int) -> str:
    return f"{TOKEN}{number}"


def bound(call: Callable[[], object]) -> list[object]:
    """What a call has bound."""
    if isinstance(call, partial):
        return list(call.args)
    return [cell.cell_contents for cell in getattr(call, "__closure__", None) or ()]


@cache
def _settings(workers: int, places: int) -> Settings:
    return load(workers=workers, max_concurrent=places, heartbeat=HEARTBEAT, watch=True)
