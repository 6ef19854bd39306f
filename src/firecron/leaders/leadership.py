"""Leadership: what a program asks about a leader, and how it steps down."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from firecron.base.durations import Duration, milliseconds
from firecron.base.exact import whole
from firecron.base.instants import to_datetime
from firecron.leaders.office import Office
from firecron.lock.record import LockRecord, parse
from firecron.lock.service import LockService


@dataclass(frozen=True, slots=True)
class Holder:
    """The instance that leads, as the database shows it.

    Args:
        instance_id: Its revision.
        instance: Which instance of the revision it is.
        fence: The fence of its term.
        since: When it was elected, in RTDB's time.
        until: When its node expires unless it is renewed, in RTDB's time.
    """

    instance_id: str | None
    instance: str | None
    fence: int | None
    since: datetime | None
    until: datetime


class Leadership:
    """One leader, as this instance sees it: `crons.leadership(name)` returns it."""

    def __init__(self, office: Office, locks: LockService) -> None:
        self._office = office
        self._locks = locks

    @property
    def name(self) -> str:
        """The leader's name."""
        return self._office.leader.name

    @property
    def is_mine(self) -> bool:
        """Whether this instance leads. It asks nobody, and is never true on two instances.

        It is false from a margin before the lease ends, once the release has begun, and in a forked child.
        """
        return self._office.candidate.is_mine

    def holder(self) -> Holder | None:
        """Return which instance leads, None if none does: one request, and one more if RTDB's time is not known.

        Raise StoreError if the database can't be reached or refuses, and Malformed if the node can't be read.
        """
        node = self._locks.read(self.name)
        now = self._locks.clock.now(self._locks.deadline(self._locks.settings.request_timeout)).server
        record = parse(node, now)
        if not isinstance(record, LockRecord) or not record.is_live(now, self._locks.settings.margin_ms):
            return None
        return Holder(
            record.instanceId,
            record.instance,
            None if record.fence is None else whole(record.fence),
            None if record.acquiredAt is None else to_datetime(whole(record.acquiredAt)),
            to_datetime(whole(record.expiresAt)),
        )

    def step_down(self, away_for: Duration = 30) -> bool:
        """Tell the body that its term is to end. Return False if this instance doesn't lead, or was told before.

        This returns at once. The term is released when the body has ended.

        Args:
            away_for: How long this instance doesn't stand after that.
        """
        away = milliseconds(away_for, "away_for")
        return self._office.candidate.tell("it stepped down", away_for=away)
