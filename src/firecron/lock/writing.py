"""Writes that a lease protects: on a node beside the lock, for as long as the lease is trusted."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from firecron.errors import Denied, LeaseLost, Unavailable
from firecron.lock.lease import Lease
from firecron.lock.protocol import Exchange
from firecron.lock.record import Lost

T = TypeVar("T")
# Seconds between two rounds of an exchange whose deadline has passed.
_ROUND = 0.05


def write_under(lease: Lease, exchange: Callable[[], Exchange[T | Lost]], path: str) -> T:
    """Make an exchange on a node that is written under this lease, and again while the database doesn't answer.

    Raise LeaseLost once the lease is over, also if another holder has the node. Raise Denied if the rules refuse
    it although the lock is still held. Each round calls `exchange` anew.
    """
    timing = lease.driver.timing
    while not lease.lost:
        deadline = lease.driver.deadline((lease.ends - timing.mono()) / 1000)
        try:
            answer = lease.driver.run(exchange(), path, deadline, lease.ends)
        except Denied:
            # The rules refuse the writes of a holder that has lost its lock, before the holder knows.
            if lease.renew():
                raise
        except Unavailable:
            # The lease may have been renewed meanwhile.
            timing.sleep(min(_ROUND, max(0.0, (lease.ends - timing.mono()) / 1000)))
        else:
            match answer:
                case Lost(why):
                    lease.lose(why)
                case found:
                    return found
    raise LeaseLost
