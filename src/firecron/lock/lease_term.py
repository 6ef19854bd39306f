"""The term of a lease, as its holder counts it: on the monotonic clock, from the reading that made its `expiresAt`.

It says when the holder stops trusting its lease. When others may take the lock is the record's matter.
"""

from __future__ import annotations

from dataclasses import dataclass

from firecron.base.clocks import Moment


@dataclass(frozen=True, slots=True)
class LeaseTerm:
    """A lease as its holder must see it: the `expiresAt` that was written, aged from the reading that it was computed
    from.
    """

    expires_at: int
    reading: Moment

    def ends(self, margin: int) -> float:
        """When, on the monotonic clock, its holder stops trusting it.

        That is a margin before it expires; sooner only if by then the holder's clock may be wrong by more than that,
        as at the end of a lease of hours that nothing has renewed.
        """
        span = self.expires_at - self.reading.server
        wrong = self.reading.uncertainty + self.reading.drift * span
        return self.reading.mono + span - max(margin, wrong)

    def is_trusted(self, mono: float, margin: int) -> bool:
        return mono < self.ends(margin)
