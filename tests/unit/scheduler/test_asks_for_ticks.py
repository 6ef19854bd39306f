"""Who runs a tick that operators have asked for, by its slot or again: by fleets in virtual time."""

from __future__ import annotations

from typing import Any

import pytest
from tests.simulation.instance import Instance
from tests.simulation.network import Method
from tests.simulation.world import NAME, slot
from tests.unit.scheduler.asking import Bench

from firecron import Run
from firecron.base.instants import to_text
from firecron.lock.asks import VALID
from firecron.store import Snapshot


def test_the_run_of_a_later_tick_claims_nothing_for_an_ask() -> None:
    """Its claim is not another taker's, so the ask for the older tick is declined at once, while that run goes on."""
    bench = Bench("0 9 * * *")
    one, other = bench.several(2)
    one.hold(slot(60))
    one.freeze(20)
    bench.ask("slot", slot(0))
    other.crons.engine.asks.look_if_due()
    bench.world.advance(10)
    assert (bench.runs, bench.node()) == ([], None)
    [why] = bench.lapses()
    assert "is claimed already" in why


def test_a_missed_tick_is_asked_for() -> None:
    """Its run claims the tick. If it, or a later one, is claimed already, the ask is removed with that reason."""
    bench = Bench("0 9 * * *")
    one, _ = bench.several(2)
    bench.ask("slot", slot(0))
    bench.world.advance(40)
    assert [run.slot and to_text(run.slot) for run in bench.runs] == [slot(0)]
    assert bench.world.node()["slot"] == slot(0)
    bench.ask("slot", slot(0))
    bench.world.advance(40)
    assert (len(bench.runs), bench.node()) == (1, None)
    assert len(bench.lapses()) == 1
    assert one.world.node()["outcome"] == "succeeded"


def test_an_ask_is_taken_for_its_own_tick() -> None:
    """A run that died before that tick is rerun first. Until then nobody has taken the ask: if the instance dies in the
    rerun, another one does.
    """
    bench = Bench("0 9 * * *", on_abandoned="rerun")
    (one,) = bench.several(1)
    yesterday, asks = slot(-86_400), list[Any]()
    bench.world.put({"expiresAt": 1, "acquiredAt": 1, "holder": "h", "slot": yesterday, "unfinished": yesterday})
    ask = bench.ask("slot", slot(0))

    def body(run: Run) -> None:
        bench.world.advance(1)
        asks.append(bench.node())

    bench.body = body
    one.crons.engine.asks.look_if_due()
    bench.world.advance(3)
    assert [run.slot and to_text(run.slot) for run in bench.runs] == [yesterday, slot(0)]
    assert (asks[0], bench.node()) == (ask.to_node(), None)


@pytest.mark.parametrize("overlap", ["skip", "allow"])
def test_a_second_taker_of_a_tick_leaves_the_ask_to_a_slow_first(overlap: str) -> None:
    """It hears that the tick is claimed before the first taker has taken the ask, whose run begins all the same."""
    bench = Bench("0 9 * * *", overlap=overlap)
    slowed: list[str] = []

    def slow(one: Instance) -> None:
        def before(method: Method, path: str) -> None:
            if path.startswith("cron-asks") and method == "swap" and not slowed:
                slowed.append(path)
                bench.world.advance(12)

        one.network.before = before

    for one in bench.several(2, hears=True):
        slow(one)
    bench.ask("slot", slot(0))
    bench.world.advance(60)
    assert slowed
    assert [run.slot and to_text(run.slot) for run in bench.runs] == [slot(0)]
    assert (bench.node(), bench.lapses()) == (None, [])


@pytest.mark.parametrize("overlap", ["skip", "allow"])
def test_a_tick_that_was_claimed_for_an_ask_of_another_taker_is_interrupted(overlap: str) -> None:
    """The claim stands, so the tick is unfinished, and its lock is free at once. Without a lease it was free before."""
    bench = Bench("0 9 * * *", overlap=overlap)
    (one,) = bench.several(1)

    def lose(method: Method, path: str) -> None:
        if method == "swap" and path.startswith("cron-asks"):
            one.network.before = lambda method, path: None
            bench.world.store.set(f"{path}/takenBy", "another's")

    one.network.before = lose
    bench.ask("slot", slot(0))
    bench.world.advance(32)
    assert (bench.runs, bench.node()["takenBy"]) == ([], "another's")
    node = bench.world.node()
    left = {name: node.get(name) for name in ("slot", "unfinished", "outcome")}
    unfinished = {"unfinished": slot(0), "outcome": "interrupted"} if overlap == "skip" else {}
    assert left == {"slot": slot(0), "unfinished": None, "outcome": None, **unfinished}
    assert (node["releasedAt"], one.said("lock.lost")) == (node["expiresAt"], [])


@pytest.mark.parametrize("overlap", ["skip", "allow"])
def test_the_ask_for_a_tick_whose_claimer_died_has_a_reason(overlap: str) -> None:
    """With a lease it is declined as soon as that is over, else at its end, and the reason says what to do."""
    bench = Bench("0 9 * * *", overlap=overlap)
    one, other = bench.several(2)
    swap = one.network.swap

    def dies(path: str, etag: str, node: dict[str, object] | None, deadline: Any) -> str | Snapshot:
        answer = swap(path, etag, node, deadline)
        if path.startswith("cron-locks"):
            one.crash()
            bench.world.advance(10**9)
        return answer

    one.network.swap = dies  # type: ignore[method-assign]  # as the wire
    other.freeze(40)
    bench.ask("slot", slot(0))
    bench.world.advance(90 if overlap == "skip" else VALID / 1000 + 60)
    assert (bench.runs, bench.node()) == ([], None)
    again = f"firecron ask {NAME} --resume {slot(0)} asks for another attempt"
    claimed = f"{slot(0)} was claimed by an instance that died, or gave it up: {again}"
    assert bench.lapses() == [claimed if overlap == "skip" else f"{slot(0)}, or a later tick, was claimed before"]


def test_a_failed_tick_is_asked_for_again() -> None:
    """It is its next attempt. One that has succeeded is not run again, and the reason is told."""
    bench = Bench("0 9 * * *")
    bench.several(2)
    bench.body = lambda run: 1 / 0
    bench.ask("slot", slot(0))
    bench.world.advance(40)
    bench.body = lambda run: None
    bench.ask("resume", slot(0))
    bench.world.advance(40)
    assert [(run.slot and to_text(run.slot), run.attempt) for run in bench.runs] == [(slot(0), 1), (slot(0), 2)]
    bench.ask("resume", slot(0))
    bench.world.advance(40)
    assert (len(bench.runs), bench.node()) == (2, None)
    assert "has succeeded" in bench.lapses()[0]
