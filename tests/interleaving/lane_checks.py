"""What must hold of lanes, after every event and at the end: the contract, in the words of the violations.

The checks see what came, what was asked and answered, what began and what was said, and reckon for themselves.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any

from tests.interleaving.checks import require
from tests.interleaving.clocks import START
from tests.interleaving.states import State

from firecron.base.instants import to_milliseconds
from firecron.jobs.job import Job
from firecron.lock.lease import Lease
from firecron.lock.protocol import Bid
from firecron.lock.refusal import Refusal
from firecron.runs.claimer import Claimed
from firecron.runs.lane import HOLDS, NEWER, RUNS, Attempt, Lane, OpenTick, PendingClaim

if TYPE_CHECKING:
    from tests.interleaving.lane_parts import Thread
    from tests.interleaving.lanes import Instance, LaneModel

# The margin of the settings, in milliseconds.
MARGIN = 1000
# How much later than it may a waiting attempt is planned to try, and how much sooner than planned it does: calls come
# at whole milliseconds.
_LATE, _EARLY = 2.0, 1.0
# Threads that may be about to call an attempt.
_WAKING = ("stream", "ticker", "heartbeat")


@dataclass
class Came:
    """A tick that came to an instance: whether it was asked for, and what has become of it."""

    was_asked: bool = False
    left: OpenTick | None = None
    said: str = ""


class LaneMonitor:
    """Sees all that happens in a world of lanes."""

    def __init__(self, model: LaneModel) -> None:
        self.is_closed = False
        self._model = model
        self._came: dict[tuple[str, str, str], Came] = {}
        self._pending: dict[tuple[str, str], str] = {}
        self._over: set[str] = set()
        self._won: set[str] = set()
        self._begun: set[tuple[str, str, int]] = set()
        self._bodies: dict[Thread, str] = {}
        self._held_until: dict[Attempt, float] = {}
        self._looks: set[tuple[str, str]] = set()
        self._holds: dict[str, list[tuple[float, float, str]]] = {}

    def state(self, state: State) -> Hashable:
        came = tuple((key, one.was_asked, one.said, one.left is not None) for key, one in sorted(self._came.items()))
        return (
            came,
            state.of(self._pending),
            tuple(token in self._over for token in self._tokens()),
            tuple(sorted(self._begun)),
            state.of(self._holds),
            tuple(sorted(self._looks)),
            tuple((state.of(one), until) for one, until in self._held_until.items() if until > self._model.time),
        )

    def _tokens(self) -> list[str]:
        """The tokens that may be used still."""
        lanes = [lane for one in self._model.instances for lane in one.lanes_by_name().values()]
        claims = [claim for lane in lanes for claim in (lane.pending, lane.unanswered) if claim is not None]
        return [claim.bid.holder for claim in claims]

    # --- what comes, and what is asked for

    def on_tick(self, instance: Instance, job: Job, slot: str) -> None:
        """A tick comes to the lanes."""
        self._came[instance.name, job.name, slot] = Came()

    def on_look(self, instance: Instance, job: Job) -> None:
        """A look comes to the lanes."""
        if not instance.lanes.stopping:
            self._looks.add((instance.name, job.name))

    def on_submit(self, instance: Instance) -> None:
        """A worker is called."""
        require(not instance.lanes.stopping, "a worker is called that was stopped")

    def on_ask(self, thread: Thread, bid: Bid) -> None:
        """A thread sends a request for the lock."""
        pending, token, thread.asked_at = thread.pending, bid.holder, self._model.time
        require(not thread.was_stopped, "an instance asks that was stopped")
        require(token not in self._over, "a token is used for another claim")
        if pending is not None:
            self._looks.discard((thread.instance.name, bid.name))  # each claim of a tick looks
        if pending is None or not pending.attempt.is_patient:
            return
        attempt = pending.attempt
        lane = thread.instance.name, attempt.job.name
        before = self._pending.setdefault(lane, token)
        is_given_up = before != token and thread.instance.is_giving_up(before)
        require(before == token or is_given_up, "a second claim is pending for a job, with its own token")
        self._pending[lane] = token
        require(self._model.time >= attempt.tries_at - _EARLY, f"{attempt.due} is tried before its time")
        until = self._held_until.get(attempt, 0.0)
        require(self._model.time >= until, "a claim is made during the minimum hold of the attempt's own run")
        came = self._came.get((*lane, attempt.due or ""))
        if came is not None:
            came.was_asked = True

    def on_answer(self, thread: Thread, pending: PendingClaim, answer: object) -> None:
        """A thread goes on with what came of a try."""
        if isinstance(answer, float):
            require(pending.attempt.is_patient, "a caller is told to wait")
            if thread.instance.lanes.stopping:
                self._pending.pop((thread.instance.name, pending.attempt.job.name), None)
            return
        if pending.attempt.is_patient:
            self._pending.pop((thread.instance.name, pending.attempt.job.name), None)
        elif isinstance(answer, Refusal) and answer.reason == "unavailable":
            return  # the next call for the tick may share its token
        self._over.add(pending.bid.holder)

    def on_drop(self, instance: Instance, pending: PendingClaim) -> None:
        """A claim was given up."""
        lane, token = (instance.name, pending.attempt.job.name), pending.bid.holder
        if self._pending.get(lane) == token:
            del self._pending[lane]
        self._over.add(token)

    def on_refusal(self, thread: Thread, refusal: Refusal) -> None:
        """An instance says why a lock is refused."""
        instance = thread.instance
        if refusal.reason == "slot_done" and refusal.slot is not None:
            for (name, job, slot), came in self._came.items():
                if (name, job) == (instance.name, refusal.name) and slot <= refusal.slot and came.was_asked:
                    came.said = came.said or "claimed"
        elif thread.pending is not None:
            due = thread.pending.attempt.due or ""
            came_now = self._came.get((instance.name, refusal.name, due))
            if came_now is not None:
                came_now.said = came_now.said or refusal.reason

    def on_event(self, instance: Instance, slug: str, name: str, message: str, fields: Mapping[str, object]) -> None:
        """An instance emits an event."""
        if slug not in ("run.skipped", "run.missed") or self.is_closed:
            return
        slot = str(fields["slot"])
        self._check_why(instance, name, slot, message)
        came = self._came.get((instance.name, name, slot))
        require(came is not None, f"{slot} is said to be left out, and never came")
        assert came is not None, "as required"
        require(came.said not in ("run.skipped", "run.missed"), f"{slot} is said twice to be left out")
        require(came.said != "begun by schedule", f"{slot} is said to be left out, and has begun")
        require(came.said != "the parent's", f"{slot} is said to be left out by a child, and is the parent's")
        came.said = slug

    # --- runs

    def on_begin(self, thread: Thread, job: Job, claimed: Claimed) -> None:
        """A run begins."""
        name, claim, record = thread.instance.name, claimed.claim, claimed.held.record
        places = job.options.places(thread.instance.database.settings.max_concurrent)
        beside = sum(self._bodies.get(other) == job.name for other in thread.instance.threads)
        require(beside < places, "a run begins beside another one of its job")
        self._bodies[thread] = job.name
        token = claimed.bid.holder
        require(token not in self._won, "a token begins two runs")
        self._won.add(token)
        if claim is None:
            return
        self._looks.discard((name, job.name))
        if job.options.once_per_tick:
            attempt = int(record.attempt or 1)
            require((job.name, claim.slot, attempt) not in self._begun, f"{claim.slot} begins twice")
            require(attempt == 1 or claim.trigger == "rerun", f"{claim.slot} begins again, and is no rerun")
            self._begun.add((job.name, claim.slot, attempt))
        came = self._came.get((name, job.name, claim.slot))
        if came is not None:
            is_left_out = came.said in ("run.skipped", "run.missed") and claim.trigger == "schedule"
            require(not is_left_out, f"{claim.slot} begins, and was said to be left out")
            is_parents = came.said == "the parent's" and claim.trigger == "schedule"
            require(not is_parents, f"{claim.slot} begins in a child, and is the parent's")
            came.said = f"begun by {claim.trigger}"
            older = [one for one in self._came if one[:2] == (name, job.name) and one[2] < claim.slot]
            is_in_turn = not job.options.keeps_all_waiting or all(self._came[one].said for one in older)
            require(is_in_turn or thread.name in ("by hand", "by tick"), f"{claim.slot} begins before an older one")
        has_held = thread.attempt is not None and thread.attempt.results  # its own runs before that of the tick
        was_asked_at_once = self._model.time - thread.asked_at <= MARGIN  # else its request was under way for so long
        if claim.trigger == "schedule" and job.options.asks_in_waves and not has_held and was_asked_at_once:
            slot = to_milliseconds(claim.slot) - START
            came_at = thread.attempt.came if thread.attempt is not None else self._model.time
            spans = self._holds.get(thread.instance.database.paths.lock(job.name), [])
            was_held = any(start < slot and end > came_at + MARGIN and holder != token for start, end, holder in spans)
            require(not was_held, f"{claim.slot} begins, whose lock was held as it came")

    def on_end(self, thread: Thread, claimed: Claimed) -> None:
        """A run has ended, and its lock is released."""
        del self._bodies[thread]
        if thread.attempt is not None:
            acquired = claimed.held.trust.reading.mono
            self._held_until[thread.attempt] = acquired + claimed.bid.hold_at_least

    def on_write(self, path: str, before: dict[str, Any] | None, after: dict[str, Any] | None) -> None:
        """A node of a lock has changed."""
        now, spans = self._model.time, self._holds.setdefault(path, [])
        if spans and spans[-1][1] == inf and not _is_held_by(after, before):
            ends = float(after["expiresAt"] - START) if after is not None and "releasedAt" in after else now
            start, _, holder = spans[-1]
            spans[-1] = start, max(now, ends), holder
        if _is_held_by(after, after) and not _is_held_by(before, after):
            spans.append((now, inf, str((after or {})["holder"])))

    # --- an instance's ways to go

    def on_gone(self, instance: Instance, how: str = "gone") -> None:
        """An instance has stopped, was forked or has crashed: what waited there is over, and need not be spoken of."""
        for (name, _, _), came in self._came.items():
            if name == instance.name:
                came.said = came.said or how
        self._looks = {one for one in self._looks if one[0] != instance.name}
        under_way = {thread.pending.bid.holder for thread in instance.threads if thread.pending is not None}
        for key, token in list(self._pending.items()):
            if key[0] == instance.name and token not in under_way:
                self._over.add(self._pending.pop(key))

    # --- what must hold

    def after_event(self) -> None:
        for instance in self._model.instances:
            if not instance.is_alive:
                continue
            for name, lane in instance.lanes_by_name().items():
                self._note_open(instance, name, lane)
                require(
                    lane.pending is None or lane.current is not None or bool(lane.line), "a claim is pending for nobody"
                )
                if lane.current is not None and lane.state == "waiting" and instance.is_ticking:
                    self._check_wait(instance, lane, lane.current)
                if lane.current is not None and lane.state == "waiting" and not lane.options.keeps_all_waiting:
                    newest = max((one.due or "" for one in lane.line), default="")
                    is_newest = newest <= (lane.current.due or "")
                    require(is_newest, f"{newest} stands in line behind an older one that waits")
                if lane.options.cancels_previous and instance.is_ticking:
                    self._check_cancel(instance, name, lane)

    def _check_why(self, instance: Instance, name: str, slot: str, message: str) -> None:
        """A tick is skipped for a reason that its job's policy has, and that is so."""
        lane = instance.lanes_by_name()[name]
        is_for_runs, is_for_holds = message.endswith(RUNS), message.endswith(HOLDS)
        require(not (lane.options.waits and (is_for_runs or is_for_holds)), f"{slot} queues, and is skipped")
        if lane.options.keeps_all_waiting:
            require(not message.endswith(NEWER), f"{slot} gives way to a newer tick, and all of them queue")
        if message.endswith("could not start in time"):
            grace = 10_000 if lane.options.waits_until_next_tick else lane.options.grace
            is_over = START + self._model.time >= to_milliseconds(slot) + grace
            is_overtaken = any(other[:2] == (instance.name, name) and other[2] > slot for other in self._came)
            require(is_over or is_overtaken, f"{slot} is given up before its grace is over")
        if not self._model.is_fine:  # else the run may be over by now
            require(not is_for_runs or bool(lane.running), f"{slot} is skipped, and nothing runs")

    def _check_cancel(self, instance: Instance, name: str, lane: Lane) -> None:
        """The run that a tick stands in line for is asked to end, or is about to be."""
        for attempt in lane.line:
            runs = [one for one in instance.runner.active() if one.run.name == name and one.is_of_its_tick]
            earlier = [one for one in runs if one.slot is not None and one.slot < (attempt.due or "")]
            is_asked = all(one.lease.cancelled for one in earlier if isinstance(one.lease, Lease))
            require(is_asked or instance.will_call(attempt), f"{attempt.due} waits for a run that it does not cancel")

    def _note_open(self, instance: Instance, name: str, lane: Lane) -> None:
        """Note which ticks are left to others, and which are not any more."""
        opened = None if lane.open is None else lane.open.attempt
        for attempt in (lane.current, *lane.line, opened):
            came = None if attempt is None else self._came.get((instance.name, name, attempt.due or ""))
            if came is not None:
                came.left = lane.open if attempt is opened else None

    def _check_wait(self, instance: Instance, lane: Lane, attempt: Attempt) -> None:
        """An attempt that waits is called again, and in time by what is heard of its lock."""
        if any(thread.attempt is attempt or thread.name in _WAKING for thread in instance.threads):
            return
        planned = instance.plan_of(attempt)
        require(planned is not None, f"{attempt.due} waits, and nothing wakes it")
        now, pending = self._model.time, lane.pending
        follow = pending.follow if pending is not None and pending.hears else None
        if pending is not None and follow is not None and follow.hears:
            may_try = now + 1000 * min(follow.seconds(), max(0.0, pending.seconds_left(now)))
            is_in_time = planned is not None and planned <= may_try + _LATE
            require(is_in_time, f"{attempt.due} waits until {planned}, and may try at {may_try}")

    def at_end(self) -> None:
        """Nothing moves any more."""
        for (name, job, slot), came in self._came.items():
            require(bool(came.said) or self._is_left(name, job, slot, came), f"{name} has forgotten {slot} of {job}")
        for instance in self._model.instances:
            if not instance.is_alive:
                continue
            for name, lane in instance.lanes_by_name().items():
                if not {"pause", "remove", "replace"} & self._model.scenario.budget.keys():
                    require((instance.name, name) not in self._looks, f"{instance.name} has forgotten a look")
                waits = [lane.current, lane.open, lane.look, lane.pending, *lane.line, *lane.running, *lane.reserved]
                # One that was planned after a stop is dropped by the next start.
                require(lane.looks_at is None or not instance.is_ticking, f"a look of {name} is left")
                require(not any(one is not None for one in waits), f"something of {name} is left in its lane")
            require(not instance.streams.follows, "a lock is followed for nobody")

    def _is_left(self, name: str, job: str, slot: str, came: Came) -> bool:
        """Whether a tick was left to others, as long as it could be."""
        if came.left is None:
            return False
        is_replaced = any(other[:2] == (name, job) and other[2] > slot for other in self._came)
        return is_replaced or (came.left.ends is not None and self._model.time >= came.left.ends)


def _is_held_by(node: dict[str, Any] | None, other: dict[str, Any] | None) -> bool:
    """Whether a node is held by the holder of the other one."""
    if node is None or other is None or "releasedAt" in node or "holder" not in node:
        return False
    return bool(node["holder"] == other.get("holder"))
