"""A stop closes the sockets that nobody uses, and nothing else: what still runs and who comes later opens one."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.simulation.chance import Chance
from tests.unit.threads import ended

from firecron import FireCron, Lease, Refusal, Run, distributed_cron
from firecron.settings import load
from rtdb_emulator import Emulator
from rtdb_emulator.pytest_plugin import Rtdb

LONG = 20.0
# Threads that close a socket at their end.
USERS = ("firecron-heartbeat", "firecron-worker", "firecron-stream")


def sockets(emulator: Emulator) -> int:
    """The number of connections that this process has to the emulator, which is in this process, too."""
    port = f":{int(emulator.host.rpartition(':')[2]):04X}"
    lines = [line.split() for line in Path("/proc/self/net/tcp").read_text("ascii").splitlines()[1:]]
    return sum(fields[2].endswith(port) and fields[3] == "01" for fields in lines)


def have_ended(others: set[threading.Thread]) -> bool:
    """Whether the threads that use sockets have ended, but for those of other tests."""
    return all(ended(thread) for thread in set(threading.enumerate()) - others if thread.name in USERS)


@pytest.fixture
def emulator(rtdb: Rtdb, monkeypatch: pytest.MonkeyPatch) -> Iterator[Emulator]:
    """One of its own, which no other test has connections to."""
    with Emulator() as made:
        monkeypatch.setenv("FIREBASE_DATABASE_EMULATOR_HOST", made.host)
        monkeypatch.setenv("FIRECRON_DATABASE_URL", made.database_url("rest"))
        yield made


@pytest.mark.skipif(sys.platform != "linux", reason="it asks /proc for the connections of this process")
def test_a_stop_closes_what_nobody_uses(emulator: Emulator) -> None:
    """It leaves no connection, and neither does the stop after another start."""
    others = set(threading.enumerate())

    @distributed_cron("digest", "0 9 * * *", lock_ttl=30)
    def digest() -> None: ...

    crons = FireCron(digest, enabled=True, settings=load(shutdown_grace=LONG), chance=Chance())
    for _ in range(2):
        with crons:
            emulator.set("rest", "/cron-locks/digest", None)
            assert crons.registry.trigger("digest").outcome == "succeeded"
            crons.engine.publisher.wait(LONG)
            assert sockets(emulator) >= 1
        assert have_ended(others)
        assert sockets(emulator) == 0
    crons.locks.close()


def test_a_run_that_a_stop_leaves_behind_goes_on(emulator: Emulator) -> None:
    """Its locks can be acquired, renewed and released: it opens the connections that it needs."""
    begun, may_end = threading.Event(), threading.Event()
    held: list[Lease | Refusal] = []

    @distributed_cron("digest", "0 9 * * *", lock_ttl=30)
    def digest(run: Run) -> None:
        begun.set()
        assert may_end.wait(LONG)
        held.append(crons.locks.acquire("beside", 30))

    crons = FireCron(digest, enabled=True, settings=load(shutdown_grace=0.1), chance=Chance())
    with crons:
        running = threading.Thread(target=crons.registry.trigger, args=("digest",), daemon=True)
        running.start()
        assert begun.wait(LONG)
    may_end.set()
    running.join(LONG)
    (lease,) = held
    assert isinstance(lease, Lease)
    assert lease.renew()
    assert lease.release()
    assert emulator.get("rest", "/cron-locks/digest/releasedAt") is not None
    crons.locks.close()
