"""The steps of sync jobs: what is called, what is recorded, and what a later attempt gets."""

from __future__ import annotations

import threading

import pytest
from tests.simulation.fleet import Fleet
from tests.simulation.network import nothing
from tests.simulation.world import NAME, START, slot
from tests.unit.locks import lock_of
from tests.unit.steps.sync_jobs import Calls, steps_of
from tests.unit.threads import ended

from firecron import ConfigurationError, Denied, LeaseLost, Run
from firecron.base.flag import begin_child
from firecron.errors import Unavailable


def test_a_step_is_recorded_with_all_that_tells_whose_it_is() -> None:
    """The node has the result as a text, when it was called and done, and which claim of which instance did it."""
    fleet = Fleet()
    one = fleet.instance()

    def work() -> dict[str, object]:
        fleet.world.advance(2)
        return {"a": [], "b": None, "c": 1.0}

    def body(run: Run) -> None:
        fleet.world.advance(1)
        assert run.step("a/b", work) == {"a": [], "b": None, "c": 1.0}

    fleet.body = body
    one.turn(slot())
    (run,) = fleet.runs
    assert steps_of(fleet) == {
        "a%2Fb": {
            "result": '{"a":[],"b":null,"c":1.0}',
            "startedAt": fleet.world.now() - 2000,
            "doneAt": fleet.world.now(),
            "fence": run.fence,
            "attempt": 1,
            "instance": one.locks.identity.instance,
        }
    }


def test_a_first_attempt_is_one_request_a_step_and_reads_nothing() -> None:
    """Ten steps are ten writes; with at_most_once twenty."""
    for at_most_once, requests in ((False, 10), (True, 20)):
        fleet = Fleet()
        one = fleet.instance()

        def body(run: Run) -> None:
            for number in range(10):
                run.step(f"step {number}", Calls(), number, at_most_once=at_most_once)  # noqa: B023  # run below

        fleet.body = body
        one.turn(slot())
        assert [method for method, path in one.network.calls if path.startswith("cron-steps")] == ["swap"] * requests


def test_i46_a_recorded_step_is_never_called_again() -> None:
    """A rerun reads all steps in one request, gets the results, and calls what is missing."""
    fleet = Fleet(on_abandoned="rerun")
    one, other = fleet.instance(), fleet.instance()
    calls = Calls()
    got: list[list[object]] = []

    def body(run: Run) -> None:
        got.append([])
        for number in range(4):
            got[-1].append(run.step(f"step {number}", calls, number))
            if run.attempt == 1 and number == 1:
                one.freeze(1000)
                fleet.world.advance(100)
                other.turn(None)

    fleet.body = body
    (result,) = one.turn(slot())
    assert result.outcome == "lost"
    assert calls.seen == [0, 1, 2, 3]
    assert got == [[0, 1], [0, 1, 2, 3]]
    requests = [method for method, path in other.network.calls if path.startswith("cron-steps")]
    assert requests == ["read", "swap", "swap"]


def test_a_step_that_raises_is_called_again_by_the_next_try() -> None:
    """Nothing is recorded, and the body gets the exception."""
    fleet = Fleet(retries=2)
    calls: list[int] = []

    def fail() -> None:
        calls.append(1)
        raise ConnectionError("down")

    fleet.body = lambda run: run.step("a", fail)
    (result,) = fleet.instance().turn(slot())
    assert (result.outcome, str(result.error)) == ("failed", "down")
    assert len(calls) == 3
    assert steps_of(fleet) == {}


def test_a_retry_of_the_same_claim_gets_what_was_recorded_without_a_request() -> None:
    """The claim remembers its results, and its retries neither call nor ask."""
    fleet = Fleet(retries=1)
    one = fleet.instance()
    calls = Calls()

    def body(run: Run) -> None:
        assert run.step("a", calls, [1]) == [1]
        if len(fleet.runs) == 1:
            raise ValueError("later")

    fleet.body = body
    (result,) = one.turn(slot())
    assert result.outcome == "succeeded"
    assert calls.seen == [[1]]
    assert [method for method, path in one.network.calls if path.startswith("cron-steps")] == ["swap"]


def test_what_has_returned_is_not_called_again_although_it_could_not_be_recorded() -> None:
    """A retry records what the first try's call has returned: also where the rules refuse, or the result is none."""
    fleet = Fleet(retries=2)
    one = fleet.instance()
    calls = Calls()

    def body(run: Run) -> None:
        if len(fleet.runs) == 1:
            one.network.before = deny
        try:
            assert run.step("a", calls, 5) == 5
        finally:
            one.network.before = lambda method, path: None

    def deny(method: str, path: str) -> None:
        if path.startswith("cron-steps") and method == "swap":
            raise Denied("no")

    fleet.body = body
    (result,) = one.turn(slot())
    assert (result.outcome, calls.seen) == ("succeeded", [5])
    assert steps_of(fleet)["a"]["result"] == "5"

    wrong = Calls()
    fleet = Fleet(retries=2)
    fleet.body = lambda run: run.step("a", wrong, (1,))
    (result,) = fleet.instance().turn(slot())
    assert (result.outcome, wrong.seen) == ("failed", [(1,)])
    assert isinstance(result.error, ConfigurationError)


def test_a_write_is_repeated_while_the_lease_is_trusted() -> None:
    """While the database is down a step waits, as a renewal does; once the lease is over it is lost."""
    fleet = Fleet()
    one = fleet.instance()
    calls = Calls()

    def body(run: Run) -> None:
        one.network.is_down = True
        fleet.world.at(12, lambda: setattr(one.network, "is_down", False))
        run.step("a", calls, 1)
        assert 12 <= fleet.world.mono() / 1000 < 20
        one.network.is_down = True
        run.step("b", calls, 2)

    fleet.body = body
    (result,) = one.turn(slot())
    assert result.outcome == "lost"
    assert isinstance(result.error, LeaseLost)
    assert (calls.seen, list(steps_of(fleet))) == ([1, 2], ["a"])


def test_a_database_that_asks_for_a_longer_pause_than_the_lease_lasts_is_asked_seldom() -> None:
    """A write under a Retry-After beyond the lease is repeated a few times a lease, until the database takes it."""
    fleet = Fleet()
    one = fleet.instance()
    calls = Calls()

    def busy(method: str, path: str) -> None:
        if path.startswith("cron-steps/"):
            raise Unavailable("busy", retry_after=3_600)

    def body(run: Run) -> None:
        one.network.requests()
        one.network.before = busy
        fleet.world.at(120, lambda: setattr(one.network, "before", lambda method, path: None))
        assert run.step("a", calls, 1) == 1
        assert 120 <= fleet.world.mono() / 1000 < 140
        # A ttl is 30 seconds, and a renewal comes every ten: so a pause is six seconds at least.
        assert len(one.network.requests("cron-steps/")) <= 30

    fleet.body = body
    (result,) = one.turn(slot())
    assert (result.outcome, calls.seen) == ("succeeded", [1])


def test_a_lost_reply_is_no_second_call_and_no_second_record() -> None:
    """The write is found by its fence."""
    fleet = Fleet()
    one = fleet.instance()
    calls = Calls()

    def body(run: Run) -> None:
        one.network.lose_reply()
        assert run.step("a", calls, 1) == 1

    fleet.body = body
    (result,) = one.turn(slot())
    assert (result.outcome, calls.seen) == ("succeeded", [1])


def test_a_refused_write_is_repeated_if_the_lock_can_not_be_looked_at() -> None:
    """Rules refuse a step, and the database says not whether the lock is still held: it is asked again, as ever."""
    fleet = Fleet()
    one = fleet.instance()
    calls = Calls()

    def body(run: Run) -> None:
        one.network.next("swap", before=denied, times=2)
        one.network.next("swap", before=down, times=100)
        one.network.next("read", before=nothing, times=2)
        one.network.next("read", before=down, times=100)
        fleet.world.at(12, one.network.mend)
        assert run.step("a", calls, 1) == 1

    fleet.body = body
    (result,) = one.turn(slot())
    assert (result.outcome, calls.seen) == ("succeeded", [1])


@pytest.mark.parametrize("is_overtaken", [True, False])
def test_a_refused_write_of_a_holder_that_was_overtaken_is_a_lost_lease(is_overtaken: bool) -> None:
    """Rules refuse the steps of a zombie: its lock tells that it is one. A lock that is still held tells that not."""
    fleet = Fleet()
    one = fleet.instance()

    def body(run: Run) -> None:
        if is_overtaken:
            fleet.world.edit(holder="another", fence=10**15)
        one.network.next("swap", before=denied, times=2)
        run.step("a", Calls(), 1)

    fleet.body = body
    (result,) = one.turn(slot())
    assert isinstance(result.error, LeaseLost if is_overtaken else Denied)
    assert result.outcome == ("lost" if is_overtaken else "failed")


def test_a_refused_write_renews_no_lease() -> None:
    """With renew=False a run ends with its lock_ttl: to find out whether its lock is still held, the lock is read."""
    fleet = Fleet(renew=False)
    one = fleet.instance()
    expiries: list[object] = []

    def body(run: Run) -> None:
        fleet.world.advance(5)
        one.network.next("swap", before=denied, times=2)
        try:
            run.step("a", Calls(), 1)
        finally:
            expiries.append(fleet.world.node()["expiresAt"])

    fleet.body = body
    (result,) = one.turn(slot())
    assert isinstance(result.error, Denied)
    assert expiries == [START + 30_000]


def denied() -> None:
    raise Denied("no")


def down() -> None:
    raise Unavailable("no reply")


def test_steps_may_be_nested_and_side_by_side() -> None:
    """Threads of one run, and a step inside another one, have their own names; each is recorded."""
    fleet = Fleet()

    def outer(run: Run) -> object:
        return run.step("inner", Calls(), 1)

    def body(run: Run) -> None:
        run.step("outer", outer, run)
        threads = [threading.Thread(target=run.step, args=(f"t{n}", Calls(), n)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    fleet.body = body
    fleet.instance().turn(slot())
    assert sorted(steps_of(fleet)) == ["inner", "outer", *(f"t{n}" for n in range(8))]


def test_i49_steps_of_one_tick_are_not_seen_by_another() -> None:
    """Each tick, and each run by hand, calls for itself."""
    fleet = Fleet()
    one = fleet.instance()
    calls = Calls()
    fleet.body = lambda run: run.step("a", calls, run.idempotency_key)
    one.turn(slot())
    fleet.world.until(60)
    one.turn(slot(60))
    one.crons.registry.trigger(NAME)
    one.crons.registry.trigger(NAME)
    assert calls.seen == [run.idempotency_key for run in fleet.runs]
    assert len(calls.seen) == 4
    ticks = fleet.world.store.get(f"cron-steps/{NAME}")
    assert isinstance(ticks, dict)
    assert set(ticks) == set(fleet.world.history())


def test_a_body_that_forks_waits_in_the_child_for_no_thread_of_the_parent() -> None:
    """Another thread may be at a step at that moment: the child's step raises LeaseLost, and its body ends."""
    fleet = Fleet()
    calls = Calls()
    ends: list[object] = []

    def body(run: Run) -> None:
        steps = vars(run)["_steps"]
        for name in ("_lock", "_reading"):
            stepping = threading.Thread(target=lock_of(steps, name).acquire)
            stepping.start()
            assert ended(stepping)
        begin_child()
        with pytest.raises(LeaseLost):
            run.step("a", calls, 1)

    fleet.body = body
    one = fleet.instance()
    turning = threading.Thread(target=lambda: ends.append(one.turn(slot())), daemon=True)
    turning.start()
    assert ended(turning)
    assert len(ends) == 1
    assert calls.seen == []
