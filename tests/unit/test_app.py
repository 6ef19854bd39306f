"""FireCron: what starts, what is said at the start, and what ends with the program."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from types import SimpleNamespace

import flask
import pytest
import uvicorn
from starlette.applications import Starlette
from tests.simulation.fleet import Fleet
from tests.simulation.world import NAME, START

from firecron import ConfigurationError, FireCron, Run, distributed_cron
from firecron.base.events import Event
from firecron.scheduler.startup import in_command
from firecron.settings import load
from firecron.testing import FakeTiming, MemoryStore


class Heard(list[Event]):
    def slugs(self) -> list[str]:
        return [event.slug for event in self]

    def messages(self, slug: str) -> list[str]:
        return [event.message for event in self if event.slug == slug]


def new_crons(*providers: object, enabled: bool | None = True, **settings: object) -> tuple[FireCron, Heard]:
    """One without threads, and all that it says."""
    timing = FakeTiming(wall=START)
    crons = FireCron(
        *providers,
        store=MemoryStore(timing.now),
        timing=timing,
        settings=load(**settings),
        enabled=enabled,
        has_threads=False,
    )
    update = Heard()
    crons.events.subscribe(update.append)
    return crons, update


@distributed_cron(NAME, "* * * * *", lock_ttl=30)
def job() -> None: ...


@pytest.mark.parametrize(
    ("variable", "service", "state", "level"),
    [
        ("production", "", "ticking", None),
        (None, "", "idle", logging.INFO),
        ("", "", "idle", logging.INFO),
        ("staging", "", "idle", logging.WARNING),
        (None, "api", "idle", logging.WARNING),
        ("Production", "api", "idle", logging.WARNING),
    ],
)
def test_the_guard_decides_where_jobs_tick(
    monkeypatch: pytest.MonkeyPatch, variable: str | None, service: str, state: str, level: int | None
) -> None:
    """Only in production do jobs tick; elsewhere one line says so, loudly where production may be meant."""
    monkeypatch.delenv("RUNTIME_INSTANCE", raising=False)
    if variable is not None:
        monkeypatch.setenv("RUNTIME_INSTANCE", variable)
    monkeypatch.setenv("K_SERVICE", service)
    crons, update = new_crons(job, enabled=None)
    with crons:
        assert crons.registry.state(NAME) == state
    disabled = [event for event in update if event.slug == "crons.disabled"]
    assert [event.level for event in disabled] == ([] if level is None else [level])
    if disabled:
        assert "RUNTIME_INSTANCE" in disabled[0].message
        assert len(crons.registry.jobs()) == 1


def test_the_start_says_what_there_is() -> None:
    """Each job that ticks is registered in the log with its line and its function, and whether it runs here."""

    @distributed_cron("elsewhere", "0 * * * *", lock_ttl=30, role="worker")
    def elsewhere() -> None: ...

    @distributed_cron("off", "0 * * * *", lock_ttl=30, disabled=True)
    def off() -> None: ...

    crons, update = new_crons(job, elsewhere, off)
    with crons:
        lines = update.messages("job.registered")
    assert len(lines) == 2
    assert re.fullmatch(
        rf'Registered distributed cron "{NAME}" \[\* \* \* \* \*\] every minute, UTC; '
        rf"next 20[0-9-]+T[0-9]+:[0-9]+:00Z -> {re.escape(__name__)}\.job",
        lines[0],
    )
    assert "[0 * * * *] every hour, UTC; next" in lines[1]
    assert "'worker'" in lines[1]
    assert update.slugs()[-1] == "crons.stopped"


@pytest.mark.parametrize("enabled", [True, None])
def test_a_command_does_not_tick_though_the_guard_is_open(
    monkeypatch: pytest.MonkeyPatch, enabled: bool | None
) -> None:
    """In a command of Flask jobs don't tick, whoever opened the guard; a program that did is told what that means."""
    monkeypatch.setattr("sys.argv", ["flask", "shell"])
    monkeypatch.setenv("RUNTIME_INSTANCE", "production")
    crons, update = new_crons(job, enabled=enabled)
    with crons:
        assert crons.registry.state(NAME) == "idle"
    (message,) = update.messages("crons.not_started")
    assert "the Flask command 'shell'" in message
    assert ("enabled=True overrides the production guard, but not this check" in message) is bool(enabled)


def test_a_start_that_was_kept_from_ticking_can_be_made_again() -> None:
    """Another call ticks once the reason of the first is gone; before and after that, a call says nothing."""
    crons, update = new_crons(job)
    with in_command("run"):
        crons.start().start()
    assert update.slugs() == ["crons.not_started"]
    with crons:
        said = update.slugs()
        with in_command("run"):
            crons.start()
        crons.start()
        assert crons.registry.state(NAME) == "ticking"
    assert update.slugs() == [*said, "crons.stopped"]
    assert said.count("crons.started") == 1


def test_where_the_guard_is_closed_the_program_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start that the guard stops says so and warns of what is odd, in a command of Flask as anywhere."""
    monkeypatch.setattr("sys.argv", ["flask", "shell"])
    crons, update = new_crons(enabled=False)
    with crons:
        assert update.slugs()[:2] == ["crons.disabled", "crons.no_jobs"]


def test_only_the_first_start_and_the_first_stop_change_anything() -> None:
    """Each `start` returns the same FireCron; a second one, and a stop of what doesn't tick, say nothing."""
    crons, update = new_crons(job)
    crons.stop()
    assert update.slugs() == []
    assert crons.start() is crons
    said = update.slugs()
    assert crons.start() is crons
    assert update.slugs() == said
    crons.stop()
    crons.stop()
    assert update.slugs()[len(said) :] == ["crons.stopped"]


def test_a_stop_in_the_middle_of_a_start_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """What stops on the starting thread, before anything ticks, is not overtaken by the rest of the start."""
    crons, update = new_crons(job)
    monkeypatch.setattr(crons, "check_jobs", crons.stop)
    assert crons.start() is crons
    assert (crons.registry.state(NAME), update.slugs()) == ("idle", [])


@pytest.mark.parametrize(
    ("program", "level"), [("/venv/bin/gunicorn", logging.WARNING), ("app.py", logging.INFO), ("-c", logging.INFO)]
)
def test_a_forked_child_is_told_that_it_does_not_tick(
    monkeypatch: pytest.MonkeyPatch, program: str, level: int
) -> None:
    """It is a WARNING where the child may be a server's worker, else an INFO; and only if its parent ticked."""
    monkeypatch.setattr("sys.argv", [program])
    crons, update = new_crons(job)
    crons.after_fork()
    assert update == []
    crons.start()
    crons.after_fork()
    assert [(event.slug, event.level) for event in update[-1:]] == [("crons.forked", level)]


def test_a_job_that_can_not_work_refuses_the_start() -> None:
    """A ttl too short for the margin is an error of the start, which then has not begun, and can be mended."""
    short = distributed_cron("short", "* * * * *", lock_ttl=2)(lambda: None)
    crons, _ = new_crons(short)
    with pytest.raises(ConfigurationError, match="lock_ttl of 'short'"):
        crons.start()
    assert crons.registry.state("short") == "idle"
    crons.registry.remove("short")
    crons.registry.add(job)
    with crons:
        assert crons.registry.state(NAME) == "ticking"


def test_a_rounds_look_takes_no_turn_without_cause() -> None:
    """The look around takes a turn only where there is a run to rerun or a tick to catch up."""
    for options, seconds, runs in (
        ({"on_abandoned": "rerun"}, 31, 1),
        ({"on_abandoned": "rerun"}, 10, 0),
        ({"catch_up": "once", "grace": 5}, 200, 1),
        ({"catch_up": "once"}, 45, 0),
    ):
        fleet = Fleet("*/2 * * * *", **options)
        fleet.instance().die_holding("2026-11-18T09:00:00Z")
        fleet.world.until(seconds)
        one = fleet.instance()
        one.start()
        assert len(fleet.runs) == runs, (options, seconds)


def test_a_look_is_taken_also_after_a_restart() -> None:
    """What an instance was to look at again when it stopped is looked at when it has been started again."""
    fleet = Fleet(on_abandoned="rerun")
    dying, one = fleet.instance(), fleet.instance(recovery_interval=80_000)
    one.start()
    dying.die_holding("2026-11-18T09:00:00Z")
    one.turn("2026-11-18T09:00:00Z")
    one.crons.stop()
    one.start()
    one.turn("2026-11-18T09:00:00Z")
    fleet.world.until(35)
    assert [run.attempt for run in fleet.runs] == [2]


def test_rounds_survive_a_node_that_nobody_understands() -> None:
    """A malformed node is its next tick's trouble, and keeps the rounds from no other job."""
    fleet = Fleet(on_abandoned="rerun")
    fleet.world.put({"holder": 3})
    one = fleet.instance()
    one.start()
    assert (fleet.runs, one.said("heartbeat.failed")) == ([], [])


def test_a_lifespan_gives_its_loop_to_the_jobs() -> None:
    """Within a lifespan async jobs run on the application's loop, inside of one's own lifespan, whose state goes on."""
    crons, update = new_crons()
    order: list[str] = []
    loops: list[object] = []

    @distributed_cron("where", "* * * * *", lock_ttl=30)
    async def where(run: Run) -> None:
        loops.append(asyncio.get_running_loop())

    crons.registry.add(where)

    @asynccontextmanager
    async def mine(app: object) -> AsyncIterator[dict[str, int]]:
        order.append("mine begins")
        yield {"state": 1}
        order.append("stopped" if "crons.stopped" in update.slugs() else "still ticking")

    async def main() -> None:
        async with crons.lifespan_with(mine)(None) as state:
            assert state == {"state": 1}
            await asyncio.to_thread(crons.registry.trigger, "where")
            assert loops == [asyncio.get_running_loop()]
        async with crons.lifespan(None):
            assert crons.registry.state("where") == "ticking"
        assert crons.engine.runner.loop is None

    asyncio.run(main())
    assert order == ["mine begins", "stopped"]


def test_a_start_that_fails_leaves_no_loop_behind() -> None:
    """A lifespan whose start is refused raises, and async jobs don't wait for its loop."""
    crons, _ = new_crons(distributed_cron("short", "* * * * *", lock_ttl=2)(lambda: None))

    async def main() -> None:
        with pytest.raises(ConfigurationError):
            async with crons:
                raise AssertionError("it must not begin")

    asyncio.run(main())
    assert crons.engine.runner.loop is None


def test_a_flask_application_starts_it() -> None:
    """`init_app` starts, and is found among the application's extensions; anything else is refused."""
    crons, _ = new_crons(job)
    app = flask.Flask("app")
    crons.init_app(app)
    assert app.extensions["firecron"] is crons
    assert crons.registry.state(NAME) == "ticking"
    crons.stop()
    for other in (
        object(),
        SimpleNamespace(extensions={}),
        SimpleNamespace(extensions=None, app_context=app.app_context),
    ):
        with pytest.raises(ConfigurationError, match="Flask"):
            crons.init_app(other)
    assert crons.registry.state(NAME) == "idle"


def test_where_jobs_do_not_tick_no_database_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine that the guard keeps quiet, starting and stopping asks for no database."""
    for variable in ("RUNTIME_INSTANCE", "K_SERVICE", "FIRECRON_DATABASE_URL", "FIREBASE_DATABASE_EMULATOR_HOST"):
        monkeypatch.delenv(variable, raising=False)
    with FireCron(job) as crons:
        assert crons.registry.state(NAME) == "idle"


def test_where_jobs_are_to_tick_a_database_must_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where jobs are to tick and nothing says which database has their locks, starting refuses with the remedy."""
    for variable in ("FIRECRON_DATABASE_URL", "FIREBASE_DATABASE_EMULATOR_HOST", "FIREBASE_CONFIG"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(ConfigurationError, match="FIRECRON_DATABASE_URL"):
        FireCron(job, enabled=True).start()


def test_a_server_tells_why_a_start_has_failed_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """uvicorn logs the sentence alone, without a traceback, and fails; a program's own error keeps its traceback."""
    monkeypatch.delenv("FIREBASE_DATABASE_EMULATOR_HOST", raising=False)
    caplog.set_level(logging.ERROR, "uvicorn.error")
    crons = FireCron(job, enabled=True)

    @asynccontextmanager
    async def broken(app: object) -> AsyncIterator[None]:
        if app is not None:
            raise ValueError("the program's own")
        yield

    for lifespan in (crons.lifespan, crons.lifespan_with(broken)):
        server = uvicorn.Server(uvicorn.Config(Starlette(lifespan=lifespan), lifespan="on", log_config=None))
        with suppress(SystemExit):  # only newer versions exit by themselves
            asyncio.run(server.serve(sockets=[]))
        assert not server.started
    sentence, failed, trace, failed_too = [record.getMessage() for record in caplog.records]
    assert sentence.startswith("no database is named: set FIRECRON_DATABASE_URL")
    assert "\n" not in sentence
    assert failed == failed_too == "Application startup failed. Exiting."
    assert trace.startswith("Traceback ")
    assert trace.endswith("ValueError: the program's own\n")


def test_starts_that_fail_without_a_server_leave_one_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often a lifespan fails in a process that imports uvicorn, its logger gets no further filter."""
    monkeypatch.delenv("FIREBASE_DATABASE_EMULATOR_HOST", raising=False)
    logger = logging.getLogger("uvicorn.error")
    monkeypatch.setattr(logger, "filters", [])

    async def fail() -> None:
        async with FireCron(job, enabled=True).lifespan(None):
            raise AssertionError("it has started")

    for _ in range(3):
        with pytest.raises(ConfigurationError):
            asyncio.run(fail())
    assert len(logger.filters) == 1


def test_a_start_that_fails_shows_little_of_firecron(monkeypatch: pytest.MonkeyPatch) -> None:
    """The traceback of a start without a database ends in `start`."""
    monkeypatch.delenv("FIREBASE_DATABASE_EMULATOR_HOST", raising=False)
    with pytest.raises(ConfigurationError) as raised:
        FireCron(job, enabled=True).start()
    assert [entry.name for entry in raised.traceback[1:]] == ["start"]


def test_the_guard_can_look_at_another_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which variable the guard looks at, and for which value, can be set."""
    monkeypatch.setenv("STAGE", "live")
    crons, _ = new_crons(job, enabled=None, runtime_variable="STAGE", runtime_value="live")
    with crons:
        assert crons.registry.state(NAME) == "ticking"
    crons, update = new_crons(job, enabled=None, runtime_variable="STAGE", runtime_value="prod")
    with crons:
        assert crons.registry.state(NAME) == "idle"
    [message] = update.messages("crons.disabled")
    assert "STAGE is 'live', and jobs tick only where it is 'prod'" in message
