"""The trail: writes pauses, and an entry in `cron-acts` for each act of an operator.

A pause and its end are one write with their entry: both are there, or none. Any other act is recorded after it was
done. An entry that can't be written undoes nothing: a WARNING, `act.failed`, says so. So where the rules are older than
acts, a pause is written without its entry.

    two acts at the same time     both are there; the second may leave one more than are kept, and the next act prunes
    a pause and a claim           the claim's compare-and-swap fails, or comes first, and the run goes on to its end
    a pause and a resume          the later write counts: each replaces all fields of a pause at once
    no reply to a pause           it raises Unavailable: it may be written, with its entry, or not
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable

from firecron.base.clocks import Deadline
from firecron.base.events import Events
from firecron.base.instants import to_text
from firecron.base.server_clock import ServerClock
from firecron.errors import ConfigurationError, Denied, StoreError
from firecron.lock.acts import Act, Deed, make_act, said_by, surplus
from firecron.lock.names import check_name
from firecron.lock.pauses import PAUSE_FIELDS
from firecron.store import Paths, Store


class Trail:
    """Writes pauses and acts. `deadline` makes the deadline of a request."""

    def __init__(
        self, store: Store, paths: Paths, clock: ServerClock, events: Events, deadline: Callable[[], Deadline]
    ) -> None:
        self._store = store
        self._paths = paths
        self._clock = clock
        self._events = events
        self._deadline = deadline

    def pause(self, name: str, by: str, why: str | None = None, until: int | None = None) -> None:
        """Pause a lock until it is resumed, or until this instant of RTDB's clock. It replaces an earlier pause.

        Raise ConfigurationError if the instant is over, and StoreError if the pause can't be written.
        """
        act = self._act("pause", name, by, why)
        assert act.at is not None, "an act that is made has its time"
        if until is not None and until <= act.at:
            raise ConfigurationError(f"until={to_text(until)} is over already: RTDB's time is {to_text(act.at)}")
        pause = (True, act.who, act.at, act.why, until)
        self._write(dict(zip(PAUSE_FIELDS, pause, strict=True)), act)

    def resume(self, name: str, by: str, why: str | None = None) -> None:
        """End the pause of a lock. Raise StoreError if that can't be written."""
        act = self._act("resume", name, by, why)
        self._write({**dict.fromkeys(PAUSE_FIELDS), "resumedAt": act.at}, act)

    def record(self, deed: Deed, name: str, by: str, why: str | None = None) -> bool:
        """Record what was done. Return False, after a WARNING, if that fails."""
        try:
            act = self._act(deed, name, by, why)
            self._store.merge(self._paths.prefix, self._entry(act), self._deadline())
        except StoreError as error:
            self._tell(deed, name, by, error)
            return False
        return True

    def _act(self, deed: Deed, name: str, by: str, why: str | None) -> Act:
        check_name(name)
        now = self._clock.now(self._deadline()).server
        return make_act(deed, name, by, now, why, secrets.token_hex(3))

    def _write(self, fields: dict[str, object], act: Act) -> None:
        lock = self._paths.relative(self._paths.lock(act.name))
        changes = {f"{lock}/{field}": value for field, value in fields.items()}
        try:
            self._store.merge(self._paths.prefix, {**changes, **self._entry(act)}, self._deadline())
        except Denied as error:
            self._store.merge(self._paths.prefix, changes, self._deadline())
            self._tell(act.act, act.name, act.who, error)

    def _entry(self, act: Act) -> dict[str, object]:
        """Return the changes, as seen from the prefix, that write an act and prune the oldest."""
        acts = self._paths.relative(self._paths.acts)
        old = surplus(self._store.keys(self._paths.acts, self._deadline()))
        return {**{f"{acts}/{key}": None for key in old}, f"{acts}/{act.key}": act.to_node()}

    def _tell(self, deed: str, name: str, by: str, error: StoreError) -> None:
        message = f'The {deed} of "{name}" by {said_by(by)} is done, but is not among the acts: {error}'
        self._events.emit("act.failed", name, logging.WARNING, message, act=deed, who=said_by(by), why=str(error))
