"""A lease as its holder sees it: when the trust in it ends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firecron.base.clocks import Moment
from firecron.lock.record import LockRecord, Trust

NOW = 1_794_992_400_000
MARGIN = 1_000
DRIFT = 200e-6
DAY = 86_400_000


@pytest.mark.parametrize("ttl", [6_000, 60_000, 300_000, 3_600_000])
def test_a_lease_is_trusted_until_a_margin_before_it_expires(ttl: int) -> None:
    """With a clock that is right to within the margin to the very end, the trust ends at the margin, to the
    millisecond.
    """
    trust = Trust(NOW + ttl, Moment(NOW, 500.0, uncertainty=20.0, drift=DRIFT))
    assert trust.is_trusted(500.0 + ttl - MARGIN - 1, MARGIN)
    assert not trust.is_trusted(500.0 + ttl - MARGIN, MARGIN)


@given(
    ttl=st.integers(6_000, DAY),
    error=st.floats(-1, 1),
    rate=st.floats(-1, 1),
    contender=st.floats(-1, 1),
    uncertainty=st.floats(0, MARGIN),
)
def test_a_lease_of_any_length_is_over_before_anybody_takes_the_lock(
    ttl: int, error: float, rate: float, contender: float, uncertainty: float
) -> None:
    # The estimate is wrong by `error` of its uncertainty, and the clock by `rate` of the drift; it read at true time 0.
    reading = Moment(round(NOW + error * uncertainty), 0.0, uncertainty, DRIFT)
    expires_at = reading.server + ttl
    stops_at = Trust(expires_at, reading).ends(MARGIN) / (1 + rate * DRIFT)
    # By the contender's clock, which is wrong by up to the margin; half a millisecond is what rounding the reading
    # costs here.
    record = LockRecord(expiresAt=expires_at)
    assert record.is_live(int(NOW + stops_at + contender * MARGIN) - 2, MARGIN)
