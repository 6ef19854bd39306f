"""Locks between real processes: races, sudden death, fork, and signals."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from tests.process.lock_children import Child, children

from rtdb_emulator.pytest_plugin import Rtdb

ROUNDS = 50


def node(rtdb: Rtdb, name: str) -> dict[str, Any]:
    found = rtdb.get(f"/cron-locks/{name}")
    assert isinstance(found, dict), found
    return found


@pytest.fixture
def pair(rtdb: Rtdb) -> Iterator[list[Child]]:
    with children(2) as both:
        yield both


@pytest.fixture
def child(rtdb: Rtdb) -> Iterator[Child]:
    with children(1) as [only]:
        yield only


def test_of_two_processes_one_wins_a_node_that_is_not_there(rtdb: Rtdb, pair: list[Child]) -> None:
    """When both have seen the lock free and both write, exactly one has it, in each of fifty rounds."""
    for number in range(ROUNDS):
        name = f"round-{number}"
        with ExitStack() as ending:
            # A barrier in the server: both writes are there before either is done.
            holds = [ending.enter_context(rtdb.faults.hold(path=f"/cron-locks/{name}", method="PUT")) for _ in pair]
            for contender in pair:
                contender.tell("acquire", name=name, ttl=60)
            for hold in holds:
                hold.wait(40)
        answers = [contender.hear() for contender in pair]
        [winner] = [index for index, answer in enumerate(answers) if "holder" in answer]
        assert answers[1 - winner] == {"reason": "held"}
        assert node(rtdb, name)["holder"] == answers[winner]["holder"]
        assert pair[winner].ask("release", name=name) == {"released": True}
        assert rtdb.get(f"/cron-locks/{name}") is None
    assert rtdb.count(method="PUT", path="/cron-locks/*") == 2 * ROUNDS


def test_a_killed_holders_lock_goes_to_another_when_it_expires(rtdb: Rtdb, pair: list[Child]) -> None:
    """After SIGKILL nobody renews; who waits for the lock has it at its expiry plus the margin, and not before."""
    dying, heir = pair
    renewal = rtdb.faults.hold(path="/cron-locks/job", method="PUT", moment="after", nth=2)
    holder = dying.ask("hold", name="job", ttl=3)["holder"]
    renewal.wait(40)
    dying.process.kill()
    dying.process.wait()
    renewal.release()
    last = node(rtdb, "job")
    assert last["holder"] == holder
    inherited = heir.ask("acquire", name="job", ttl=60, wait=30)
    now = node(rtdb, "job")
    assert now["holder"] == inherited["holder"] != holder
    assert now["acquiredAt"] >= last["expiresAt"] + 500


def test_a_fork_leaves_the_lease_to_the_parent(rtdb: Rtdb, child: Child) -> None:
    """In a forked child the parent's lease is over, and locks of its own are its; the parent's goes on undisturbed."""
    holder = child.ask("hold", name="parents", ttl=6)["holder"]
    child.ask("fork")
    forked = child.forked
    assert forked.ask("look", name="parents") == {"lost": True}
    assert forked.ask("release", name="parents") == {"released": False}
    assert node(rtdb, "parents")["holder"] == holder
    own = forked.ask("hold", name="childs", ttl=6)["holder"]
    assert own != holder
    assert forked.ask("acquire", name="parents", ttl=6) == {"reason": "held"}
    before = {name: node(rtdb, name)["expiresAt"] for name in ("parents", "childs")}
    renewals = {name: rtdb.faults.hold(path=f"/cron-locks/{name}", method="PUT", moment="after") for name in before}
    for name, renewal in renewals.items():
        renewal.wait(40)
        renewal.release()
        assert node(rtdb, name)["expiresAt"] > before[name]
    assert child.ask("look", name="parents") == {"lost": False}
    assert forked.ask("release", name="childs") == {"released": True}
    assert child.ask("release", name="parents") == {"released": True}
    assert rtdb.get("/cron-locks") is None


def test_a_forked_child_has_sockets_of_its_own(rtdb: Rtdb, child: Child) -> None:
    """While the parent's request is under way on a connection from before the fork, the child's gets its own answer."""
    child.ask("acquire", name="parents", ttl=60)
    child.ask("fork")
    hold = rtdb.faults.hold(path="/cron-locks/parents", method="DELETE")
    child.tell("release", name="parents")
    hold.wait(40)
    assert "holder" in child.forked.ask("acquire", name="childs", ttl=60)
    hold.release()
    assert child.hear() == {"released": True}
    assert rtdb.get("/cron-locks/parents") is None
    assert child.forked.ask("release", name="childs") == {"released": True}


@pytest.mark.parametrize(
    ("number", "codes"), [(signal.SIGINT, {-signal.SIGINT, 130}), (signal.SIGTERM, {143})], ids=["SIGINT", "SIGTERM"]
)
def test_a_signal_that_ends_the_block_releases_its_lock(
    rtdb: Rtdb, child: Child, number: signal.Signals, codes: set[int]
) -> None:
    """A KeyboardInterrupt, or the SystemExit of a SIGTERM handler, leaves a held block by way of its release."""
    holder = child.ask("work_under", name="job", ttl=60)["holder"]
    assert node(rtdb, "job")["holder"] == holder
    os.kill(child.process.pid, number)
    assert child.process.wait(40) in codes
    assert rtdb.get("/cron-locks/job") is None
