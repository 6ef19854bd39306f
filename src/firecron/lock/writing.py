"""Writes that a lease protects: on a node beside the lock, for as long as the lease is trusted.

They are repeated as a renewal is: after a failure comes a pause that grows, and lasts as long as the server asks for,
within a third of the time that the lease has left. So a database that asks for more than that gets a few requests a
lease.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TypeVar

from firecron.base.backoff import pause_within
from firecron.errors import Denied, LeaseLost, Unavailable
from firecron.lock.lease import Lease
from firecron.lock.protocol import Exchange
from firecron.lock.record import Lost

T = TypeVar("T")


def write_under(lease: Lease, exchange: Callable[[], Exchange[T | Lost]], path: str) -> T:
    """Make an exchange on a node that is written under this lease, and again while the database doesn't answer.

    Raise LeaseLost once the lease is over, also if another holder has the node. Raise Denied if the rules refuse
    it although the lock is still held. Each round calls `exchange` anew.
    """
    timing, failures = lease.driver.timing, 0
    while not lease.lost:
        deadline = lease.driver.deadline((lease.ends - timing.mono()) / 1000)
        try:
            try:
                answer = lease.driver.run(exchange(), path, deadline, lease.ends)
            except Denied:
                # The rules refuse the writes of a holder that has lost its lock, before the holder knows.
                if lease.renew():
                    raise
                continue
        except Unavailable as error:
            # The lease may be renewed meanwhile.
            failures += 1
            left = max(0.0, (lease.ends - timing.mono()) / 1000)
            timing.sleep(min(left, pause_within(left, error, failures, random.random())))
        else:
            match answer:
                case Lost(why):
                    lease.lose(why)
                case found:
                    return found
    raise LeaseLost
