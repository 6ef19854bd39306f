"""The leaders of a FireCron: they stand on this instance from `start` to `stop`, unless the program has paused them.

A leader stands only where the guard lets jobs tick, where its role is, and if it is not disabled. Leaders and jobs
share nothing but the database: jobs tick whether or not anybody leads.
"""

from __future__ import annotations

import threading
from dataclasses import replace

from firecron.errors import UnknownJob
from firecron.jobs.around import nothing
from firecron.leaders.leader import Leader, Surroundings
from firecron.leaders.office import Office, Staff
from firecron.lock.standing import Nobody, Ranks
from firecron.settings import Settings


class Leaders:
    """The leaders of this process, by name, in the order in which they were found."""

    def __init__(self, settings: Settings, staff: Staff, around: Surroundings) -> None:
        self._settings = settings
        self._staff = staff
        self._around = around
        self._offices: dict[str, Office] = {}
        # Between `start` and `stop`; and the leaders that the program has paused here. Both are changed under the lock,
        # which a signal handler that stops may take once more.
        self._lock = threading.RLock()
        self._is_standing = False
        self._paused: set[str] = set()
        # Set by the engine before leaders are added: the waves, which know the tickets.
        self.ranks: Ranks = Nobody()

    def add(self, leader: Leader) -> None:
        """Add a leader before the start. Its function is called in the application's context."""
        one = leader if leader.around is not nothing else replace(leader, around=self._around)
        office = self._offices[leader.name] = Office(one, self._staff)
        office.candidate.standing.ranks = self.ranks

    def all(self) -> list[Leader]:
        """Return all leaders."""
        return [office.leader for office in self._offices.values()]

    def office(self, name: str) -> Office:
        """Return the office of the leader of this name. Raise UnknownJob if there is none."""
        if name not in self._offices:
            raise UnknownJob(f"there is no leader {name!r}; the leaders are: {', '.join(self._offices) or 'none'}")
        return self._offices[name]

    def has(self, name: str) -> bool:
        """Return whether a leader has this name."""
        return name in self._offices

    def check(self) -> None:
        """Raise ConfigurationError if a leader's ttl is too short for the lock's promises."""
        for leader in self.all():
            self._settings.check_ttl(leader.options.election.ttl, f"ttl of the leader {leader.name!r}")

    def stands_here(self, leader: Leader) -> bool:
        """Return whether this instance stands for the leader while it ticks."""
        options = leader.options
        return not options.disabled and (options.role is None or options.role in self._settings.roles)

    def members(self) -> list[tuple[str, ...]]:
        """Return what the leaders that stand here contribute to the name of the instance's group."""
        return [(leader.name, LEADER_LINE, "") for leader in self.all() if self.stands_here(leader)]

    def leading(self) -> list[str]:
        """Return the names of the leaders that this instance is now."""
        return [name for name, office in self._offices.items() if office.candidate.is_mine]

    def start(self) -> None:
        """Stand for all leaders that belong here, and are not paused here."""
        with self._lock:
            self._is_standing = True
            for name, office in self._offices.items():
                if self._is_standing and self.stands_here(office.leader) and name not in self._paused:
                    office.open()

    def stop(self) -> None:
        """Stand no more, and tell the bodies to end. This returns at once."""
        with self._lock:
            self._is_standing = False
            for office in self._offices.values():
                office.close()

    def pause(self, name: str, is_paused: bool) -> None:
        """Stand no more for this leader on this instance, and step down; or stand again. It lasts across a restart."""
        office = self.office(name)
        with self._lock:
            if is_paused:
                self._paused.add(name)
                office.close("it is paused on this instance")
            elif name in self._paused:
                self._paused.remove(name)
                if self._is_standing and self.stands_here(office.leader):
                    office.open()

    def leave_behind(self) -> None:
        """Stop renewing the terms of bodies that have not ended within the grace."""
        for office in self._offices.values():
            office.leave_behind()

    def after_fork(self) -> None:
        """Forget threads and bodies in a forked child: they are the parent's."""
        self._lock = threading.RLock()
        self._is_standing = False
        for office in self._offices.values():
            office.after_fork()


# What stands in place of the cron line: no line is like it.
LEADER_LINE = "leader"
