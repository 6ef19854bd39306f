"""The audit log: writes pauses, and an entry in `cron-acts` for each act of an operator. Its one schema is here.

    act     pause, resume, unlock, cancel, run, ask, forget, hold, unhold, mute, unmute; depose: the cancel of a
            leader's term; lapse: an ask that was not run
    name    the lock, which has its job's or leader's name; of a forget, the key in the catalogue; of a hold, what it
            is for, such as `every job`
    who     `user@host` as the command line claims, a visitor as the page has authenticated it, or a program's instance
    at      when, in milliseconds of RTDB's clock
    why     the reason that was given, without what looks like a secret

A key begins with the instant, so that keys come in the order of time. The newest acts are kept. A user who may write
the database may write any act, so an act is a claim, and no proof.

A pause of a stored job or of one of its entries, and the end of either, ring `cron-bell`: it holds once lookers hear.

A pause, a hold, a mute and their ends are one write with their entry, but for the end of a hold: both are there, or
none. Any other act is recorded after it was done. An entry that can't be written undoes nothing: a WARNING,
`act.failed`, says so. So where the rules are older than acts, a pause is written without its entry.

    two acts at the same time     both are there; the second may leave one more than are kept, and the next act prunes
    a pause and a claim           the claim's compare-and-swap fails, or comes first, and the run goes on to its end
    a pause and a resume          the later write counts: each replaces all fields of a pause at once. Each notes in
                                  `pausedBefore` what it has read just before, so of two at the same time one may not
                                  be noted: ticks that it has held back are missed then
    no reply to a pause           it raises Unavailable: it may be written, with its entry, or not
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from firecron.base.instants import aware_milliseconds, number, to_text
from firecron.base.texts import cut
from firecron.errors import ConfigurationError, Denied, StoreError
from firecron.lock.database import Database
from firecron.lock.fields import PAUSE_FIELDS, noted_pauses, reason
from firecron.lock.protocol import editing
from firecron.lock.stored import LookOptions
from firecron.store import SERVER_TIME, check_any_name, is_entry_name, split_name

Deed: TypeAlias = Literal[
    "pause", "resume", "unlock", "cancel", "run", "ask", "lapse", "forget", "depose", "hold", "unhold", "mute", "unmute"
]

# How many acts are kept.
KEPT = 50
# Characters, as the security rules count them.
LONGEST_NAME, LONGEST_WHO = 100, 200


@dataclass(frozen=True, slots=True)
class Act:
    """One act. `act` is a `Deed`, or a word of a later version. What the node lacks is empty or None."""

    key: str
    act: str
    name: str
    who: str
    at: int | None
    why: str | None = None

    def to_node(self) -> dict[str, object]:
        """Return the act as it is stored."""
        fields = {"act": self.act, "at": self.at, "name": self.name, "who": self.who, "why": self.why}
        return {name: value for name, value in fields.items() if value is not None}

    def to_json(self) -> dict[str, object]:
        """Return the act for programs: it always has every field, and the instant is a text."""
        at = None if self.at is None else to_text(self.at)
        return {"key": self.key, "act": self.act, "name": self.name, "who": self.who, "at": at, "why": self.why}


def make_act(deed: Deed, name: str, who: str, at: int, why: str | None, token: str) -> Act:
    """Return an act with its key. `token` are six random hexadecimal digits."""
    return Act(f"{to_text(at)}-{at % 1000:03d}-{token}", deed, cut(name, LONGEST_NAME), said_by(who), at, reason(why))


def read_act(key: str, node: object) -> Act:
    """Return what a node says of an act."""
    fields: Mapping[object, object] = node if isinstance(node, Mapping) else {}
    act, name, who = (_text(fields.get(field)) or "" for field in ("act", "name", "who"))
    return Act(key, act, name, who, number(fields.get("at")), _text(fields.get("why")))


def surplus(keys: Collection[str]) -> list[str]:
    """Return the keys of the oldest acts, which have to go before one more is written."""
    return sorted(keys)[: -(KEPT - 1)]


def said_by(who: str) -> str:
    """Return the name of an operator as it is stored: never empty."""
    return cut(who, LONGEST_WHO) or "unknown"


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


class AuditLog:
    """Writes pauses and acts of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def pause(self, name: str, by: str, why: str | None = None, until: int | None = None) -> None:
        """Pause a lock until it is resumed, or until this instant of RTDB's clock. It replaces an earlier pause.

        Raise ConfigurationError if the instant is over, and StoreError if the pause can't be written.
        """
        act = self.act("pause", check_any_name(name), by, why, until)
        pause = (True, act.who, act.at, act.why, until, None, None)
        noted = {"pausedBefore": self._noted(act)}
        self._write_lock({**noted, **dict(zip(PAUSE_FIELDS, pause, strict=True))}, act)

    def resume(self, name: str, by: str, why: str | None = None) -> None:
        """End the pause of a lock. Raise StoreError if that can't be written."""
        act = self.act("resume", check_any_name(name), by, why)
        noted = {"pausedBefore": self._noted(act)}
        self._write_lock({**noted, **dict.fromkeys(PAUSE_FIELDS), "resumedAt": act.at}, act)

    def record(self, deed: Deed, name: str, by: str, why: str | None = None) -> bool:
        """Record what was done. Return False, after a WARNING, if that fails."""
        try:
            act = self.act(deed, name, by, why)
            self._database.store.merge(self._database.paths.prefix, self._entry(act), self._database.deadline())
        except StoreError as error:
            self._warn(deed, name, by, error)
            return False
        return True

    def act(self, deed: Deed, name: str, by: str, why: str | None = None, until: int | None = None) -> Act:
        """Return an act that is done now. What it does ends at `until`.

        Raise ConfigurationError if that instant is over.
        """
        now = self._database.clock.now(self._database.deadline()).server
        if until is not None and until <= now:
            raise ConfigurationError(f"until={to_text(until)} is over already: RTDB's time is {to_text(now)}")
        return make_act(deed, name, by, now, why, secrets.token_hex(3))

    def write(self, changes: Mapping[str, object], act: Act, rings: str | None = None) -> None:
        """Write these changes, as seen from the prefix, and the act in the same write, which `rings` for a stored job.

        Raise StoreError if they can't be written. Where the rules refuse the act alone, the changes are written.
        """
        prefix, paths = self._database.paths.prefix, self._database.paths
        bell = {} if rings is None else {paths.relative(paths.bell(rings)): SERVER_TIME}
        try:
            self._database.store.merge(prefix, {**changes, **self._entry(act), **bell}, self._database.deadline())
        except Denied as error:
            self._database.store.merge(prefix, dict(changes), self._database.deadline())
            self._warn(act.act, act.name, act.who, error)

    def _noted(self, act: Act) -> str | None:
        """Return the `pausedBefore` of a lock whose pause ends, or is replaced, with this act."""
        node = self._database.node(self._database.paths.lock(act.name))
        return noted_pauses(node, act.at or 0) if isinstance(node, dict) else None

    def _write_entry(self, fields: Mapping[str, object], act: Act) -> None:
        """Write these fields of an entry, and when to look at it: by a swap, because that depends on all the others."""
        database = self._database

        def decide(node: object, now: int) -> Mapping[str, object]:
            if not isinstance(node, dict):
                raise ConfigurationError(f"there is no stored schedule {act.name}")
            changed = {**node, **fields}
            return {name: value for name, value in changed.items() if value is not None}

        deadline = database.deadline(database.settings.acquire_timeout)
        database.run(editing(decide, look=LookOptions(database.margin)), database.paths.lock(act.name), deadline)
        self.write({}, act, split_name(act.name)[0])

    def _write_lock(self, fields: Mapping[str, object], act: Act) -> None:
        if is_entry_name(act.name):
            self._write_entry(fields, act)
            return
        lock = self._database.paths.relative(self._database.paths.lock(act.name))
        rings = act.name if self._is_stored(act.name) else None
        self.write({f"{lock}/{field}": value for field, value in fields.items()}, act, rings)

    def _is_stored(self, name: str) -> bool:
        """Return whether the catalogue has this job as a stored one."""
        with suppress(StoreError):  # else lookers see the pause at a beat of theirs
            node = self._database.node(self._database.paths.job(name))
            return isinstance(node, dict) and node.get("stored") is True
        return False

    def _entry(self, act: Act) -> dict[str, object]:
        """Return the changes, as seen from the prefix, that write an act and prune the oldest."""
        acts = self._database.paths.relative(self._database.paths.acts)
        old = surplus(self._database.store.keys(self._database.paths.acts, self._database.deadline()))
        return {**{f"{acts}/{key}": None for key in old}, f"{acts}/{act.key}": act.to_node()}

    def _warn(self, deed: str, name: str, by: str, error: StoreError) -> None:
        message = f'The {deed} of "{name}" by {said_by(by)} is done, but is not among the acts: {error}'
        self._database.events.emit(
            "act.failed", name, logging.WARNING, message, act=deed, who=said_by(by), why=str(error)
        )


def pause_lock(database: Database, name: str, is_paused: bool, why: str | None, until: datetime | None) -> None:
    """Pause a lock, or end its pause, on behalf of the program itself. Raise StoreError if that fails."""
    audit_log, by = AuditLog(database), f"{database.identity.instance_id}/{database.identity.instance}"
    if is_paused:
        audit_log.pause(name, by, why, None if until is None else aware_milliseconds(until, "until"))
    else:
        audit_log.resume(name, by, why)
