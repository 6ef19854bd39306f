"""Signs of life: `cron-instances/<id>`, one node a process, and the rounds that go with them.

Each beat also tells RTDB's time, so an instance that beats never has to ask for it. Every so often an instance looks
for what others left behind: runs that died, ticks that nobody ran, nodes of instances that are gone. At the end its
own node is removed.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable

from firecron.clock import ServerClock
from firecron.errors import StoreError
from firecron.events import Events
from firecron.identity import Identity
from firecron.rtdb.store import Store
from firecron.settings import Settings
from firecron.timing import Deadline, Timing

_DEAD_AFTER = 10
_STOP_TIMEOUT = 1.0


class Heartbeat:
    """Beats from `start` to `stop`; `make_rounds` is called at the start and every `recovery_interval`."""

    def __init__(
        self,
        store: Store,
        root: str,
        clock: ServerClock,
        timing: Timing,
        events: Events,
        settings: Settings,
        identity: Identity,
        describe: Callable[[], dict[str, int]],
        make_rounds: Callable[[], None],
    ) -> None:
        self._store = store
        self._root = root
        self._clock = clock
        self._timing = timing
        self._events = events
        self._settings = settings
        self._identity = identity
        self._describe = describe
        self._make_rounds = make_rounds
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._random = secrets.token_hex(3)
        self._started_at: int | None = None
        self._rounds_due = 0.0
        self._beat_due = 0.0

    @property
    def id(self) -> str:
        """The name of this process's node."""
        return f"{self._identity.instance}-{self._random}"

    def start(self) -> None:
        with self._changed:
            self._rounds_due = self._timing.mono()
            self._thread = threading.Thread(target=self._run, name="firecron-heartbeat", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Beat no more, and remove the node; in a second or two, because the process is to end."""
        with self._changed:
            thread, self._thread = self._thread, None
            self._changed.notify_all()
        if thread is None:
            return
        if thread is not threading.current_thread():
            thread.join(timeout=_STOP_TIMEOUT)
        try:
            self._store.merge(self._root, {self.id: None}, Deadline.after(self._timing, _STOP_TIMEOUT))
        except StoreError as error:
            self._complain(f"its node could not be removed: {error}")

    def beat(self) -> None:
        """Say that this instance is alive, and learn the time from it."""
        sent = self._timing.mono()
        fields: dict[str, object] = {
            "seenAt": {".sv": "timestamp"},
            "startedAt": {".sv": "timestamp"} if self._started_at is None else self._started_at,
            "instanceId": self._identity.instance_id,
            **self._describe(),
        }
        try:
            stored = self._store.merge(f"{self._root}/{self.id}", fields, self._deadline())
        except StoreError as error:
            self._complain(str(error))
            return
        seen_at = stored.get("seenAt") if isinstance(stored, dict) else None
        if isinstance(seen_at, int):
            self._clock.note(seen_at, sent, self._timing.mono())
            self._started_at = self._started_at or seen_at

    def prune(self) -> None:
        """Remove the nodes of instances that have not been seen for ten beats. Raises StoreError."""
        now = self._clock.peek()
        nodes = self._store.read(self._root, self._deadline()).node
        if now is None or not isinstance(nodes, dict):
            return
        limit = now.server - _DEAD_AFTER * self._settings.heartbeat * 1000
        dead = [key for key, node in nodes.items() if key != self.id and _seen_at(node) < limit]
        if dead:
            self._store.merge(self._root, dict.fromkeys(dead), self._deadline())

    def work(self) -> None:
        """One beat, and the rounds if they are due."""
        self._beat_due = self._timing.mono() + self._settings.heartbeat * 1000
        self.beat()
        # Without RTDB's time there is nothing to be found out; the next beat may bring it.
        if self._timing.mono() >= self._rounds_due and self._clock.peek() is not None:
            self._rounds_due = self._timing.mono() + self._settings.recovery_interval * 1000
            self._make_rounds()
            try:
                self.prune()
            except StoreError as error:
                self._complain(f"dead instances could not be removed: {error}")

    def work_if_due(self) -> float:
        """`work` where there is no thread for it; answers with the seconds until it is due again."""
        if self._timing.mono() >= self._beat_due:
            self.work()
        return max(0.0, self._beat_due - self._timing.mono()) / 1000

    def after_fork(self) -> None:
        """In a forked child: another process, so another node."""
        self._changed = threading.Condition()
        self._thread = None
        self._random = secrets.token_hex(3)
        self._started_at = None

    def _run(self) -> None:
        me = threading.current_thread()
        while self._thread is me:
            try:
                self.work()
            except Exception as error:
                # Whatever it is, it must not end the heartbeat, or the rounds, in silence.
                self._complain(repr(error))
            with self._changed:
                if self._thread is me:
                    self._timing.wait(self._changed, self._settings.heartbeat)

    def _deadline(self) -> Deadline:
        return Deadline.after(self._timing, self._settings.request_timeout)

    def _complain(self, why: str) -> None:
        message = f"The heartbeat of this instance failed: {why}"
        self._events.emit("heartbeat.failed", "heartbeat", logging.WARNING, message, why=why)


def _seen_at(node: object) -> float:
    seen_at = node.get("seenAt") if isinstance(node, dict) else None
    return seen_at if isinstance(seen_at, int | float) else 0.0
