"""The term of a lease, as its holder counts it: on the monotonic clock, from the reading that made its `expiresAt`.

The term says when the holder stops trusting its lease. The record says when others may take the lock.
"""

from __future__ import annotations

from dataclasses import dataclass

from firecron.base.clocks import Moment


@dataclass(frozen=True, slots=True)
class LeaseTerm:
    """A lease as its holder sees it: the `expiresAt` that was written, and the clock reading behind it."""

    expires_at: int
    reading: Moment

    def ends(self, margin: int) -> float:
        """Return when the holder stops trusting the lease, on the monotonic clock.

        That is a margin before the lease expires. It is sooner only if the holder's clock may be wrong by more than the
        margin at that time, as at the end of a lease of hours that was never renewed.
        """
        span = self.expires_at - self.reading.server
        wrong = self.reading.uncertainty + self.reading.drift * span
        return self.reading.mono + span - max(margin, wrong)

    def is_trusted(self, mono: float, margin: int) -> bool:
        return mono < self.ends(margin)
