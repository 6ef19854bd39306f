"""The heartbeat: writes signs of life to `cron-instances/<id>`, one node a process, and makes the rounds of recovery.

The reply to each beat contains RTDB's time, so an instance that beats never has to ask for it. A round that is due
follows a beat, and has to stop at the next beat. After a completed round the nodes of dead instances are removed.

At the end the thread removes the instance's own node, so that a stop doesn't have to wait for it.
"""

from __future__ import annotations

import logging
import secrets
import threading

from firecron.base.clocks import Deadline, Timing
from firecron.errors import StoreError, Unavailable
from firecron.jobs.registry import Registry
from firecron.lock.instances import PRUNED_BEATS, inspect_instances
from firecron.lock.service import LockService
from firecron.runs.runner import Runner
from firecron.scheduler.recovery import Recovery
from firecron.store import SERVER_TIME

_REMOVE_TIMEOUT = 1.0


class Heartbeat:
    """Beats from `start` to `leave`. Each beat writes the number of jobs and the number of runs under way."""

    def __init__(
        self, locks: LockService, timing: Timing, registry: Registry, runner: Runner, recovery: Recovery
    ) -> None:
        self._store = locks.store
        self._root = locks.paths.instances
        self._clock = locks.clock
        self._timing = timing
        self._events = locks.events
        self._settings = locks.settings
        self._identity = locks.identity
        self._roster = locks.contender.roster
        self._registry = registry
        self._runner = runner
        self._recovery = recovery
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._at_work: set[threading.Thread] = set()
        self._random = secrets.token_hex(3)
        self._started_at: int | None = None
        self._beat_due = 0.0

    @property
    def id(self) -> str:
        """The name of this process's node below `cron-instances`."""
        return f"{self._identity.instance}-{self._random}"

    def start(self) -> None:
        with self._changed:
            self._thread = threading.Thread(target=self._run, name="firecron-heartbeat", daemon=True)
            self._thread.start()
            self._at_work.add(self._thread)

    def leave(self) -> None:
        """Stop beating. The thread removes the node and ends."""
        with self._changed:
            self._thread = None
            self._changed.notify_all()

    def wait(self, until: float) -> None:
        """Wait for the thread's end, but not longer than `until` on the monotonic clock."""
        with self._changed:
            while self._at_work and (left := until - self._timing.mono()) > 0:
                self._timing.wait(self._changed, left / 1000)

    def beat(self) -> bool:
        """Write a sign of life, and note RTDB's time from the reply. Return whether the database responded at all."""
        sent = self._timing.mono()
        fields: dict[str, object] = {
            "seenAt": SERVER_TIME,
            "startedAt": SERVER_TIME if self._started_at is None else self._started_at,
            "instanceId": self._identity.instance_id,
            "jobs": len(self._registry.jobs()),
            "running": sum(self._runner.running().values()),
        }
        try:
            stored = self._store.merge(f"{self._root}/{self.id}", fields, self._deadline())
        except StoreError as error:
            self._complain(str(error))
            return not isinstance(error, Unavailable)
        seen_at = stored.get("seenAt")
        if isinstance(seen_at, int):
            self._clock.note(seen_at, sent, self._timing.mono())
            self._started_at = self._started_at or seen_at
        return True

    def prune(self, deadline: Deadline) -> None:
        """Note the silent instances in the roster, and remove the nodes of instances not seen for ten beats.

        Raise StoreError.
        """
        now = self._clock.peek()
        nodes = self._store.read(self._root, deadline).node
        if now is None:
            return
        self._roster.note(inspect_instances(nodes, self._settings.heartbeat), now.server)
        if not isinstance(nodes, dict):
            return
        limit = now.server - PRUNED_BEATS * self._settings.heartbeat * 1000
        dead = [key for key, node in nodes.items() if key != self.id and _seen_at(node) < limit]
        if dead:
            self._store.merge(self._root, dict.fromkeys(dead), deadline)

    def work(self) -> None:
        """Beat once, and make a round of recovery if one is due."""
        self._beat_due = self._timing.mono() + self._settings.heartbeat * 1000
        # Without the database a round finds nothing. The next beat may reach it again.
        if not self.beat():
            return
        try:
            if not self._recovery.make_if_due(self._beat_due):
                return
        except StoreError as error:
            self._complain(f"the look for died runs and missed ticks goes on at the next beat: {error}")
            return
        try:
            self.prune(self._deadline().within(max(0.0, self._beat_due - self._timing.mono()) / 1000))
        except StoreError as error:
            self._complain(f"the nodes of dead instances could not be removed: {error}")

    def work_if_due(self) -> float:
        """Call `work` if it is due, without a thread. Return the seconds until it is due again."""
        if self._timing.mono() >= self._beat_due:
            self.work()
        return max(0.0, self._beat_due - self._timing.mono()) / 1000

    def after_fork(self) -> None:
        """Take a new node name in a forked child, which is another process."""
        self._changed = threading.Condition()
        self._thread = None
        self._at_work = set()
        self._random = secrets.token_hex(3)
        self._started_at = None

    def _run(self) -> None:
        me = threading.current_thread()
        try:
            while self._thread is me:
                self._work_guarded()
                with self._changed:
                    # Wait until the next beat is due. A long round doesn't delay it.
                    while self._thread is me and (left := self._beat_due - self._timing.mono()) > 0:
                        self._timing.wait(self._changed, left / 1000)
            self._remove()
        finally:
            with self._changed:
                self._at_work.discard(me)
                self._changed.notify_all()

    def _work_guarded(self) -> None:
        try:
            self.work()
        except Exception as error:
            # No error may end the heartbeat and the rounds silently.
            self._complain(repr(error))

    def _remove(self) -> None:
        if self._thread is not None:
            return  # the heartbeat was started again, and another thread beats for the node
        try:
            self._store.merge(self._root, {self.id: None}, Deadline.after(self._timing, _REMOVE_TIMEOUT))
        except Exception as error:
            self._complain(f"the instance's own node could not be removed: {error}")

    def _deadline(self) -> Deadline:
        return Deadline.after(self._timing, self._settings.request_timeout)

    def _complain(self, why: str) -> None:
        message = f"The heartbeat of this instance failed: {why}"
        self._events.emit("heartbeat.failed", "heartbeat", logging.WARNING, message, why=why)


def _seen_at(node: object) -> float:
    seen_at = node.get("seenAt") if isinstance(node, dict) else None
    return seen_at if isinstance(seen_at, int | float) else 0.0
