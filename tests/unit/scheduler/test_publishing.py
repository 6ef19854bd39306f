"""The catalogue as programs keep it: when it is read, what is written, and who wins where revisions disagree."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any, cast

import pytest
from tests.simulation.world import START, slot
from tests.stores.least_privilege import RULES
from tests.stores.least_privilege_before import before
from tests.unit.locks import lock_of
from tests.unit.threads import PATIENCE

from firecron import FireCron, distributed_cron
from firecron.base.clocks import Deadline
from firecron.base.events import Event
from firecron.base.flag import begin_child
from firecron.cli.commands.doctor import adapted
from firecron.errors import Denied, NoCredentials, Unavailable
from firecron.scheduler.publishing import CataloguePublisher
from firecron.settings import load
from firecron.store import Snapshot
from firecron.testing import FakeTiming, MemoryStore
from firecron.testing.rehearsal import Inline
from rtdb_emulator.pytest_plugin import Rtdb

HOUR = 3_600
LATER: dict[str, Any] = {"owner": "mail", "retries": 3}
Job = Callable[[], None]


def job(name: str = "digest", line: str = "0 9 * * *", **options: object) -> Job:
    def work() -> None: ...

    return distributed_cron(name, line, **options)(work)  # type: ignore[arg-type]  # any options


class Counting(MemoryStore):
    """A store that notes reads and merges, and fails the next of them if it is told to."""

    def __init__(self, now: Callable[[], int]) -> None:
        super().__init__(now)
        self.calls: list[str] = []
        self.error: Exception | None = None
        self.denied = self.fails = ""
        self.before_merge: Callable[[], object] = lambda: None
        self.after_read: Callable[[], object] = lambda: None

    def read(self, path: str, deadline: Deadline) -> Snapshot:
        self._note(f"read {path}")
        if path == self.denied:
            raise Denied("no")
        if path == self.fails:
            raise Unavailable("down")
        found = super().read(path, deadline)
        after, self.after_read = self.after_read, lambda: None
        after()
        return found

    def merge(
        self, path: str, values: dict[str, object], deadline: Deadline, *, echo: bool = True
    ) -> dict[str, object]:
        self._note(f"merge {len(values)}")
        before, self.before_merge = self.before_merge, lambda: None
        before()
        return super().merge(path, values, deadline, echo=echo)

    def _note(self, call: str) -> None:
        self.calls.append(call)
        if self.error is not None:
            raise self.error

    def since(self) -> list[str]:
        """The calls since the last time."""
        calls, self.calls = self.calls, []
        return calls


class Programs:
    """Programs without threads, on one database and one clock. What they look at is looked at at once."""

    def __init__(self) -> None:
        self.timing = FakeTiming(wall=START)
        self.store = Counting(self.timing.now)
        self.events: list[Event] = []

    def program(self, *jobs: Job, service: str = "api", revision: str | None = "api-1", roles: str = "") -> FireCron:
        crons = FireCron(
            *jobs,
            settings=load(roles=roles),
            enabled=True,
            store=self.store,
            timing=self.timing,
            crew=Inline(),
            has_threads=False,
        )
        crons.locks.identity.service, crons.locks.identity.revision = service, revision
        told = ("catalogue.failed", "hold.failed")
        crons.events.subscribe(lambda event: self.events.append(event) if event.slug in told else None)
        return crons

    def begin(self, *jobs: Job, service: str = "api", revision: str | None = "api-1", roles: str = "") -> FireCron:
        crons = self.program(*jobs, service=service, revision=revision, roles=roles)
        crons.engine.publisher.begin()
        return crons

    def entry(self, name: str = "digest") -> dict[str, object]:
        return cast("dict[str, object]", self.store.get(f"cron-jobs/{name}"))

    def win(self, crons: FireCron, name: str = "digest") -> None:
        crons.engine.publisher.won(crons.registry.get(name))


@pytest.fixture
def programs() -> Programs:
    return Programs()


def test_a_start_declares_all_jobs(programs: Programs) -> None:
    """One read and one write, with the time of the database for what is new."""
    programs.begin(job(), job("mail", "* * * * *", alert_after=3))
    assert programs.store.since() == ["read cron-jobs", "merge 2", "read cron-hold"]
    assert programs.entry() == {
        "line": "0 9 * * *",
        "timezone": "UTC",
        "since": START,
        "grace": 60,
        "overlap": "skip",
        "catchUp": "skip",
        "oncePerTick": True,
        "disabled": False,
        "alertAfter": 1,
        "where": programs.entry()["where"],
        "ticks": True,
        "service": "api",
        "revision": "api-1",
        "declaredAt": START,
    }
    assert programs.entry("mail")["alertAfter"] == 3


def test_nothing_is_written_where_nothing_has_changed(programs: Programs) -> None:
    """Another instance of the same revision reads, and no more."""
    one = job()
    for calls in (["read cron-jobs/digest", "merge 1", "read cron-hold"], ["read cron-jobs/digest"]):
        programs.begin(one)
        assert programs.store.since() == calls
        programs.timing.advance(60)
    assert programs.entry()["declaredAt"] == START


def test_fifty_instances_read_once_each(rtdb: Rtdb) -> None:
    """A hundred known jobs cost a fleet one request an instance, and no write."""
    jobs = [job(f"job-{number}") for number in range(100)]

    def start() -> None:
        crons = FireCron(*jobs, settings=load(), enabled=True, has_threads=False, crew=Inline())
        crons.engine.publisher.begin()
        crons.locks.close()

    start()
    rtdb.emulator.requests.clear()
    for _ in range(50):
        start()
    methods = [request.method for request in rtdb.emulator.requests.matching(namespace=rtdb.namespace)]
    assert methods == ["GET"] * 50


def test_many_jobs_are_written_five_hundred_at_a_time(programs: Programs) -> None:
    """And of those only what differs."""
    jobs = [job(f"job-{number}") for number in range(1_001)]
    programs.begin(*jobs)
    assert programs.store.since() == ["read cron-jobs", "merge 500", "merge 500", "merge 1", "read cron-hold"]
    programs.store.set("cron-jobs/job-7/alertAfter", 2)
    programs.begin(*jobs)
    assert programs.store.since() == ["read cron-jobs", "merge 1", "read cron-hold"]


@pytest.mark.parametrize(
    ("before", "after", "stays"),
    [
        ({}, {"grace": 90}, True),
        ({}, {"disabled": True}, True),
        ({}, {"line": "0 10 * * *"}, False),
        ({}, {"timezone": "Europe/Berlin"}, False),
        ({"disabled": True}, {}, False),
        ({"disabled": True}, {"disabled": True, "grace": 90}, True),
    ],
)
def test_since_when(programs: Programs, before: dict[str, object], after: dict[str, object], stays: bool) -> None:
    """It stays while the schedule stays, and begins anew if nobody was to run the job until now."""
    programs.begin(job(**before))  # type: ignore[arg-type]  # any options
    programs.timing.advance(60)
    programs.begin(job(**after), revision="api-2")  # type: ignore[arg-type]  # as above
    assert programs.entry()["since"] == (START if stays else START + 60_000)
    assert (programs.entry()["revision"], programs.entry()["declaredAt"]) == ("api-2", START + 60_000)


@pytest.mark.parametrize("value", ["x", {"line": 5}, {"since": "x", "declaredAt": True}])
def test_what_somebody_has_typed_there_is_replaced(programs: Programs, value: object) -> None:
    """An entry that says nothing is written anew."""
    one = job()
    programs.begin(one)
    good = programs.entry()
    programs.store.set("cron-jobs/digest", {**good, **value} if isinstance(value, dict) else value)
    programs.begin(one)
    assert programs.entry() == good


def test_a_winner_puts_its_own_entry_right(programs: Programs) -> None:
    """An old revision that starts late is overruled by the next run, at most an hour later, and for that job alone."""
    new = programs.begin(job(line="0 10 * * *"), job("mail"), revision="api-2")
    programs.begin(job(), job("mail"), revision="api-1")
    programs.store.since()
    programs.timing.advance(HOUR - 0.001)
    programs.win(new)
    assert programs.store.since() == []
    programs.timing.advance(0.001)
    programs.win(new)
    assert programs.store.since() == ["read cron-jobs/digest", "merge 1", "read cron-hold"]
    assert (programs.entry()["line"], programs.entry()["revision"]) == ("0 10 * * *", "api-2")
    assert programs.entry("mail")["revision"] == "api-1"
    programs.win(new)
    assert programs.store.since() == [], "not before another hour"


def test_a_run_by_schedule_is_a_win(programs: Programs) -> None:
    """The engine tells of it once the run has ended."""
    crons = programs.begin(job(line="* * * * *", grace=7_200))
    crons.locks.clock.now(Deadline.after(programs.timing, 1))
    programs.store.set("cron-jobs/digest/grace", 5)
    programs.timing.advance(HOUR)
    crons.engine.lanes.due(crons.registry.get("digest"), slot(HOUR))
    assert programs.store.get("cron-locks/digest/outcome") == "succeeded"
    assert programs.entry()["grace"] == 7_200


def test_two_revisions_that_start_at_once(programs: Programs) -> None:
    """Both have read the same, and the last to write wins, with whole entries: never a mix."""
    old = [job(), job("mail")]
    programs.begin(*old)
    programs.timing.advance(60)
    other = [job(line="0 10 * * *"), job("mail", grace=5)]
    programs.store.before_merge = lambda: programs.begin(*other, revision="api-3")
    programs.begin(job(line="0 11 * * *"), job("mail"), revision="api-2")
    assert (programs.entry()["line"], programs.entry()["revision"]) == ("0 11 * * *", "api-2")
    assert (programs.entry("mail")["grace"], programs.entry("mail")["revision"]) == (60, "api-2")
    assert programs.entry("mail")["since"] == START


def test_where_nothing_ticks_nothing_is_declared(programs: Programs) -> None:
    """A run by hand, or in a rehearsal, is no declaration."""
    crons = programs.program(job())
    crons.engine.publisher.add(crons.registry.get("digest"))
    programs.win(crons)
    assert programs.store.since() == []
    with crons.testing("2026-11-18T08:59:00Z") as test:
        test.move_to("2026-11-18T09:00:00Z")
        assert test.outcomes("digest") == ["succeeded"]
        assert test.store.get("cron-jobs") is None


def test_the_first_trigger_declares_all_jobs(programs: Programs) -> None:
    """So the job whose trigger was forgotten is seen. These jobs don't tick; each is looked at once an hour at most."""
    crons = programs.program(job(), job("mail"))
    for calls in (["read cron-jobs", "merge 2", "read cron-hold"], []):
        crons.registry.served(crons.registry.get("digest"))
        assert programs.store.since() == calls
    assert [programs.entry(name)["ticks"] for name in ("digest", "mail")] == [False, False]
    programs.timing.advance(3600)
    crons.registry.served(crons.registry.get("digest"))
    assert programs.store.since() == ["read cron-jobs/digest"]
    programs.begin(job())
    assert programs.entry()["ticks"] is True


def test_a_job_that_is_added_later(programs: Programs) -> None:
    """It is declared at once, where jobs tick."""
    crons = programs.begin(job())
    programs.store.since()
    crons.registry.add(job("late"))
    assert programs.store.since() == ["read cron-jobs/late", "merge 1", "read cron-hold"]
    crons.registry.remove("late")
    assert programs.entry("late")["line"] == "0 9 * * *", "who removes it may be one of many"


def test_a_job_of_another_role(programs: Programs) -> None:
    """It is left to those that have the role; until one has come, it is seen that nobody runs it."""
    one = job(role="mail")
    programs.begin(one)
    assert (programs.entry()["service"], "revision" in programs.entry()) == ("", False)
    programs.timing.advance(60)
    programs.begin(job(role="mail", grace=90))
    assert (programs.entry()["grace"], programs.entry()["since"]) == (90, START)
    programs.timing.advance(60)
    programs.begin(one, service="worker", roles="mail")
    assert (programs.entry()["service"], programs.entry()["since"]) == ("worker", START + 120_000)
    programs.store.since()
    programs.begin(job(role="mail", line="0 10 * * *"))
    assert programs.store.since() == ["read cron-jobs/digest"]


@pytest.mark.parametrize(("error", "seconds"), [(Unavailable("down"), 300), (Denied("no"), 3_600)])
def test_what_fails_is_told_once_and_tried_again(programs: Programs, error: Exception, seconds: int) -> None:
    """Sooner again if the database was away than if its rules refuse it; a WARNING, with the remedy for the rules."""
    crons = programs.program(job(), job("mail"))
    crons.locks.clock.now(Deadline.after(programs.timing, 1))
    programs.store.error = error
    crons.engine.publisher.begin()
    for _ in range(2):
        assert programs.store.since() == ["read cron-jobs"]
        (event,) = programs.events
        assert (event.name, event.level) == ("firecron", logging.WARNING)
        assert ("firecron rules" in event.message) is isinstance(error, Denied)
        programs.win(crons)
        assert programs.store.since() == [], "not at each win"
        programs.timing.advance(seconds)
        crons.engine.ticker.work()
    programs.store.error = None
    programs.store.since()
    programs.timing.advance(seconds)
    crons.engine.ticker.work()
    assert programs.store.since() == ["read cron-jobs", "merge 2", "read cron-hold"]
    programs.store.error = error
    programs.timing.advance(HOUR)
    programs.win(crons)
    assert len(programs.events) == 2, "told again after it went well"


def test_what_was_asked_for_before_a_stop_is_dropped(programs: Programs) -> None:
    """A stopped program says nothing any more, also of what was under way."""
    crons = programs.program(job())

    def stop() -> None:
        crons.engine.publisher.forget()
        programs.store.error = Unavailable("down")

    programs.store.before_merge = stop
    crons.engine.publisher.begin()
    programs.win(crons)
    assert programs.events == []
    programs.store.since()
    programs.store.error = None
    crons.engine.publisher.begin()
    assert programs.store.since() == ["read cron-jobs/digest", "read cron-hold"], "it may be held"


@pytest.mark.parametrize("starts_again", [False, True])
def test_a_stop_in_the_middle_of_a_look_says_not_that_nothing_ticks(programs: Programs, starts_again: bool) -> None:
    """What another instance has declared stays. After another start all jobs are looked at anew."""
    programs.begin(job())
    before = programs.entry()
    crons = programs.program(job(), revision="api-2")
    publisher = crons.engine.publisher

    def stop() -> None:
        publisher.forget()
        if starts_again:
            publisher.begin()

    programs.store.after_read = stop
    publisher.begin()
    assert programs.entry()["ticks"] is True
    assert (programs.entry() == before) is not starts_again
    programs.store.since()
    publisher.won(crons.registry.get("digest"))
    assert programs.store.since() == []


def test_a_stop_while_a_look_writes_leaves_nothing_for_the_next_start(programs: Programs) -> None:
    """What was looked at before the stop is looked at again after the next start."""
    crons = programs.program(job())
    publisher = crons.engine.publisher
    programs.store.before_merge = publisher.forget
    publisher.begin()
    programs.store.since()
    publisher.served(crons.registry.get("digest"))
    assert programs.store.since() == ["read cron-jobs/digest", "read cron-groups", "merge 1", "read cron-hold"]


class Waiting(Inline):
    """A crew whose work waits until the test does it, or that can't take any."""

    def __init__(self) -> None:
        self.work: list[Callable[[], object]] = []
        self.error: BaseException | None = None

    def submit(self, work: Callable[[], object]) -> None:
        if self.error is not None:
            raise self.error
        self.work.append(work)


def test_one_thread_looks_at_a_time(programs: Programs) -> None:
    """What is asked for meanwhile is looked at by the same one, and then another may begin."""
    crons = programs.program(job(), job("mail"))
    crew = crons.engine.publisher.crew = Waiting()
    crons.engine.publisher.begin()
    programs.store.before_merge = lambda: crons.registry.served(crons.registry.get("mail"))
    crons.engine.publisher.add(crons.registry.get("digest"))
    (work,) = crew.work
    work()
    assert programs.store.since() == ["read cron-jobs", "merge 2", "read cron-hold", "read cron-jobs/mail"]
    assert len(crew.work) == 1
    crons.engine.publisher.begin()
    assert len(crew.work) == 2


def test_a_thread_that_can_not_be_had(programs: Programs) -> None:
    """It is an event, and no error of the run that has asked; but Ctrl-C is for the program."""
    crons = programs.program(job())
    crew = crons.engine.publisher.crew = Waiting()
    crew.error = RuntimeError("can't start new thread")
    crons.engine.publisher.begin()
    assert "can't start new thread" in programs.events[0].message
    programs.timing.advance(300)
    crew.error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        crons.engine.publisher.begin()
    programs.timing.advance(300)
    crew.error = None
    programs.win(crons)
    assert len(crew.work) == 1


def test_a_forked_child_declares_nothing(programs: Programs) -> None:
    """It doesn't tick until it is started, and the parent's work is not its own."""
    crons = programs.program(job())
    crew = crons.engine.publisher.crew = Waiting()
    crons.engine.publisher.begin()
    begin_child()
    crew.work.pop()()
    programs.timing.advance(HOUR)
    programs.win(crons)
    assert crew.work == []
    assert programs.store.since() == []


def test_a_refusal_is_tried_again_an_hour_later(programs: Programs) -> None:
    """Not sooner, at a win neither: each try costs a request."""
    crons = programs.program(job())
    crons.locks.clock.now(Deadline.after(programs.timing, 1))
    programs.store.error = Denied("no")
    crons.engine.publisher.begin()
    programs.store.since()
    for seconds, calls in ((HOUR - 1, []), (1, ["read cron-jobs/digest"])):
        programs.timing.advance(seconds)
        programs.win(crons)
        assert programs.store.since() == calls
        if not calls:
            crons.engine.ticker.work()
            assert programs.store.since() == []


def test_a_retry_is_made_when_it_comes(programs: Programs) -> None:
    """Also by a timer that is a little early; none is planned for a program of triggers, and one that has nothing left
    to look at begins no thread.
    """
    crons = programs.program(job())
    planned: list[tuple[float, Callable[[], None]]] = []
    crons.engine.ticker.after = lambda seconds, call: planned.append((seconds, call))  # type: ignore[method-assign]  # noted
    publisher = CataloguePublisher(crons.database, crons.registry, Inline(), crons.engine.lanes)
    digest = crons.registry.get("digest")
    programs.store.error = Unavailable("down")
    publisher.served(digest)
    assert (len(programs.store.since()), planned) == (1, [])
    publisher.forget()
    publisher.begin()
    programs.store.since()
    ((seconds, retry),) = planned
    programs.store.error = None
    programs.timing.advance(seconds - 0.001)
    publisher.won(digest)
    assert programs.store.since() == []
    retry()
    assert programs.store.since() == ["read cron-jobs/digest", "merge 1", "read cron-hold"]
    crew = publisher.crew = Waiting()
    retry()
    assert crew.work == []


@pytest.mark.parametrize(
    ("error", "why"),
    [(Unavailable("down"), "down"), (NoCredentials("none"), "none"), (RuntimeError("odd"), "RuntimeError('odd')")],
)
def test_the_event_says_what_failed(programs: Programs, error: Exception, why: str) -> None:
    """In the words of the database's error, or by the name of another one, without a remedy for what isn't known."""
    programs.store.error = error
    programs.begin(job())
    assert programs.events[0].fields == {"why": why}
    assert (
        programs.events[0].message == f"The catalogue of jobs could not be read or written. No run depends on it. {why}"
    )


def test_what_fails_after_a_stop_is_not_told(programs: Programs) -> None:
    """Nor does it put off what a new start asks for."""
    crons = programs.program(job())

    def stop() -> None:
        crons.engine.publisher.forget()
        raise Unavailable("down")

    programs.store.before_merge = stop
    crons.engine.publisher.begin()
    assert programs.events == []
    programs.store.since()
    crons.engine.publisher.begin()
    assert programs.store.since() == ["read cron-jobs/digest", "merge 1", "read cron-hold"]


def test_the_work_of_before_a_stop_leaves_the_next_to_its_own(programs: Programs) -> None:
    """A thread that was at it when the program was stopped and started again ends."""
    crons = programs.program(job())
    publisher = crons.engine.publisher
    crew = publisher.crew = Waiting()
    publisher.begin()

    def start_again() -> None:
        publisher.forget()
        publisher.begin()

    programs.store.before_merge = start_again
    old, *_ = crew.work
    old()
    assert programs.store.since() == ["read cron-jobs/digest", "merge 1", "read cron-hold"]
    _, new = crew.work
    new()
    assert programs.store.since() == ["read cron-jobs/digest"]


def test_a_job_that_is_gone_is_not_looked_at(programs: Programs) -> None:
    """It was removed before anybody had looked."""
    crons = programs.program(job())
    crew = crons.engine.publisher.crew = Waiting()
    crons.engine.publisher.begin()
    crons.registry.remove("digest")
    crew.work.pop()()
    assert programs.store.since() == []


def test_a_fork_while_another_thread_is_at_it(programs: Programs) -> None:
    """The child has the lock as the fork found it, and the crew's threads are the parent's."""
    publisher = programs.program(job()).engine.publisher
    crew = publisher.crew = Waiting()
    lock_of(publisher).acquire()
    begin_child()
    publisher.begin()
    assert len(crew.work) == 1


def test_a_catalogue_that_hangs_delays_nothing(rtdb: Rtdb) -> None:
    """A start returns and the first tick runs while the database is slow about the catalogue."""
    hold = rtdb.faults.hold(path="/cron-jobs/*", times=None)
    has_run = threading.Event()

    @distributed_cron("quick", every=1)
    def quick() -> None:
        has_run.set()

    crons = FireCron(quick, settings=load(request_timeout=20, acquire_timeout=20, release_timeout=20), enabled=True)
    with crons:
        assert has_run.wait(PATIENCE)
        assert rtdb.get("/cron-jobs") is None
        hold.release()


def test_a_started_program_is_in_the_catalogue(rtdb: Rtdb) -> None:
    """From the start, as the user of the shipped rules; it ticks."""
    rtdb.set_rules(RULES)
    told: list[Event] = []
    crons = FireCron(job(), settings=load(uid="firecron"), enabled=True)
    crons.events.subscribe(told.append)
    with crons:
        crons.engine.publisher.wait(PATIENCE)
    assert [event for event in told if event.slug == "catalogue.failed"] == []
    found = rtdb.get("/cron-jobs/digest")
    assert isinstance(found, dict)
    assert (found["ticks"], found["service"], found["line"]) == (True, "local", "0 9 * * *")


def test_rules_of_the_version_before_take_the_later_fields(rtdb: Rtdb) -> None:
    """They let fields pass that they don't know, so nothing is lost with them."""
    rtdb.set_rules(before())
    told: list[Event] = []
    crons = FireCron(job(**LATER), settings=load(uid="firecron"), enabled=True, has_threads=False, crew=Inline())
    crons.events.subscribe(told.append)
    crons.engine.publisher.begin()
    assert told == []
    assert rtdb.get("/cron-jobs/digest/owner") == "mail"


def test_rules_that_refuse_the_later_fields(rtdb: Rtdb) -> None:
    """The entry is written without these, which is said once, and not written again while nothing else changes."""
    rules = adapted(before(), "", "firecron")
    entries: Any = rules["rules"]
    entries["cron-jobs"]["$name"]["$other"] = {".validate": "$other === 'declaredAt'"}
    rtdb.set_rules(rules)
    told: list[Event] = []
    crons = FireCron(
        job(**LATER), job("mail"), settings=load(uid="firecron"), enabled=True, has_threads=False, crew=Inline()
    )
    crons.events.subscribe(told.append)
    for methods in ("GET PATCH PATCH", "GET PATCH"):
        rtdb.emulator.requests.clear()
        crons.engine.publisher.begin()
        sent = [request.method for request in rtdb.emulator.requests.matching(path="/cron-jobs")]
        assert " ".join(sent) == methods
    node = rtdb.get("/cron-jobs/digest")
    assert isinstance(node, dict)
    assert (node["line"], node.keys() & {"owner", "retries"}) == ("0 9 * * *", set())
    assert rtdb.get("/cron-jobs/mail/line") == "0 9 * * *"
    assert [event.slug for event in told] == ["catalogue.failed"]
    assert "written without the fields that the security rules refuse" in told[0].message
    assert "firecron rules" in told[0].message


def test_rules_that_are_older_than_the_catalogue(rtdb: Rtdb) -> None:
    """They cost one request an hour, and an event."""
    rules = adapted(RULES.read_text("utf-8"), "", "firecron")["rules"]
    assert isinstance(rules, dict)
    rtdb.set_rules({"rules": {name: block for name, block in rules.items() if name != "cron-jobs"}})
    told: list[Event] = []
    crons = FireCron(job(), settings=load(uid="firecron"), enabled=True, has_threads=False, crew=Inline())
    crons.events.subscribe(told.append)
    crons.engine.publisher.begin()
    assert [event.slug for event in told] == ["catalogue.failed"]
    assert rtdb.count() == 1
