"""The doctor: checks everything that firecron depends on, here and now.

`examine` yields each finding as soon as it is known. `findings` decides what a finding says.

The doctor uses the same database and the same user as the library. It writes what any instance writes: a request for
RTDB's time, and a lock of its own, under a name that is used nowhere else. Under an auth override it also makes two
writes that the security rules should refuse, and undoes them if the rules allow them. It ends at the first failed step
that other steps need. No token or key is ever part of a finding.
"""

from __future__ import annotations

import os
import platform
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version

from firecron import __version__
from firecron.base.clocks import Deadline, SystemTiming, Timing
from firecron.errors import ConfigurationError, Denied, StoreError, Unavailable
from firecron.jobs.catalogue import changed, live_groups_of, probe, read_declared, read_groups
from firecron.jobs.decorator import Unclaimed
from firecron.lock.blocks import try_once
from firecron.lock.database import Database
from firecron.lock.refusal import Refusal, inspect_instances
from firecron.ops import findings
from firecron.ops.examined import examine_schedules
from firecron.ops.findings import Finding, of_error, ok, warning
from firecron.ops.holds import Holds
from firecron.ops.operator import Operator
from firecron.ops.views import children
from firecron.rtdb.store import may_read
from firecron.rtdb.target import Target, find_target
from firecron.rtdb.tokens import Credential, RefreshingTokens, google_fetch
from firecron.scheduler.startup import Program, evaluate_guard
from firecron.settings import Settings, load
from firecron.store import NULL_ETAG, Snapshot, Watching

_READS = 5
_TOKEN_TIMEOUT = 10.0
_LEAST_TTL = 10.0
_PACKAGES = ("firebase-admin", "google-auth", "requests", "urllib3", "pydantic", "croniter", "tzdata")


def examine(
    variables: Mapping[str, str] = os.environ,
    crons: Program | None = None,
    unclaimed: Sequence[Unclaimed] = (),
) -> Iterator[Finding]:
    """Yield all findings, for this process as it is, or for an application.

    `variables` is the environment. `crons` is the application's FireCron, None to examine this process alone.
    `unclaimed` are jobs that no FireCron was given.
    """
    yield findings.versions(dict(_versions()))
    yield from findings.environment(variables)
    try:
        settings = load() if crons is None else crons.database.settings
        yield from findings.settings(settings)
        verdict = evaluate_guard(None, settings, variables) if crons is None else crons.verdict
        yield from findings.guard(settings, verdict, variables)
        if crons is not None:
            yield from _examine_jobs(crons, unclaimed)
        target = _target_of(crons, settings, variables)
    except ConfigurationError as error:
        yield of_error("configuration", error)
        return
    yield findings.database(target)
    timing = SystemTiming()
    try:
        if target.load_credential is not None:
            yield _examine_credentials(target.load_credential, timing)
        else:
            yield ok("credentials", "an emulator needs no credentials")
    except StoreError as error:
        yield of_error("credentials", error)
        return
    database = Database(settings=settings) if crons is None else crons.database
    try:
        wanted = [] if crons is None else _wanted(crons)
        yield from Examination(database, may_tick=verdict.may_tick).findings(target, wanted)
    finally:
        database.close()


class Examination:
    """The examination of one database."""

    def __init__(self, database: Database, *, may_tick: bool) -> None:
        self._database = database
        self._may_tick = may_tick
        self._name = f"firecron-doctor-{secrets.token_hex(6)}"
        self._left_behind: list[tuple[str, StoreError]] = []

    def findings(self, target: Target, wanted: Sequence[str] = ()) -> Iterator[Finding]:
        """Yield the findings. They end with the first step that the database can't be reached for, or denies.

        `wanted` are the jobs that some instance should run by their schedules.
        """
        step = "reading"
        try:
            yield self._latency()
            step = "clock"
            if (clock := self._clock()) is None:
                yield findings.reader(target.user, may_tick=self._may_tick)
            else:
                yield from clock
                step = "writing"
                yield from self._writing(target)
            if self._database.streams.can_watch:
                yield self._watch()
            step = "strangers"
            yield self._strangers(target)
            step = "locks"
            yield from findings.locks(Operator(self._database).read_all(with_holders=True).views)
            step = "holds"
            with suppress(Denied):  # the rules are older than the catalogue, which another finding says
                yield from findings.holds(Holds(self._database).seen())
            step = "schedules"
            with suppress(Denied):  # the rules are older than stored schedules, which another finding says
                for examined in examine_schedules(self._database):
                    yield from findings.schedules(examined)
            step = "instances"
            yield from self._instances()
            if wanted:
                yield from self._unattended(wanted)
        except (StoreError, ConfigurationError) as error:
            yield of_error(step, error)
        for path, why in self._left_behind:
            yield findings.left_behind(path, why)

    def _latency(self) -> Finding:
        path, mono = self._database.paths.lock(self._name), self._database.timing.mono
        seconds = []
        for _ in range(_READS):
            before = mono()
            self._database.store.read(path, self._database.deadline())
            seconds.append((mono() - before) / 1000)
        return findings.latency(seconds)

    def _clock(self) -> Iterator[Finding] | None:
        """Return how well the time is known; None if this user, who has read, may not write to ask for it."""
        try:
            moment = self._database.clock.now(self._database.deadline(self._database.settings.acquire_timeout))
        except Denied:
            return None
        now = moment.server + self._database.timing.mono() - moment.mono
        return findings.clock(self._database.timing.wall() - now, moment.uncertainty, self._database.margin)

    def _writing(self, target: Target) -> Iterator[Finding]:
        """Acquire and release a lock as any instance does: a conditional write, and a conditional deletion."""
        bid = self._database.bid(self._name, max(_LEAST_TTL, self._database.settings.least_ttl))
        lease = try_once(self._database, bid)
        if isinstance(lease, Refusal):
            raise lease.error or Unavailable(lease.message)
        about_rules = [findings.administrator()]
        try:
            if "auth_variable_override" in target.parameters:
                writes_elsewhere = self._is_written(self._name, NULL_ETAG, {"probe": True})
                takes_live_locks = self._takes_live_lock()
                about_rules = list(findings.rules(target.user, writes_elsewhere, takes_live_locks))
                paths = self._database.paths
                known = {"groups": paths.groups, "steps": paths.steps, "errors": paths.errors, "acts": paths.acts}
                known |= {"holds": paths.holds, "mutes": paths.mutes, "told": paths.told, "asks": paths.asks}
                known |= {"schedules": paths.schedules}
                about_rules += [findings.old_rules(node) for node, path in known.items() if not self._may_see(path)]
                if not self._may_declare():
                    about_rules.append(findings.old_rules("jobs"))
        finally:
            lease.release()
        path = self._database.paths.lock(self._name)
        if self._database.node(path) is None:
            yield ok("writing", "a lock was acquired, released, and removed")
        else:
            remedy = f"delete {path} in the Firebase console"
            yield warning("writing", "a lock was acquired, but could not be removed", remedy)
        yield from about_rules

    def _watch(self) -> Finding:
        """Open a stream as somebody does who waits for a lock."""
        store = self._database.store
        assert isinstance(store, Watching), "else there are no streams"
        try:
            store.watch(self._database.paths.lock(self._name), self._database.deadline()).close()
        except StoreError as error:
            return findings.watch(error)
        return findings.watch(None)

    def _takes_live_lock(self) -> bool:
        """Return whether the rules allow another holder to overwrite a held lock. The lock is the doctor's own."""
        path = self._database.paths.lock(self._name)
        held = self._database.store.read(path, self._database.deadline())
        assert isinstance(held.node, dict), "the lock was acquired a moment ago"
        other = {**held.node, "holder": "somebody-else", "acquiredAt": held.node["acquiredAt"] + 1}
        return self._is_written(path, held.etag, other)

    def _may_see(self, path: str) -> bool:
        """Return whether the rules know this path: rules that are older than what is there deny it."""
        try:
            self._database.store.keys(path, self._database.deadline())
        except Denied:
            return False
        return True

    def _may_declare(self) -> bool:
        """Return whether the rules let this user read the catalogue, and write and remove an entry."""
        path, node = self._database.paths.job(self._name), changed(probe(self._name), None)
        return self._may_see(path) and node is not None and self._is_written(path, NULL_ETAG, node)

    def _is_written(self, path: str, etag: str, node: dict[str, object]) -> bool:
        """Return whether the rules allow this write, and delete what was written.

        A node that can't be deleted is noted, and reported at the end.
        """
        try:
            answer = self._database.store.swap(path, etag, node, self._database.deadline())
        except Denied:
            return False
        if isinstance(answer, Snapshot):
            raise Unavailable(f"{path} was changed by another client during the test: run the doctor again")
        try:
            self._database.store.swap(path, answer, None, self._database.deadline())
        except StoreError as error:
            self._left_behind.append((path, error))
        return True

    def _strangers(self, target: Target) -> Finding:
        is_open = may_read(target, self._database.paths.locks, self._database.deadline())
        return findings.strangers(is_open, is_emulator=target.is_emulator)

    def _instances(self) -> Iterator[Finding]:
        nodes = self._database.node(self._database.paths.instances)
        now = self._database.now(self._database.deadline())
        yield from findings.instances(inspect_instances(nodes, self._database.settings.heartbeat), now, nodes)

    def _unattended(self, wanted: Sequence[str]) -> Iterator[Finding]:
        try:
            groups = read_groups(self._database.node(self._database.paths.groups))
        except Denied:
            return  # the rules are older than the groups, which another finding says
        now = self._database.now(self._database.deadline())
        missing = [name for name in wanted if not live_groups_of(name, groups, now)]
        if missing:
            yield findings.unattended(missing, self._services_of(missing))

    def _services_of(self, names: Iterable[str]) -> set[str]:
        """Return the services that have declared these jobs, as far as the catalogue says it."""
        try:
            nodes = children(self._database.node(self._database.paths.jobs), self._database.paths.jobs)
        except StoreError:
            return set()  # another finding says so
        declared = (read_declared(name, nodes.get(name)) for name in names)
        return {one.service for one in declared if one is not None and one.service not in ("", "local")}


def _versions() -> Iterator[tuple[str, str]]:
    """Yield the names and versions of the packages that are installed here."""
    yield "firecron", __version__
    yield "Python", platform.python_version()
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):  # it is not installed here
            yield package, version(package)


def _examine_jobs(crons: Program, unclaimed: Sequence[Unclaimed]) -> Iterator[Finding]:
    """Yield the findings about the jobs: the errors and warnings that `start` would give."""
    problem: Finding | None = None
    try:
        crons.engine.check_all()
    except ConfigurationError as error:
        problem = of_error("jobs", error)
    engine = crons.engine
    jobs = engine.registry.jobs()
    odd = [warning for job in jobs for warning in engine.checks.warnings(job)]
    here = [job.name for job in jobs if engine.registry.ticks_here(job)]
    elsewhere = [job.name for job in jobs if job.name not in here]
    yield from findings.jobs(here, elsewhere, odd, unclaimed, has_leaders=bool(engine.leaders.all()))
    yield from findings.leaders(engine.leaders)
    if problem is not None:
        yield problem


def _wanted(crons: Program) -> list[str]:
    """Return the jobs that some instance should run by their schedules.

    There are none where the program says that it doesn't tick: triggers may be all that runs its jobs.
    """
    if crons.verdict.is_forced and not crons.verdict.may_tick:
        return []
    return [job.name for job in crons.engine.registry.jobs(stored=False) if not job.options.disabled]


def _target_of(crons: Program | None, settings: Settings, variables: Mapping[str, str]) -> Target:
    """Return the application's own target if there is an application: it may have a Firebase app of its own."""
    if crons is not None:
        return crons.database.target()
    return find_target(None, settings.database_url, variables, uid=settings.uid)


def _examine_credentials(load_credential: Callable[[], Credential], timing: Timing) -> Finding:
    loaded: list[Credential] = []

    def load_and_keep() -> Credential:
        loaded.append(load_credential())
        return loaded[0]

    RefreshingTokens(load_and_keep, google_fetch(_TOKEN_TIMEOUT), timing).header(Deadline.after(timing, _TOKEN_TIMEOUT))
    [credential] = loaded
    account = getattr(credential, "service_account_email", None)
    return findings.credentials(_kind(credential), account if isinstance(account, str) else None)


def _kind(credential: Credential) -> str:
    module = type(credential).__module__
    if module.startswith("google.oauth2.service_account"):
        return "a service account's key"
    if module.startswith("google.auth.compute_engine"):
        return "the metadata server's service account"
    if module.startswith("google.oauth2.credentials"):
        return "a person's, by gcloud auth application-default login"
    return f"{module}.{type(credential).__name__}"
