"""The board: all jobs as the page shows them, read once for all who look.

    the locks       by a stream of the database while somebody follows the page live; else every three seconds
    the groups      every minute: so the page calls a job unattended up to a minute late
    the catalogue   every five minutes, and when there is another group: its jobs may be new
    the histories   the newest entry of a job, when its lock has changed

So a page without visitors reads nothing, and one with many visitors reads no more than one with a single visitor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from firecron.base.clocks import Deadline, Timing
from firecron.errors import Denied
from firecron.jobs.catalogue import Declared
from firecron.jobs.groups import LIVE_BEATS, Group, read_groups
from firecron.lock.hearing import Heard
from firecron.lock.service import LockService
from firecron.lock.streams import Follow
from firecron.ops.nodes import children
from firecron.ops.status import Nodes, SeenJobs, Status
from firecron.page.lasts import Lasts
from firecron.page.shared import Shared

# In seconds.
_LOCKS_AGE = 3.0
_CATALOGUE_AGE = 300.0
_GROUPS_AGE = 60
_PICTURE_AGE = 1.0


class Board:
    """Reads the jobs of one database. All threads may share it."""

    def __init__(self, locks: LockService, timing: Timing) -> None:
        self._locks = locks
        self._timing = timing
        self._status = Status(locks)
        self._lasts = Lasts(self._status.last)
        self._catalogue = Shared(lambda _: self._status.catalogue(), timing, _CATALOGUE_AGE)
        self._groups = Shared(lambda _: self._read_groups(), timing, _GROUPS_AGE)
        self._nodes = Shared(lambda _: self._children(locks.paths.locks), timing, _LOCKS_AGE)
        self._picture = Shared(lambda _: self._look(), timing, _PICTURE_AGE)
        self._follow: Follow | None = None
        self._group_names: frozenset[str] = frozenset()

    def look(self) -> SeenJobs:
        """Return all jobs, with the newest entries of their histories. Raise StoreError."""
        return self._picture.get()

    @property
    def again_at(self) -> float:
        """When to look again for an entry that is about to come, on the monotonic clock."""
        return self._lasts.again_at

    def node(self, name: str) -> object:
        """Return the node of a lock; None without one. Raise StoreError."""
        return self._lock_nodes().get(name)

    def declared(self, name: str) -> Declared | None:
        """Return what the catalogue says of a job; None if it says nothing that can be read. Raise StoreError."""
        return self._catalogue.get().get(name)

    def now(self) -> int:
        """Return RTDB's time, which is asked for only where it is not known well enough. Raise StoreError."""
        moment = self._locks.clock.peek()
        return (moment or self._locks.clock.now(self._deadline())).server

    def changed(self) -> None:
        """Look anew: something was done, or the database tells of a change."""
        self._picture.changed()

    def done(self) -> None:
        """Read the locks anew, because a visitor has changed one."""
        self._nodes.changed()
        self.changed()

    # --- live

    @property
    def heard(self) -> Heard | None:
        """What the stream of the locks told last; None where there is none, or where it may be dead."""
        return None if self._follow is None else self._follow.believed()

    def follow(self, wake: Callable[[], object]) -> None:
        """Follow the changes of the locks from now on. `wake` is called after each, by another thread."""
        self._follow = Follow(self._locks.paths.locks, wake)
        self._locks.streams.add(self._follow)

    def unfollow(self) -> None:
        """Follow the changes no more."""
        follow, self._follow = self._follow, None
        if follow is not None:
            self._locks.streams.discard(follow)

    # --- reading

    def _look(self) -> SeenJobs:
        groups = self._groups.get()  # first, because they may show that the catalogue is old
        seen = self._status.judge(Nodes(self._catalogue.get(), self._lock_nodes(), groups, self.now()))
        return self._lasts.put_into(seen, self._timing.mono())

    def _lock_nodes(self) -> Mapping[str, object]:
        heard = self.heard
        return self._nodes.get() if heard is None else children(heard.node, self._locks.paths.locks)

    def _read_groups(self) -> tuple[Group, ...] | None:
        """Return the groups. One that is live counts as live until the groups are read again."""
        try:
            groups = read_groups(self._locks.store.read(self._locks.paths.groups, self._deadline()).node)
        except Denied:
            return None  # the rules are older than the groups
        names = frozenset(group.name for group in groups)
        if self._group_names != names:
            self._catalogue.changed()  # instances with other jobs are another group
            self._group_names = names
        now = self.now()
        return tuple(
            replace(group, heartbeat=2 * group.heartbeat + _GROUPS_AGE / LIVE_BEATS) if group.is_live(now) else group
            for group in groups
        )

    def _children(self, path: str) -> Mapping[str, object]:
        return children(self._locks.store.read(path, self._deadline()).node, path)

    def _deadline(self) -> Deadline:
        return self._locks.deadline(self._locks.settings.request_timeout)
