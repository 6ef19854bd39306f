"""What the doctor makes of what it has seen: its findings. A finding is ok, a warning or a problem, with the remedy.

Pure decisions, without I/O. No secret is part of a finding: URLs are shown without their users and queries, and of a
variable that may hold a key only that it is set.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Literal, TypeAlias

from firecron.base.identity import VARIABLES, find_cloud_run
from firecron.base.instants import to_text
from firecron.base.texts import plain, redacted
from firecron.errors import ConfigurationError, Denied, EmulatorDown, Malformed, StoreError
from firecron.lock.refusal import Instances
from firecron.ops.holds import HoldView
from firecron.ops.remedy import Remedy, command, service_in_words
from firecron.ops.views import LockView
from firecron.rtdb.target import Target
from firecron.scheduler.startup import Verdict
from firecron.settings import DEFAULTS, EMULATOR_HOST, Settings, unknown_variables

if TYPE_CHECKING:
    from firecron.jobs.decorator import Unclaimed
    from firecron.leaders.leaders import Leaders
    from firecron.ops.examined import Examined


# --- a finding

Level: TypeAlias = Literal["ok", "warning", "problem"]
Kind: TypeAlias = Literal["configuration", "unreachable", "denied", "malformed", "other"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the doctor's output. `kind` is the kind of the problem."""

    check: str
    level: Level
    message: str
    remedy: Remedy | None = None
    kind: Kind | None = None

    def to_json(self) -> dict[str, object]:
        """Return the finding for programs: it always has every field."""
        return {
            "check": self.check,
            "level": self.level,
            "message": self.message,
            "remedy": self.remedy and self.remedy.to_json(),
            "kind": self.kind,
        }


def ok(check: str, message: str) -> Finding:
    return Finding(check, "ok", message)


def warning(check: str, message: str, words: str, command: str | None = None) -> Finding:
    """Return a warning, with what to do in words, and the command for it, if there is one."""
    return Finding(check, "warning", message, Remedy(words, command=command))


def problem(check: str, message: str, words: str | None, kind: Kind = "other", command: str | None = None) -> Finding:
    """Return a problem, with what to do in words, and the command for it, if there is one."""
    return Finding(check, "problem", message, None if words is None else Remedy(words, command=command), kind)


def of_error(check: str, error: StoreError | ConfigurationError) -> Finding:
    """Return the finding for an error of the library. Some errors already name the remedy in their message."""
    told = redacted(str(error))
    match error:
        case ConfigurationError():
            return problem(check, told, None, "configuration")
        case Denied():
            return problem(check, told, None, "denied")
        case EmulatorDown():
            return problem(check, told, None, "unreachable")
        case Malformed():
            return problem(check, told, "mend the node in the Firebase console", "malformed")
        case _:
            return problem(
                check,
                told,
                "look at this machine's network and proxies, and at status.firebase.google.com",
                "unreachable",
            )


def totals(findings: Iterable[Finding]) -> str:
    """Return how many findings there are of each level, as a sentence: `18 ok, 1 warning`."""
    levels = [finding.level for finding in findings]
    counts = {level: levels.count(level) for level in ("ok", "warning", "problem")}
    words = {"ok": "ok", "warning": "warnings", "problem": "problems"}
    said = [f"{count} {level if count == 1 else words[level]}" for level, count in counts.items() if count]
    return ", ".join(said) or "nothing was found"


def worst(findings: Iterable[Finding]) -> Kind | None:
    """Return the kind of the problem to solve first, None without a problem."""
    kinds = {finding.kind or "other" for finding in findings if finding.level == "problem"}
    order: tuple[Kind, ...] = ("configuration", "unreachable", "denied", "malformed", "other")
    return next((kind for kind in order if kind in kinds), None)


# --- the process: what is installed and set here

_KEY_FILE = "GOOGLE_APPLICATION_CREDENTIALS"
_LOOKED_AT = (
    "FIRECRON_DATABASE_URL",
    "FIREBASE_CONFIG",
    _KEY_FILE,
    EMULATOR_HOST,
    *VARIABLES,
)
# The value may be a whole configuration, so only its presence is shown.
_NOT_SHOWN = {"FIREBASE_CONFIG"}


def versions(found: Mapping[str, str]) -> Finding:
    """Return the versions of the installed packages."""
    return ok("versions", ", ".join(f"{name} {version}" for name, version in found.items()))


def environment(variables: Mapping[str, str]) -> Iterator[Finding]:
    """Yield which of the variables that lead to the database are set, and whether they fit together."""
    shown = [f"{name}{_shown(name, variables[name])}" for name in _LOOKED_AT if variables.get(name)]
    yield ok(
        "environment", f"found {', '.join(shown)}" if shown else "none of the variables that firecron reads is set"
    )
    for message, remedy in unknown_variables(variables):
        yield warning("environment", message, remedy)
    if variables.get(_KEY_FILE, "").lstrip().startswith("{"):
        yield problem(
            "environment",
            f"{_KEY_FILE} holds a key, but must hold the path of a key's file",
            f"put the key into a file, and that file's path into {_KEY_FILE}; on Cloud Run neither is needed",
            "configuration",
        )
    place = find_cloud_run(variables)
    if variables.get(EMULATOR_HOST) and place is not None:
        yield problem(
            "environment",
            f"{EMULATOR_HOST}{_shown(EMULATOR_HOST, variables[EMULATOR_HOST])} is set on Cloud Run: each instance "
            "would take its locks in an emulator",
            f"remove {EMULATOR_HOST} from the {place.kind}",
            "configuration",
        )


def _shown(name: str, value: str) -> str:
    # A value with a brace may be a whole key.
    return "" if name in _NOT_SHOWN or "{" in value else f"={redacted(without_query(value))}"


def settings(values: Settings) -> Iterator[Finding]:
    """Yield the settings that differ from their defaults, the prefix and the roles."""
    changed = [
        f"{name}={redacted(without_query(value)) if isinstance(value, str) else value!r}"
        for name, default in DEFAULTS.items()
        if (value := getattr(values, name)) != default and name not in ("roles", "prefix", "database_url")
    ]
    yield ok("settings", ", ".join(changed) if changed else "all have their defaults")
    yield ok("prefix", f"all nodes are below {values.prefix}/" if values.prefix else "none: all nodes are at the root")
    if values.roles:
        yield ok("roles", f"{', '.join(values.roles)}: jobs with another role don't run here")
    else:
        yield ok("roles", "none, as FIRECRON_ROLES is not set: jobs with a role don't run here")


def without_query(url: str) -> str:
    """Return a URL without the parts that may be a secret: its user, and its query except for the namespace."""
    base, _, query = url.partition("?")
    scheme, separator, rest = base.rpartition("://")
    namespaces = [part for part in query.split("&") if part.startswith("ns=")]
    user, _, after = rest.rpartition("@")
    host = after if separator or ":" in user else rest
    return f"{scheme}{separator}{host}{'?' if namespaces else ''}{'&'.join(namespaces)}"


def guard(values: Settings, verdict: Verdict, variables: Mapping[str, str]) -> Iterator[Finding]:
    """Yield whether jobs tick here, and whether they have CPU for it."""
    if verdict.may_tick:
        yield ok("guard", f"jobs tick here: {verdict.why}")
    elif verdict.is_suspicious:
        remedy = f"if they should tick here, set {values.runtime_variable}={values.runtime_value}"
        yield warning("guard", f"jobs don't tick here: {verdict.why}", remedy)
    else:
        yield ok("guard", f"jobs don't tick here: {verdict.why}")
    place = find_cloud_run(variables)
    if place is None or not verdict.may_tick:
        return
    if place.kind == "service":
        yield ok(
            "billing",
            "can't be seen from inside: with request-based billing, the default, jobs tick only while a request is "
            f"served; the service {place.name} needs instance-based billing (--no-cpu-throttling) and a minimum of one "
            "instance (--min 1), or a trigger from outside",
        )
    elif place.kind == "worker pool":
        yield ok("billing", f"the worker pool {place.name} has CPU all the time")


def jobs(
    here: Sequence[str],
    elsewhere: Sequence[str],
    odd: Sequence[str],
    unclaimed: Sequence[Unclaimed],
    *,
    has_leaders: bool = False,
) -> Iterator[Finding]:
    """Yield which jobs tick on this machine and which don't, the warnings about them, and the jobs that never run."""
    if here or elsewhere:
        yield _placed("jobs", here, elsewhere)
    elif not has_leaders:
        yield warning("jobs", "the application has no jobs", "give the functions to it: FireCron(*jobs)")
    for message in odd:
        yield Finding("jobs", "warning", message)  # the message names the remedy itself
    for job in unclaimed:
        yield warning(
            "jobs",
            f"{job.name} ({job.where}) is declared, but no FireCron was given it: it never runs",
            "give the function, or the object that it is a method of, to FireCron",
        )


def _placed(check: str, here: Sequence[str], elsewhere: Sequence[str]) -> Finding:
    not_here = f"; disabled, or with a role that isn't set here: {', '.join(elsewhere)}" if elsewhere else ""
    return ok(check, f"{', '.join(here) or 'none'}{not_here}")


def leaders(found: Leaders) -> Iterator[Finding]:
    """Yield which leaders stand on this machine and which don't, and durations that look like milliseconds."""
    everywhere = found.all()
    here = [leader.name for leader in everywhere if found.stands_here(leader)]
    elsewhere = [leader.name for leader in everywhere if leader.name not in here]
    if everywhere:
        yield _placed("leaders", here, elsewhere)
    for leader in everywhere:
        for doubt in leader.options.doubts:
            yield Finding("leaders", "warning", f'"{leader.name}": {doubt}')


# --- the database: which one, how fast, and what it has

_SLOW = 0.25
_WALL_OFF = 5_000


def database(target: Target) -> Finding:
    """Return which database is used."""
    where = target.in_words
    if target.unknown_host is not None:
        found = f"{where}: the host is not one of Firebase's, and this service's access token is sent there"
        return warning(
            "database", found, "check FIRECRON_DATABASE_URL: is it *.firebaseio.com or *.firebasedatabase.app?"
        )
    return ok("database", where)


def credentials(kind: str, account: str | None) -> Finding:
    """Return which kind of credentials gave a token, and the account they belong to."""
    return ok("credentials", f"{kind}{f' of {account}' if account else ''}; a token was given")


def latency(seconds: Sequence[float]) -> Finding:
    """Return how long reads take: the median, because the first read opens the connection."""
    found = f"{median(seconds) * 1000:.0f} ms, the median of {len(seconds)} reads"
    if median(seconds) > _SLOW:
        return warning("latency", found, "run in the database's region: every claim takes one to three such trips")
    return ok("latency", found)


def clock(wall_ahead: float, uncertainty: float, margin: float) -> Iterator[Finding]:
    """Yield how well RTDB's time is known, and how far this machine's clock is from it. All are in milliseconds."""
    known = f"RTDB's time is known to {uncertainty:.0f} ms; the margin is {margin:.0f} ms"
    if uncertainty > margin / 2:
        yield warning("clock", known, "look for a slow network, or raise FIRECRON_MARGIN, in the whole fleet")
    else:
        yield ok("clock", known)
    direction = "ahead of" if wall_ahead > 0 else "behind"
    found = f"this machine's clock is {abs(wall_ahead) / 1000:.1f} s {direction} RTDB's"
    if abs(wall_ahead) > _WALL_OFF:
        yield warning(
            "wall clock",
            f"{found}; no lock depends on it, but log lines and access tokens do",
            "set this machine's clock: is its NTP service running?",
        )
    else:
        yield ok("wall clock", found)


def watch(error: StoreError | None) -> Finding:
    """Return whether the database reports changes."""
    if error is None:
        return ok("watch", "RTDB tells of changes: whoever waits for a lock hears of its release")
    return warning(
        "watch",
        f"RTDB does not tell of changes, so whoever waits asks every few seconds: {redacted(str(error))}",
        "let Server-Sent Events pass through the proxy unbuffered, or set FIRECRON_WATCH=0",
    )


def locks(views: Sequence[LockView]) -> Iterator[Finding]:
    """Yield the locks that are malformed, blocked, cancelled, or held by a silent instance; else how many are held."""
    broken = [view for view in views if view.problem is not None]
    for view in broken:
        if view.state == "malformed":
            told = f"{view.name} is malformed, and no instance can acquire it: {view.problem}"
            yield Finding("locks", "problem", told, view.remedy, "malformed")
        elif view.is_stuck:
            yield Finding("locks", "problem", f"{view.name} is blocked: {view.problem}", view.remedy, "other")
        else:
            yield Finding("locks", "warning", f"{view.name} is held by {view.owner}: {view.problem}", view.remedy)
    asked = [view for view in views if view.is_cancelled and view.state == "held" and view.problem is None]
    for view in asked:
        told = f"{view.name} is cancelled, and {view.owner} has not ended the run yet"
        remedy = "the run learns of it at its next renewal; does its code call run.check(), or await?"
        yield warning("locks", told, remedy)
    if not broken and not asked:
        yield ok("locks", f"{len(views)} in the database, {sum(view.is_taken for view in views)} of them held")


def holds(views: Iterable[HoldView]) -> Iterator[Finding]:
    """Yield what is held, which jobs are not held although they should be, and what a hold has left behind."""
    for view in views:
        hold, who = view.hold, plain(view.hold.by)
        if not view.stands:
            some = f"{view.jobs[0]} and {len(view.jobs) - 1} more are" if len(view.jobs) > 1 else f"{view.jobs[0]} is"
            told = f"{some} still paused with hold {hold.name} by {who}, which was taken back or deleted"
            yield warning("holds", told, "resume what it has left behind", f"firecron unhold {hold.name}")
        elif view.not_held:
            told = (
                f"{who} holds {hold.what} until {to_text(hold.until)}, but not {', '.join(view.not_held[:_MOST_NAMED])}"
            )
            more = len(view.not_held) - _MOST_NAMED
            remedy = "pause them (firecron pause), or hold again, unless somebody has resumed them"
            yield warning("holds", f"{told}{f' and {more} more' if more > 0 else ''}", remedy)
        else:
            yield ok("holds", f"{who} holds {hold.what} until {to_text(hold.until)}: {plain(hold.why or '')}")


def schedules(found: Examined) -> Iterator[Finding]:
    """Yield what keeps the schedules of a stored job from running; else how many there are."""
    job, odd = plain(found.job), list[Finding]()
    if not found.has_index:
        told = f"the rules have no .indexOn for the schedules of {job}, so they are looked for every 5 minutes only"
        odd.append(warning("schedules", told, "deploy the security rules of this version", _RULES))
    if found.undeclared is not None:
        words = "declare it with @scheduled, or remove its schedules"
        odd.append(warning("schedules", found.undeclared, words, command("schedules", job)))
    if found.malformed:
        words = "put them again, or correct them in the Firebase console; then compute anew when they are looked at"
        told = f"{job} can't run by {_some(found.malformed)}"
        odd.append(warning("schedules", told, words, command("schedule", "mend", job)))
    if found.unusable:
        words = "put them again with arguments that it takes, or deploy a version that takes these"
        told = f"{job} can't be called with the arguments of {_some(found.unusable)}"
        odd.append(warning("schedules", told, words, command("schedules", job, next(iter(found.unusable)))))
    yield from odd
    if not odd:
        count = f"{found.read:,} schedules" if found.is_whole else f"its first {found.read:,} schedules"
        yield ok("schedules", f"{job} can run by {count}")


def _some(problems: Mapping[str, str]) -> str:
    """Return how many schedules have a problem, and what that of the first one is."""
    first, why = next(iter(problems.items()))
    return f"{len(problems):,} of its schedules (first: {first}: {why})"


def instances(found: Instances, now: int, nodes: object = None) -> Iterator[Finding]:
    """Yield how many instances are alive, and which ones have fallen silent. Their `nodes` say what they are of."""
    silent = found.silent(now)
    yield ok("instances", f"{len(found.seen) - len(silent)} alive")
    for name, at in silent.items():
        yield warning(
            "instances",
            f"{name}{_of_revision(nodes, name)} was seen last at {to_text(at)}, {(now - at) / 1000:.0f} s ago",
            "it died, or has no CPU between requests; the other instances remove its node after ten beats",
        )


# A revision of Cloud Run begins with its service.
_REVISION = re.compile(r"(.+)-[0-9]{5}-[a-z0-9]{3}")


def _of_revision(nodes: object, name: str) -> str:
    """Return the service and the revision of an instance in words, as its node says them."""
    node = nodes.get(name) if isinstance(nodes, Mapping) else None
    revision = node.get("instanceId") if isinstance(node, Mapping) else None
    if not isinstance(revision, str) or revision in ("", "local"):
        return ""
    found = _REVISION.fullmatch(revision)
    return f" of {plain(revision)}" if found is None else f" of the service {plain(found[1])} ({plain(revision)})"


def unattended(names: Sequence[str], services: Collection[str] = ()) -> Finding:
    """Return that no live instance runs these jobs by their schedules. These services have declared them last."""
    of = f" of {' or '.join(sorted(map(service_in_words, services)))}" if services else ""
    return warning(
        "instances",
        f"no instance{of} that is alive has {', '.join(names)}: nothing runs these jobs by their schedules",
        "start the application where its jobs should tick: does the server call its lifespan, or the program start()? "
        "If only triggers run them: FireCron(..., enabled=False)",
    )


_MOST_NAMED = 10


# --- the security rules

_RULES = "firecron rules"


def administrator() -> Finding:
    """Return that this process has no auth override, so that security rules don't apply to it."""
    return ok(
        "rules",
        "this process is an administrator, as FIRECRON_UID is not set, and security rules don't apply to it",
    )


def rules(user: str, writes_elsewhere: bool, takes_live_locks: bool) -> Iterator[Finding]:
    """Yield whether the security rules limit this user to the writes that firecron needs."""
    remedy = "deploy the security rules of this version, and grant nothing above their paths"
    yield ok("rules", f"this process is {user}, and security rules apply to it")
    if writes_elsewhere:
        yield warning("rules", "the rules let it write outside of its own paths", remedy, _RULES)
    if takes_live_locks:
        yield warning("rules", "the rules let it overwrite a lock that another holder has", remedy, _RULES)
    if not (writes_elsewhere or takes_live_locks):
        yield ok("rules", "the rules refused a write outside of its paths, and one to a lock that another holder has")


def reader(user: str, *, may_tick: bool) -> Finding:
    """Return that the security rules let this user read, and nothing more."""
    told = f"this process is {user}, and the rules let it read, but not write"
    words = "let FIRECRON_UID name the user that the rules let write (firecron), or deploy rules for that user"
    command = f"{_RULES} --uid firecron"
    if may_tick:
        return problem("rules", f"{told}: jobs tick here, and none can run", words, "denied", command)
    shown = f"{told}: it can show everything (status, check, page --read-only), and do nothing"
    return warning("rules", shown, f"if it is to do more, {words}", command)


# What the rules of an earlier version don't know, and what doesn't work by them.
_UNKNOWN = {
    "groups": "the rules don't know cron-groups, so every instance asks for every tick, however large the fleet is, "
    "and nobody sees which jobs it runs",
    "steps": "the rules don't know cron-steps, so a job that calls run.step fails, and so does locks.once",
    "errors": "the rules don't know cron-errors, so no traceback of a failed run is kept",
    "acts": "the rules don't know cron-acts, so nobody sees who paused or unlocked a lock, and no pause ends by itself",
    "jobs": "the rules don't let it write cron-jobs, so the catalogue of jobs stays empty",
    "holds": "the rules don't know cron-hold, so a job that is declared during a hold is not held",
    "mutes": "the rules don't know cron-mutes, so no job can be muted",
    "asks": "the rules don't know cron-asks, so nobody can ask for a run where the code of the job is not at hand",
    "schedules": "the rules don't know cron-schedules, so no stored schedule is looked at",
    "told": "the rules don't know cron-told, so firecron.notify tells nobody of a job",
}


def old_rules(node: str) -> Finding:
    """Return that the security rules are older than what is below this node."""
    return warning("rules", _UNKNOWN[node], "deploy the security rules of this version", _RULES)


def left_behind(path: str, error: StoreError) -> Finding:
    """Return that the doctor could not undo its own test write."""
    return warning(
        "rules",
        f"the test write to {path} could not be deleted: {redacted(str(error))}",
        f"delete {path} in the Firebase console",
    )


def strangers(may_read: bool, *, is_emulator: bool) -> Finding:
    """Return whether the locks can be read without credentials."""
    if not may_read:
        return ok("strangers", "without credentials nothing can be read")
    if is_emulator:
        return ok("strangers", "every client of this emulator can read it: it has no rules")
    return warning(
        "strangers",
        "anybody in the world can read cron-locks, and perhaps write there",
        "deploy rules that deny it, such as those of this version",
        _RULES,
    )
