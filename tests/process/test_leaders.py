"""Leaders in real processes: deaths, freezes, cuts, bodies that don't listen, and a deployment, each once.

`make leaders` plays rounds of them by a seed.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from tests.process.leader_processes import MARGIN, TTL, Fleet, cut, deploy, fleet_on, freeze, kill, terminate

from rtdb_emulator.pytest_plugin import Rtdb


@pytest.fixture
def fleet(rtdb: Rtdb) -> Iterator[Fleet]:
    with fleet_on(rtdb) as made:
        yield made


def test_i38_leaders_that_die_freeze_and_are_cut_off_never_overlap(rtdb: Rtdb) -> None:
    """One after another is killed, frozen for longer than its ttl, and cut off: no two trust, and fences rise."""
    with fleet_on(rtdb) as fleet:
        fleet.start(4)
        for fault in (kill, freeze, cut):
            fence = fleet.terms()
            fault(fleet)
            assert fleet.terms() > fence
    fleet.assert_kept()
    outcomes = {entry["outcome"] for entry in history(rtdb).values()}
    assert "abandoned" in outcomes or "lost" in outcomes


def test_i42_after_a_clean_stop_and_through_a_deployment_somebody_leads(rtdb: Rtdb) -> None:
    """A SIGTERM hands over at once, and five instances are replaced one by one without two that trust."""
    with fleet_on(rtdb) as fleet:
        fleet.start(3)
        fleet.leader()
        fence = fleet.terms()
        terminate(fleet)
        print(f"without a leader for {fleet.gap(fence) * 1000:.0f} ms after a clean stop")
        fleet.start(3)
        deploy(fleet)
    fleet.assert_kept()
    assert {entry["outcome"] for entry in history(rtdb).values()} <= {"succeeded", "interrupted"}


def test_i40_a_body_that_does_not_listen_keeps_its_process_from_a_new_term(fleet: Fleet) -> None:
    """It goes on after its term was lost, without trusting it; its process leads again only after it has ended."""
    [deaf] = fleet.start(kind="deaf")
    fleet.leader()
    fence = fleet.terms()
    deaf.wire.is_cut = True
    [other] = fleet.start()
    fleet.leader(after=fence)
    deaf.wire.is_cut = False
    fleet.until(lambda: deaf.said("ends"), "the end of the deaf body")
    assert len(deaf.said("begins")) == 1
    other.signal(signal.SIGTERM)
    fleet.until(lambda: len(deaf.said("begins")) == 2, "its next term")
    [ended] = deaf.said("ends")[:1]
    assert deaf.said("begins")[1]["at"] >= ended["at"]
    fleet.assert_kept()


def test_i41_a_body_that_raises_again_and_again_does_not_hammer(fleet: Fleet) -> None:
    """Each term is released, and the pauses between them grow."""
    [only] = fleet.start(kind="raises")
    fleet.until(lambda: len(only.said("begins")) == 3, "three terms")
    first, second, third = (line["at"] for line in only.said("begins")[:3])
    assert (second - first >= 1_000, third - second >= 1_000) == (True, True)
    fleet.start()
    assert fleet.leader(after=0) is not only


def history(rtdb: Rtdb) -> dict[str, dict[str, object]]:
    found = rtdb.get("/cron-runs/feed")
    assert isinstance(found, dict)
    return found


def test_the_numbers_of_these_tests_fit_together() -> None:
    """The ttl is six margins, as everywhere."""
    assert pytest.approx(6 * MARGIN) == TTL
