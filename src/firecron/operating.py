"""An operator's hands on the locks: look, free, pause. What it means is said by `inspection`.

    operator = Operator(LockService())
    seen = operator.look("nightly-import")
    operator.unlock(seen)

Everything raises StoreError where the database doesn't do it. `unlock` frees the acquisition that was seen, however
often it has been renewed since, and never a successor: each try is a compare-and-swap. It does what `expiresAt = 0` in
the console does: the slot, the fence and all else stay, and the holder learns of it at its next renewal. It doesn't
end the body that runs.
"""

from __future__ import annotations

from dataclasses import dataclass

from firecron.conversation import Snapshot
from firecron.errors import Malformed, Unavailable
from firecron.inspection import LockView, RunView, inspect_lock, inspect_run
from firecron.lock import LockService
from firecron.names import check_name
from firecron.timing import Deadline


@dataclass(frozen=True, slots=True)
class Seen:
    """A lock at one moment, `now` by RTDB's clock: what is to be said of it, and the node itself."""

    view: LockView
    now: int
    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class SeenAll:
    """All locks at one moment, in the order of their names."""

    views: tuple[LockView, ...]
    now: int


class Operator:
    """Looks at the locks of one database, and changes them by hand."""

    def __init__(self, locks: LockService) -> None:
        self._locks = locks
        self._margin = round(locks.settings.margin * 1000)
        self._root = f"{locks.settings.prefix}/" if locks.settings.prefix else ""

    def look(self, name: str) -> Seen:
        """One lock. ConfigurationError if nothing can have that name."""
        snapshot = self._locks.store.read(self._path(name), self._deadline())
        now = self._now()
        return Seen(inspect_lock(name, snapshot.node, now, self._margin), now, snapshot)

    def look_at_all(self) -> SeenAll:
        """Every lock that has a node."""
        node = self._locks.store.read(f"{self._root}cron-locks", self._deadline()).node
        nodes = _children(node, "cron-locks")
        now = self._now()
        return SeenAll(tuple(inspect_lock(name, nodes[name], now, self._margin) for name in sorted(nodes)), now)

    def runs(self, name: str) -> tuple[RunView, ...]:
        """The history of one job, oldest first."""
        path = f"{self._root}cron-runs/{check_name(name)}"
        entries = _children(self._locks.store.read(path, self._deadline()).node, f"cron-runs/{name}")
        return tuple(inspect_run(key, entries[key]) for key in sorted(entries))

    def unlock(self, seen: Seen) -> bool:
        """Free the lock that was seen; False, and nothing is done, if it was released or taken over since. Raises
        Unavailable where it is not known whether it was done.
        """
        node = seen.snapshot.node
        if not isinstance(node, dict) or seen.view.state == "malformed":
            raise Malformed(f"{seen.view.name} can't be unlocked: {seen.view.problem or 'it has no node'}")
        path, etag, deadline = self._path(seen.view.name), seen.snapshot.etag, self._deadline()
        acquisition = _acquisition(node)
        while isinstance(node, dict) and _acquisition(node) == acquisition:
            freed = {**node, "expiresAt": 0}
            try:
                answer = self._locks.store.swap(path, etag, freed, deadline)
            except Unavailable:
                # It may have been written all the same.
                if self._locks.store.read(path, self._deadline()).node == freed:
                    return True
                raise
            if isinstance(answer, str):
                return True
            # A renewal changes the node, and a pause does, but not whose it is.
            etag, node = answer.etag, answer.node
        return False

    def pause(self, name: str, is_paused: bool) -> None:
        """Keep everybody from acquiring it, or let them again."""
        self._locks.pause(name, is_paused)

    def _now(self) -> int:
        return self._locks.clock.now(self._deadline()).server

    def _path(self, name: str) -> str:
        return f"{self._root}cron-locks/{check_name(name)}"

    def _deadline(self) -> Deadline:
        return self._locks.deadline(self._locks.settings.request_timeout)


def _acquisition(node: dict[str, object]) -> tuple[object, ...]:
    """What stays as it is from when a lock is acquired until it is released."""
    return tuple(node.get(field) for field in ("holder", "acquiredAt", "releasedAt"))


def _children(node: object, path: str) -> dict[str, object]:
    if node is None:
        return {}
    if isinstance(node, list):  # so the database shows keys that are small numbers
        return {str(index): child for index, child in enumerate(node) if child is not None}
    if not isinstance(node, dict):
        raise Malformed(
            f"{path} holds {node!r:.40}, where one node a name should be: delete it in the Firebase console"
        )
    return node
