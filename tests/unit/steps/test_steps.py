"""Steps of a sync job: recorded once, called again or not, in doubt, and refused."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.simulation.fleet import Fleet
from tests.simulation.instance import Instance
from tests.simulation.network import nothing
from tests.simulation.world import NAME, START, slot
from tests.unit.locks import lock_of
from tests.unit.steps.sync_jobs import STEPS, Calls, run_once, steps_of, turned
from tests.unit.threads import ended

from firecron import ConfigurationError, Denied, LeaseLost, Run, StepInDoubt, Stopping
from firecron.base.flag import begin_child
from firecron.errors import Unavailable


def test_a_step_is_recorded_with_all_that_tells_whose_it_is(fleet: Fleet, one: Instance) -> None:
    """The node has the result as a text, when it was called and done, and which claim of which instance did it."""

    def work() -> dict[str, object]:
        fleet.world.advance(2)
        return {"a": [], "b": None, "c": 1.0}

    def body(run: Run) -> None:
        fleet.world.advance(1)
        assert run.step("a/b", work) == {"a": [], "b": None, "c": 1.0}

    fleet.body = body
    fleet.world.until(0.5)
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


@pytest.mark.parametrize("is_manual", [False, True])
def test_a_first_attempt_is_one_request_a_step_and_reads_nothing(is_manual: bool) -> None:
    """Ten steps are ten writes; with at_most_once twenty. The same in a run by hand, which has only one attempt."""
    for at_most_once, requests in ((False, 10), (True, 20)):
        fleet = Fleet()
        one = fleet.instance()

        def body(run: Run) -> None:
            for number in range(10):
                run.step(f"step {number}", Calls(), number, at_most_once=at_most_once)  # noqa: B023  # run below

        fleet.body = body
        if is_manual:
            one.crons.registry.trigger(NAME)
        else:
            one.turn(slot())
        assert [method for method, path in one.network.calls if path.startswith("cron-steps")] == ["swap"] * requests


def test_i46_a_recorded_step_is_never_called_again(calls: Calls) -> None:
    """A rerun reads all steps in one request, gets the results, and calls what is missing."""
    fleet = Fleet(on_abandoned="rerun")
    one, other = fleet.instance(), fleet.instance()
    got: list[list[object]] = []

    def body(run: Run) -> None:
        got.append([])
        for number in range(4):
            got[-1].append(run.step(f"step {number}", calls, number))
            if run.attempt == 1 and number == 1:
                one.freeze(1000)
                fleet.world.advance(100)
                other.turn(None)

    result = turned(fleet, body, one)
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

    result = turned(fleet, lambda run: run.step("a", fail))
    assert (result.outcome, str(result.error)) == ("failed", "down")
    assert len(calls) == 3
    assert steps_of(fleet) == {}


def test_a_retry_of_the_same_claim_gets_what_was_recorded_without_a_request(calls: Calls) -> None:
    """The claim remembers its results, and its retries neither call nor ask."""
    fleet = Fleet(retries=1)
    one = fleet.instance()

    def body(run: Run) -> None:
        assert run.step("a", calls, [1]) == [1]
        if len(fleet.runs) == 1:
            raise ValueError("later")

    result = turned(fleet, body, one)
    assert result.outcome == "succeeded"
    assert calls.seen == [[1]]
    assert [method for method, path in one.network.calls if path.startswith("cron-steps")] == ["swap"]


def test_what_has_returned_is_not_called_again_although_it_could_not_be_recorded(calls: Calls) -> None:
    """A retry records what the first try's call has returned: also where the rules refuse, or the result is none."""
    fleet = Fleet(retries=2)
    one = fleet.instance()

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

    result = turned(fleet, body, one)
    assert (result.outcome, calls.seen) == ("succeeded", [5])
    assert steps_of(fleet)["a"]["result"] == "5"

    wrong = Calls()
    fleet = Fleet(retries=2)
    result = turned(fleet, lambda run: run.step("a", wrong, (1,)))
    assert (result.outcome, wrong.seen) == ("failed", [(1,)])
    assert isinstance(result.error, ConfigurationError)


def test_a_write_is_repeated_while_the_lease_is_trusted(fleet: Fleet, one: Instance, calls: Calls) -> None:
    """While the database is down a step waits, as a renewal does; once the lease is over it is lost."""

    def body(run: Run) -> None:
        one.network.is_down = True
        fleet.world.at(12, lambda: setattr(one.network, "is_down", False))
        run.step("a", calls, 1)
        assert 12 <= fleet.world.mono() / 1000 < 20
        one.network.is_down = True
        run.step("b", calls, 2)

    result = turned(fleet, body, one)
    assert result.outcome == "lost"
    assert isinstance(result.error, LeaseLost)
    assert (calls.seen, list(steps_of(fleet))) == ([1, 2], ["a"])


def test_a_database_that_asks_for_a_longer_pause_than_the_lease_lasts_is_asked_seldom(
    fleet: Fleet, one: Instance, calls: Calls
) -> None:
    """A write under a Retry-After beyond the lease is repeated a few times a lease, until the database takes it."""

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

    result = turned(fleet, body, one)
    assert (result.outcome, calls.seen) == ("succeeded", [1])


def test_a_refused_write_is_repeated_if_the_lock_can_not_be_looked_at(
    fleet: Fleet, one: Instance, calls: Calls
) -> None:
    """Rules refuse a step, and the database says not whether the lock is still held: it is asked again, as ever."""

    def body(run: Run) -> None:
        one.network.next("swap", before=denied, times=2)
        one.network.next("swap", before=down, times=100)
        one.network.next("read", before=nothing, times=2)
        one.network.next("read", before=down, times=100)
        fleet.world.at(12, one.network.mend)
        assert run.step("a", calls, 1) == 1

    result = turned(fleet, body, one)
    assert (result.outcome, calls.seen) == ("succeeded", [1])


@pytest.mark.parametrize("is_overtaken", [True, False])
def test_a_refused_write_of_a_holder_that_was_overtaken_is_a_lost_lease(
    is_overtaken: bool, fleet: Fleet, one: Instance
) -> None:
    """Rules refuse the steps of a zombie: its lock tells that it is one. A lock that is still held tells that not."""

    def body(run: Run) -> None:
        if is_overtaken:
            fleet.world.edit(holder="another", fence=10**15)
        one.network.next("swap", before=denied, times=2)
        run.step("a", Calls(), 1)

    result = turned(fleet, body, one)
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

    result = turned(fleet, body, one)
    assert isinstance(result.error, Denied)
    assert expiries == [START + 30_000]


def denied() -> None:
    raise Denied("no")


def down() -> None:
    raise Unavailable("no reply")


def test_steps_may_be_nested_and_side_by_side(fleet: Fleet) -> None:
    """Threads of one run, and a step inside another one, have their own names; each is recorded."""

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


def test_i49_steps_of_one_tick_are_not_seen_by_another(fleet: Fleet, one: Instance, calls: Calls) -> None:
    """Each tick, and each run by hand, calls for itself."""
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


def test_a_body_that_forks_waits_in_the_child_for_no_thread_of_the_parent(fleet: Fleet, calls: Calls) -> None:
    """Another thread may be at a step at that moment: the child's step raises LeaseLost, and its body ends."""
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


def test_i47_a_zombies_result_never_replaces_its_successors() -> None:
    """A claim that wakes after its successor has recorded can't write, whatever it returned; nor is its result used."""
    fleet = Fleet(on_abandoned="rerun")
    zombie, heir = fleet.instance(), fleet.instance()
    records: list[object] = []

    def charge(run: Run) -> str:
        if run.attempt == 1:
            zombie.freeze(100)
            fleet.world.advance(40)
            heir.turn(None)
            records.append(steps_of(fleet))
            return "the zombie's"
        return "the heir's"

    result = turned(fleet, lambda run: run.step("charge", charge, run), zombie)
    assert result.outcome == "lost"
    assert steps_of(fleet) == records[0]
    assert steps_of(fleet)["charge"]["result"] == '"the heir\'s"'


def test_i47_whoever_finds_a_successors_record_has_lost_its_lease(fleet: Fleet, one: Instance) -> None:
    """After an unlock a holder may trust its lease, and learn by a step that another claim is at work."""
    successors: dict[str, object] = {"result": "2", "doneAt": 2, "startedAt": 1}

    def body(run: Run) -> None:
        assert run.fence is not None
        successors["fence"] = run.fence + 1
        fleet.world.store.set(f"{STEPS}/charge", successors)
        run.step("charge", Calls(), 1)

    result = turned(fleet, body, one)
    assert (result.outcome, type(result.error)) == ("lost", LeaseLost)
    assert steps_of(fleet)["charge"] == successors
    assert [event.fields["why"] for event in one.said("lock.lost")] == ["a later claim has written this step"]


def test_i47_a_successor_replaces_what_a_zombie_wrote_after_it_had_looked() -> None:
    """The write of a zombie may arrive while its successor calls: the successor's own result is what stays."""
    fleet = Fleet(on_abandoned="rerun")
    zombie, heir = fleet.instance(), fleet.instance()

    def charge(run: Run) -> str:
        if run.attempt == 1:
            zombie.freeze(100)
            fleet.world.advance(40)
            heir.turn(None)
            return "the zombie's"
        late = {"result": '"the zombie\'s"', "doneAt": 2, "startedAt": 1, "fence": fleet.runs[0].fence}
        fleet.world.store.set(f"{STEPS}/charge", late)
        return "the heir's"

    fleet.body = lambda run: run.step("charge", charge, run)
    zombie.turn(slot())
    assert steps_of(fleet)["charge"]["result"] == '"the heir\'s"'
    assert steps_of(fleet)["charge"]["fence"] == fleet.runs[1].fence


def test_i48_an_intent_without_a_result_is_in_doubt() -> None:
    """After a crash between intent and record, the rerun is told who called and when, and doesn't call."""
    fleet = Fleet(on_abandoned="rerun")
    one, other = fleet.instance(), fleet.instance()
    calls: list[int | None] = []
    doubts: list[StepInDoubt] = []

    def charge(run: Run) -> None:
        calls.append(run.attempt)
        one.freeze(1000)
        fleet.world.advance(100)
        other.turn(None)

    def body(run: Run) -> None:
        try:
            run.step("charge", charge, run, at_most_once=True)
        except StepInDoubt as doubt:
            doubts.append(doubt)
            raise

    fleet.body = body
    one.turn(slot())
    assert calls == [1]
    (doubt,) = doubts
    assert (doubt.name, doubt.instance, doubt.attempt) == ("charge", one.locks.identity.instance, 1)
    assert f"{doubt.at:%Y-%m-%dT%H:%M:%SZ}" == slot()
    assert "run.settle('charge', result)" in str(doubt)
    assert fleet.world.history()[slot()]["outcome"] == "failed"


@pytest.mark.parametrize("way", ["settle", "retry"])
def test_a_doubt_is_ended_by_the_body(way: str) -> None:
    """`settle` records what is known to have come of it; `retry` lets the next call be made."""
    fleet = Fleet(retries=1)
    one = fleet.instance()
    calls: list[int] = []

    def charge() -> dict[str, int]:
        calls.append(len(fleet.runs))
        if len(fleet.runs) == 1:
            raise TimeoutError
        return {"charge": 2}

    def body(run: Run) -> None:
        try:
            got = run.step("charge", charge, at_most_once=True)
        except StepInDoubt:
            if way == "settle":
                got = run.settle("charge", {"charge": 1})
            else:
                run.retry("charge")
                got = run.step("charge", charge, at_most_once=True)
        assert got == {"charge": 1 if way == "settle" else 2}

    result = turned(fleet, body, one)
    assert result.outcome == "succeeded"
    assert calls == ([1] if way == "settle" else [1, 2])
    assert steps_of(fleet)["charge"]["result"] == ('{"charge":1}' if way == "settle" else '{"charge":2}')


def test_a_retry_allows_one_call() -> None:
    """If that one raises, the step is in doubt again."""
    fleet = Fleet(retries=2)
    calls: list[int] = []

    def fail() -> None:
        calls.append(len(fleet.runs))
        raise TimeoutError

    def body(run: Run) -> None:
        if len(fleet.runs) == 2:
            with pytest.raises(StepInDoubt):
                run.step("charge", fail, at_most_once=True)
            run.retry("charge")
        run.step("charge", fail, at_most_once=True)

    result = turned(fleet, body)
    assert isinstance(result.error, StepInDoubt)
    assert calls == [1, 2]


def test_only_a_step_in_doubt_can_be_settled_or_retried() -> None:
    """Anything else would record what nobody called."""

    def body(run: Run) -> None:
        run.step("a", dict)
        for name in ("a", "b"):
            for call in (lambda name=name: run.settle(name, 1), lambda name=name: run.retry(name)):
                with pytest.raises(ConfigurationError, match="not in doubt"):
                    call()

    assert run_once(body).outcome == "succeeded"


def test_a_name_is_used_once_in_a_try(calls: Calls) -> None:
    """The second use is an error before anything is called: a loop would get its first page for ever."""

    def body(run: Run) -> None:
        run.step("page", calls, 1)
        run.step("page", calls, 2)

    result = run_once(body)
    assert isinstance(result.error, ConfigurationError)
    assert "second time" in str(result.error)
    assert calls.seen == [1]


def test_a_step_begins_with_a_check() -> None:
    """A run that should end does so at its next step, and a recorded step makes no difference."""

    def body(run: Run) -> None:
        run.step("a", Calls(), 1)
        run.stopping.set()
        with pytest.raises(Stopping):
            run.step("b", Calls(), 1)
        run.step("c", Calls(), 1)

    assert run_once(body).outcome == "interrupted"


def test_an_async_function_is_no_step_of_a_sync_job() -> None:
    """Nothing would await it: the error comes before the call, or, where it is hidden, after it."""

    async def work() -> int:
        return 1

    def hidden() -> object:
        return work()

    class Called:
        async def __call__(self) -> int:
            return 1

    asked = ((work, "is given the async function"), (Called(), "is given the async function"))
    for function, said in (*asked, (hidden, "returned an awaitable"), (Called, "what JSON can say")):

        def body(run: Run, function: Callable[[], object] = function) -> None:
            run.step("a", function)

        result = run_once(body)
        assert isinstance(result.error, ConfigurationError)
        assert said in str(result.error)


@pytest.mark.parametrize("options", [{"overlap": "allow"}, {"once_per_tick": False}], ids=str)
def test_a_job_without_lease_or_fence_has_no_steps(options: dict[str, Any]) -> None:
    """Its runs can't tell a zombie's record from their own."""
    result = run_once(lambda run: run.step("a", dict), **options)
    assert isinstance(result.error, ConfigurationError)
    assert "no steps" in str(result.error)


def test_a_step_can_begin_only_while_the_body_runs(fleet: Fleet) -> None:
    """A thread that is left behind can't go on after the lock is free, and its run has failed."""
    begun, go_on = threading.Event(), threading.Event()
    errors: list[BaseException] = []

    def wait() -> None:
        begun.set()
        assert go_on.wait(20)

    def late(run: Run) -> None:
        try:
            run.step("a", wait)
        except BaseException as error:
            errors.append(error)

    def body(run: Run) -> None:
        thread = threading.Thread(target=late, args=(run,))
        thread.start()
        threads.append(thread)
        assert begun.wait(20)

    threads: list[threading.Thread] = []
    fleet.body = body
    try:
        (result,) = fleet.instance().turn(slot())
    finally:
        go_on.set()
        for thread in threads:
            thread.join()
    assert result.outcome == "failed"
    assert 'step "a" was still running' in str(result.error)
    assert isinstance(errors[0], LeaseLost)
    with pytest.raises(ConfigurationError, match="has ended"):
        fleet.runs[0].step("b", dict)


def test_what_is_no_function_is_refused() -> None:
    """A call in place of the function is a common mistake: `run.step("a", work())`."""
    result = run_once(lambda run: run.step("a", {"result": 1}))  # type: ignore[call-overload]  # that is the mistake
    assert isinstance(result.error, ConfigurationError)
    assert 'pass the function and its arguments, run.step("a", function, argument)' in str(result.error)


def test_a_malformed_step_is_an_error_and_not_called(calls: Calls) -> None:
    """A node that was edited by hand says nothing of whether it was called."""
    fleet = Fleet(on_abandoned="rerun")
    one, other = fleet.instance(), fleet.instance()
    one.die_holding(slot())
    fleet.world.store.set(f"{STEPS}/a", {"fence": "x"})
    fleet.world.until(40)
    fleet.body = lambda run: run.step("a", calls, 1)
    (result, *_) = other.turn(None)
    assert (result.outcome, calls.seen) == ("failed", [])
    assert "startedAt" in str(result.error)
