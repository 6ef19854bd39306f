"""Mutes: of a job nobody is to be told for a while. The schema of `cron-mutes`, and the operator's side.

`cron-mutes/<job>` says of which job, and for how long:

    until    from this instant on the mute is over, in milliseconds of RTDB's clock
    by       who asked for it
    why      the reason that was given, without what looks like a secret

A muted job runs as ever, and its verdict is shown as ever: only `/health`, `firecron check` and the event `job.late`
are silent about it. It is no pause, so nothing depends on it. One that is over means nothing: the next mute deletes it,
or an instance that looks for dead ones, an hour later.

    two mutes of one job at once     the later write counts, and both acts are there
    a mute and an unmute at once     the later write counts
    a lost reply                     it raises Unavailable: the mute may be there or not, and may be written again
    a mute beside that deletion      what was read is deleted, and nothing newer
    a mute of a job that is          `forget` deletes it with the entry; one that comes later is deleted once it is over
    forgotten at the same time
    rules that don't know it         they deny it, and that is an error: nobody is muted
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from firecron.base.instants import aware_milliseconds, number, to_text
from firecron.base.texts import plain
from firecron.errors import ConfigurationError, Denied
from firecron.lock.audit_log import AuditLog
from firecron.lock.database import Database
from firecron.lock.fields import reason
from firecron.ops.views import claimed_user
from firecron.store import check_name


@dataclass(frozen=True, slots=True)
class Mute:
    """Until when nobody is to be told of a job, who asked for it, and why. Texts are safe to print."""

    until: int
    by: str
    why: str | None

    def to_json(self) -> dict[str, object]:
        """Return the mute for programs."""
        return {"until": to_text(self.until), "by": self.by, "why": self.why}

    def __str__(self) -> str:
        return f"muted by {self.by} until {to_text(self.until)}{'' if self.why is None else f' ({self.why})'}"


def read_mutes(node: object) -> dict[str, Mute]:
    """Return what `cron-mutes` says, by the names of the jobs, also of mutes that are over."""
    found = node if isinstance(node, Mapping) else {}
    mutes = ((str(name), _read_mute(child)) for name, child in found.items())
    return {name: mute for name, mute in mutes if mute is not None}


def _read_mute(node: object) -> Mute | None:
    until = number(node.get("until")) if isinstance(node, Mapping) else None
    if until is None or not isinstance(node, Mapping):
        return None
    by, why = node.get("by"), node.get("why")
    return Mute(
        until, plain(by) if isinstance(by, str) else "an operator", plain(why) if isinstance(why, str) else None
    )


class Mutes:
    """Mutes the jobs of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def mute(self, name: str, until: datetime, why: str, *, by: str | None = None) -> Mute:
        """Let nobody be told of this job until then. It replaces an earlier mute. Raise StoreError if that fails.

        Raise ConfigurationError if `until` is over, or there is no reason.
        """
        if not (reason(why) or "").strip():
            raise ConfigurationError("a mute needs a reason (why), for those who wonder later")
        ends, audit_log = aware_milliseconds(until, "until"), AuditLog(self._database)
        act = audit_log.act("mute", check_name(name), by or claimed_user(), why, ends)
        paths, now = self._database.paths, act.at or 0
        over = [other for other, mute in self._read().items() if mute.until <= now]
        changes: dict[str, object] = {paths.relative(paths.mute(other)): None for other in over}
        mute = {"until": ends, "by": act.who, "why": act.why}
        audit_log.write({**changes, paths.relative(paths.mute(name)): mute}, act)
        return Mute(ends, plain(act.who), None if act.why is None else plain(act.why))

    def unmute(self, name: str, why: str | None = None, *, by: str | None = None) -> bool:
        """End the mute of this job. Return False if there was none."""
        if name not in self._read():
            return False
        act = AuditLog(self._database).act("unmute", check_name(name), by or claimed_user(), why)
        AuditLog(self._database).write({self._database.paths.relative(self._database.paths.mute(name)): None}, act)
        return True

    def _read(self) -> dict[str, Mute]:
        try:
            return read_mutes(self._database.node(self._database.paths.mutes))
        except Denied as error:
            remedy = "The rules may be older than mutes: deploy those that `firecron rules` prints"
            raise Denied(f"{self._database.paths.mutes} can't be read. {error} {remedy}") from error
