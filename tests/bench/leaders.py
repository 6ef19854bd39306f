"""What 200 followers of a leader ask and hear: in an idle hour, and at handovers. Virtual time, real decisions.

The fleet is that of `tests/simulation/followers.py`: each instance has its own candidate and tickets, and a request
takes 10 to 40 ms. What a follower hears is counted as RTDB sends it: an event with the changed value, and a keep-alive
every 30 s. HTTP and TLS come on top.

An ask is a try of a follower, with its requests. Those of a handover are made by followers who have not heard of the
next leader yet; whoever knows that somebody leads asks now and then (the idle hour), and that is not counted there.

    python tests/bench/leaders.py [--followers 200] [--seed 1] [--handovers 60]
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from pathlib import Path
from statistics import median

import goals

sys.path.append(str(Path(__file__).parents[2]))
from tests.simulation.followers import HEARTBEAT, KEEP_ALIVE, MARGIN, TTL, Fleet, Handover, How

HOUR = 3_600
IDLE = 1_200


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--followers", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--handovers", type=int, default=60)
    given = parser.parse_args()
    random.seed(given.seed)
    fleet = Fleet(given.followers + 1, given.seed)
    fleet.pass_by(4 * HEARTBEAT / 1000)
    print(f"{given.followers} followers, of whom {fleet.near} follow the node (seed {given.seed})")
    idle(fleet, given.followers)
    for how in ("stop", "kill"):
        report(how, [hand_over(fleet, how) for _ in range(given.handovers)])


def idle(fleet: Fleet, followers: int) -> None:
    """Count what an hour costs in which nothing happens."""
    fleet.reset()
    fleet.pass_by(IDLE)
    an_hour = HOUR / IDLE
    asked = sum(ask.requests for ask in fleet.asks)
    keep_alives = followers * IDLE / 30 * KEEP_ALIVE
    for what, number in (
        ("requests", fleet.store.requests),
        ("of them by followers", asked),
        ("kB of requests", fleet.store.bytes / 1000),
        ("streams opened", fleet.opened),
        ("kB of events", fleet.heard / 1000),
        ("kB of keep-alives", keep_alives / 1000),
    ):
        print(f"an idle hour: {number * an_hour:.0f} {what}")
    told = (fleet.heard + keep_alives) * 24 * an_hour / 1e6
    goals.at_most(f"events and keep-alives of {followers} followers", told, 120, "MB a day")
    goals.at_most(f"requests of {followers} idle followers", asked * an_hour, 5_000, "an hour")


def hand_over(fleet: Fleet, how: How) -> Handover:
    """Have the leader replaced by a new instance, and wait until all know the group's size."""
    one = fleet.hand_over(how)
    fleet.join()
    fleet.pass_by(2.5 * HEARTBEAT / 1000)
    return one


def report(how: How, taken: list[Handover]) -> None:
    asks, what = [one.asks for one in taken], {"stop": "a clean stop", "kill": "a kill"}[how]
    leaderless = [one.leaderless for one in taken]
    print(f"{len(taken)} handovers after {what}:")
    print("  asks:", ", ".join(f"{number} in {times}" for number, times in sorted(Counter(asks).items())))
    print(f"  requests of them: {median(one.requests for one in taken):.0f} in the median")
    print(f"  without a leader: {median(leaderless):.0f} ms in the median, {max(leaderless):.0f} ms at most")
    goals.at_most(f"asks after {what}, median", median(asks), 3, "asks")
    goals.at_most(f"asks after {what}, most", max(asks), 12, "asks")
    bound = 1_000 if how == "stop" else TTL + MARGIN + 1_000
    goals.at_most(f"without a leader after {what}, most", max(leaderless), bound, "ms")


if __name__ == "__main__":
    main()
