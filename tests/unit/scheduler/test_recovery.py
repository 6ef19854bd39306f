"""Rounds: what the look for left-overs costs, and that it keeps to its time and ends where the database does."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.simulation.fleet import Fleet
from tests.simulation.instance import Instance
from tests.simulation.world import START, World, slot

from firecron import Run, Unavailable, distributed_cron
from firecron.base.clocks import Deadline
from firecron.errors import Denied
from firecron.scheduler.recovery import FEW, MOST_AT_ONCE

MIDNIGHT = slot(-9 * 3_600)


class Many:
    """An instance with so many jobs, each of which may have died in its run of last midnight."""

    def __init__(self, number: int, recovery_interval: float = 300) -> None:
        self.world = World()
        self.runs: list[str] = []

        def job(name: str) -> object:
            @distributed_cron(name, "0 0 * * *", lock_ttl=30, on_abandoned="rerun")
            def work(run: Run) -> None:
                self.runs.append(name)

            return work

        self.names = [f"job-{index:04}" for index in range(number)]
        self.one = Instance(self.world, *map(job, self.names), recovery_interval=recovery_interval).live()
        # The looks for late jobs read the locks, too.
        self.one.crons.engine.lateness.evaluator = None

    def die(self, *names: str) -> None:
        for name in names:
            died = {"slot": MIDNIGHT, "unfinished": MIDNIGHT, "holder": "dead", "expiresAt": START - 60_000}
            self.world.put(died, name)

    def read(self) -> list[str]:
        """The names of the locks that were asked for since the last call; "" for all at once."""
        calls, self.one.network.calls = self.one.network.calls, []
        return [path.removeprefix("cron-locks").removeprefix("/") for _, path in calls if path.startswith("cron-locks")]


def round_of(many: Many) -> int:
    """One round, without the turns that it leads to; its requests."""
    many.one.crew.is_dead = True
    assert many.one.crons.engine.recovery.make(many.one.locks.deadline(20))
    return len(many.read())


@pytest.mark.parametrize(
    ("jobs", "nodes", "others", "requests"),
    [
        (1, 0, 0, 1),
        (FEW, 3, 100, FEW),
        # Which nodes there are, and all of them.
        (FEW + 1, 0, 100, 1),
        (FEW + 1, FEW + 1, 0, 2),
        (1_000, 1_000, 1_000, 2),
        (MOST_AT_ONCE, MOST_AT_ONCE, 0, 2),
        # Most are somebody else's, or there are too many: those that are there, one by one.
        (20, 5, 6, 1 + 5),
        (20, 20, 21, 1 + 20),
        (MOST_AT_ONCE + 1, MOST_AT_ONCE + 1, 0, 1 + MOST_AT_ONCE + 1),
    ],
)
def test_a_round_takes_few_requests(jobs: int, nodes: int, others: int, requests: int) -> None:
    """Few jobs are read one by one, many in two requests, and never more of others' than of one's own."""
    many = Many(jobs)
    many.die(*many.names[:nodes])
    for index in range(others):
        many.world.put({"fence": 7, "expiresAt": 0}, f"other-{index}")
    assert round_of(many) == requests


@pytest.mark.parametrize("number", [3, FEW + 5])
def test_a_round_finds_all_that_is_left(number: int) -> None:
    """Read alone or together, each job whose run died is run again, and no other."""
    many = Many(number)
    many.die(*many.names[1:])
    many.world.put({"holder": 3}, many.names[0])  # which nobody understands
    many.one.start()
    assert sorted(many.runs) == many.names[1:]


@pytest.mark.parametrize(
    ("number", "first", "then"),
    [
        (FEW, [f"job-{index:04}" for index in range(4)], [f"job-{index:04}" for index in range(3, FEW)]),
        (FEW + 1, [""], [""]),
    ],
)
def test_a_round_ends_where_the_database_does(number: int, first: list[str], then: list[str]) -> None:
    """At the first request that fails the round ends, and the next beat goes on there, and then there is no more."""
    many = Many(number, recovery_interval=80_000)
    network = many.one.network
    network.before = lambda method, path: setattr(network, "is_down", path in ("cron-locks", "cron-locks/job-0003"))
    many.one.start()
    assert many.read() == first
    assert [str(event.fields["why"]).count("next beat") for event in many.one.said("heartbeat.failed")] == [1]
    network.before = lambda method, path: None
    network.is_down = False
    many.world.until(100)
    assert many.read() == then


def test_without_the_database_a_round_is_not_begun() -> None:
    """A beat that gets no answer is the only request of its period, however many jobs there are."""
    many = Many(FEW)
    many.one.network.is_down = True
    many.one.start()
    many.one.network.requests()
    many.one.crons.engine.heartbeat.work()
    assert many.one.network.requests() == ["merge"]
    many.one.network.is_down = False
    many.die(*many.names)
    many.world.until(65)
    assert sorted(many.runs) == many.names


def test_slow_rounds_put_off_no_beat() -> None:
    """Reads of five seconds each: beats come every thirty seconds nevertheless, and all jobs are looked at, once."""
    many = Many(FEW, recovery_interval=80_000)
    beats: list[float] = []

    def slowly(method: str, path: str) -> None:
        if path.startswith("cron-instances/") and method == "merge":
            beats.append(many.world.mono() / 1000)
        if path.startswith("cron-locks/"):
            many.world.skip_to(many.world.mono() + 5_000)

    many.one.network.before = slowly
    many.one.start()
    many.world.until(100)
    assert beats == [0, 30, 60, 90]
    assert many.read() == many.names


@pytest.fixture(params=["cron-locks", "cron-locks/job-0002"])
def denied(request: pytest.FixtureRequest) -> str:
    """What the rules refuse to be read: all locks in one answer, or a single one."""
    return str(request.param)


def test_what_is_denied_is_looked_at_otherwise_or_left_out(denied: str) -> None:
    """Rules that refuse the whole leave one by one, and rules that refuse one job's node leave the others."""
    many = Many(FEW + 1 if denied == "cron-locks" else FEW)
    many.die(*many.names)

    def refuse(method: str, path: str) -> None:
        if path == denied and method in ("read", "keys"):
            raise Denied

    many.one.network.before = refuse
    many.one.start()
    left_out = [] if denied == "cron-locks" else ["job-0002"]
    assert sorted([*many.runs, *left_out]) == many.names


def test_a_stop_ends_a_round() -> None:
    """Once the instance stops, a round that is under way reads no more."""
    many = Many(FEW)
    many.die(*many.names)

    def stop(method: str, path: str) -> None:
        if path.endswith("-0004"):
            many.one.runner.stopping.set()

    many.one.network.before = stop
    assert round_of(many) == 5


def test_a_round_that_fails_raises_what_the_store_said() -> None:
    """What goes wrong is for the caller to say: it knows when it will go on."""
    many = Many(1)
    many.one.network.is_down = True
    with pytest.raises(Unavailable):
        many.one.crons.engine.recovery.make(many.one.locks.deadline(20))


@pytest.mark.parametrize(("number", "requests"), [(1, 1), (FEW + 1, 2)])
def test_i15_a_rounds_requests_have_their_own_deadline(
    number: int, requests: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each request of a round may take as long as one request may, and not as long as the round."""
    many = Many(number)
    many.die(*many.names)
    left: list[float] = []

    def timed(plain: Callable[[str, Deadline], object]) -> Callable[[str, Deadline], object]:
        def call(path: str, deadline: Deadline) -> object:
            left.append(deadline.remaining())
            return plain(path, deadline)

        return call

    for name in ("read", "keys"):
        monkeypatch.setattr(many.one.network, name, timed(getattr(many.one.network, name)))
    many.one.crons.engine.recovery.make(many.one.locks.deadline(20))
    assert left == [3.0] * requests


def test_a_stop_forgets_the_rest_of_a_round() -> None:
    """A round that a stop left half done begins anew after the next start, with the jobs of then."""
    many = Many(3)
    rounds = many.one.crons.engine.recovery
    many.one.network.before = lambda method, path: setattr(many.one.network, "is_down", path.endswith("-0001"))
    with pytest.raises(Unavailable):
        rounds.make(many.one.locks.deadline(20))
    many.one.network.before = lambda method, path: None
    many.one.network.is_down = False
    many.one.crons.registry.remove("job-0002")
    rounds.forget()
    many.read()
    assert rounds.make(many.one.locks.deadline(20))
    assert many.read() == ["job-0000", "job-0001"]


def test_missed_ticks_of_a_job_that_skips_them_cost_no_turn() -> None:
    """A job that only reruns has missed ticks as well: a round reads its record, and asks for nothing more."""
    many = Many(1)
    ended = {
        "slot": slot(-3 * 86_400),
        "holder": "done",
        "expiresAt": START - 2 * 86_400_000,
        "releasedAt": START - 2 * 86_400_000,
    }
    many.world.put(ended, many.names[0])
    assert many.one.crons.engine.recovery.make(many.one.locks.deadline(20))
    many.world.advance(0)
    assert many.read() == many.names


def test_i31_a_round_that_finds_a_lock_denied_says_so() -> None:
    """A dead run whose lock the rules no longer let be written is said once by the turn that wants to take it over."""
    many = Many(1)
    many.die(*many.names)

    def refuse(method: str, path: str) -> None:
        if method == "swap":
            raise Denied

    many.one.network.before = refuse
    many.one.start()
    assert [event.fields["reason"] for event in many.one.said("lock.refused")] == ["denied"]


BEGAN = {"slot": MIDNIGHT, "unfinished": MIDNIGHT, "holder": "another", "acquiredAt": START - 32_400_000}
ENDED = {"slot": MIDNIGHT, "holder": "another", "acquiredAt": START - 32_400_000, "releasedAt": START - 32_000_000}
LAST_WEEK = {**ENDED, "slot": slot(-9 * 3_600 - 7 * 86_400), "acquiredAt": 1, "releasedAt": 2}


@pytest.mark.parametrize(
    ("options", "node", "turns", "looks"),
    [
        ({"on_abandoned": "rerun"}, {**BEGAN, "expiresAt": START + 30_000}, 0, [START + 31_000]),
        ({"on_abandoned": "rerun"}, {**BEGAN, "expiresAt": START - 999}, 0, [START + 1]),
        ({"on_abandoned": "rerun"}, {**BEGAN, "expiresAt": START - 1_000}, 1, []),
        ({"on_abandoned": "rerun"}, {**LAST_WEEK, "expiresAt": 2}, 0, []),
        ({"catch_up": "once"}, {**BEGAN, "expiresAt": START + 30_000}, 0, []),
        ({"catch_up": "once"}, {**ENDED, "expiresAt": START - 32_000_000}, 0, []),
        ({"catch_up": "once"}, {**LAST_WEEK, "expiresAt": 2}, 1, []),
    ],
)
def test_what_is_found_is_dealt_with(
    options: dict[str, object], node: dict[str, object], turns: int, looks: list[int]
) -> None:
    """A run that died and a tick that was missed get a turn at once, a run that is under way a look when its lock
    expires, for jobs that want it.
    """
    one = Fleet("0 0 * * *", **options).instance()
    one.world.put(node)
    taken, called = stubbed(one)
    rounds = one.crons.engine.recovery
    assert rounds.make(one.locks.deadline(10))
    assert (len(taken), [instant for instant, _ in called]) == (turns, looks)


def stubbed(one: Instance) -> tuple[list[str], list[tuple[int, Callable[[], None]]]]:
    """The names of the jobs whose turns its rounds take, and what they have called later; neither happens."""
    taken: list[str] = []
    called: list[tuple[int, Callable[[], None]]] = []
    lanes, ticker = one.crons.engine.lanes, one.crons.engine.ticker
    lanes.stand = lambda attempt: taken.append(attempt.job.name)  # type: ignore[method-assign]  # noted, not done
    ticker.at = lambda instant, call: called.append((instant, call))  # type: ignore[method-assign]  # noted, not done
    return taken, called


def test_a_lock_is_looked_at_once_when_it_expires() -> None:
    """However many saw a lock, there is one look; after it, or a stop, there may be another."""
    one = Fleet(on_abandoned="rerun").instance()
    taken, called = stubbed(one)
    lanes, job = one.crons.engine.lanes, one.job()
    for count in (1, 2):
        for _ in range(2):
            lanes.look_again(job, START + 5)
        assert len(called) == count
        called[-1][1]()
        assert len(taken) == count
    lanes.look_again(job, START + 5)
    lanes.clear()
    lanes.look_again(job, START + 5)
    assert len(called) == 4
    for _, call in called[-2:]:
        call()
    assert len(taken) == 3


def test_a_round_ends_with_its_time() -> None:
    """Without time left, or RTDB's time, nothing is read, and the round is not over."""
    many = Many(2)
    rounds = many.one.crons.engine.recovery
    assert not rounds.make(many.one.locks.deadline(0))
    many.one.timing.step_wall(3_600)
    assert not rounds.make(many.one.locks.deadline(10))
    assert many.read() == []


def test_a_round_is_over_when_all_jobs_were_looked_at() -> None:
    """A round that had too little time is gone on with at the next call, and only then is another one far off."""
    many = Many(3, recovery_interval=100)
    many.read()
    rounds = many.one.crons.engine.recovery
    rounds.start()
    now = many.one.timing.mono
    assert not rounds.make_if_due(now())
    assert many.read() == []
    assert rounds.make_if_due(now() + 5_000)
    assert many.read() == many.names
    assert rounds.due == now() + 100_000
    assert not rounds.make_if_due(now() + 5_000)


def test_locks_that_are_gone_meanwhile_leave_nothing() -> None:
    """Where all nodes are deleted between the two requests of a round, there is nothing to do."""
    many = Many(FEW + 1)
    many.die(*many.names)

    def delete(method: str, path: str) -> None:
        if method == "read":
            many.world.store.set("cron-locks", None)

    many.one.network.before = delete
    assert round_of(many) == 2
    assert many.runs == []
