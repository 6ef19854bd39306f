"""What `doctor` finds, as values: each is ok, a warning or a problem, with the remedy. Pure decisions over what was
seen; who looks is `doctor`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Literal, TypeAlias

from firecron.base.cloud_run import VARIABLES, find_cloud_run
from firecron.base.instants import to_text
from firecron.base.redaction import REDACTED, redacted
from firecron.errors import ConfigurationError, Denied, EmulatorDown, Malformed, StoreError
from firecron.lock.instances import Instances
from firecron.ops.views import LockView
from firecron.rtdb.target import Target
from firecron.scheduler.guard import Verdict
from firecron.settings import EMULATOR_HOST, Settings, unknown_variables

if TYPE_CHECKING:
    from firecron.jobs.declarations import Unclaimed

Level: TypeAlias = Literal["ok", "warning", "problem"]
Kind: TypeAlias = Literal["configuration", "unreachable", "denied", "malformed", "other"]

_KEY_FILE = "GOOGLE_APPLICATION_CREDENTIALS"
_LOOKED_AT = (
    "FIRECRON_DATABASE_URL",
    "FIREBASE_CONFIG",
    _KEY_FILE,
    EMULATOR_HOST,
    *VARIABLES,
)
# This may be a whole configuration: enough that it is there.
_NOT_SHOWN = {"FIREBASE_CONFIG"}

_SLOW = 0.25
_WALL_OFF = 5_000


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the doctor's. `kind` is what sort of problem it is."""

    check: str
    level: Level
    message: str
    remedy: str | None = None
    kind: Kind | None = None


def ok(check: str, message: str) -> Finding:
    return Finding(check, "ok", message)


def warning(check: str, message: str, remedy: str) -> Finding:
    return Finding(check, "warning", message, remedy)


def problem(check: str, message: str, remedy: str | None, kind: Kind = "other") -> Finding:
    return Finding(check, "problem", message, remedy, kind)


def of_error(check: str, error: StoreError | ConfigurationError) -> Finding:
    """What an error of the library's means here. The message of some names the remedy already."""
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


def versions(found: Mapping[str, str]) -> Finding:
    """What is installed here."""
    return ok("versions", ", ".join(f"{name} {version}" for name, version in found.items()))


def environment(variables: Mapping[str, str]) -> Iterator[Finding]:
    """Which of the variables that lead to the database are there, and whether they fit together."""
    shown = [f"{name}{_shown(name, variables[name])}" for name in _LOOKED_AT if variables.get(name)]
    yield ok("environment", f"found {', '.join(shown)}" if shown else "none of the variables that firecron looks at")
    for message, remedy in unknown_variables(variables):
        yield warning("environment", message, remedy)
    if variables.get(_KEY_FILE, "").lstrip().startswith("{"):
        yield problem(
            "environment",
            f"{_KEY_FILE} holds a key: it has to be the path of a key's file",
            f"put the key into a file, and that file's path into {_KEY_FILE}; on Cloud Run neither is needed",
            "configuration",
        )
    place = find_cloud_run(variables)
    if variables.get(EMULATOR_HOST) and place is not None:
        yield problem(
            "environment",
            f"{EMULATOR_HOST}{_shown(EMULATOR_HOST, variables[EMULATOR_HOST])} is set on Cloud Run: each instance "
            "would lock in an emulator",
            f"remove {EMULATOR_HOST} from the {place.kind}",
            "configuration",
        )


def database(target: Target) -> Finding:
    """Which database it is."""
    where = database_in_words(target)
    if target.unknown_host is not None:
        found = f"{where}: the host is none of Firebase's, and this service's access token is sent there"
        return warning(
            "database", found, "check FIRECRON_DATABASE_URL: is it *.firebaseio.com or *.firebasedatabase.app?"
        )
    return ok("database", where)


def database_in_words(target: Target) -> str:
    """Which database it is, without what may be a secret in its URL."""
    url = redacted(without_query(target.base_url))
    if not target.is_emulator:
        return url
    name = target.parameters.get("ns", "")
    # A name has neither: it was cut from a URL with a password.
    return f"the emulator at {url}, database {REDACTED if ':' in name or '@' in name else name}"


def settings(values: Settings) -> Iterator[Finding]:
    """What is set otherwise than by default."""
    changed = [
        f"{name}={redacted(without_query(value)) if isinstance(value, str) else value!r}"
        for name, field in type(values).model_fields.items()
        if (value := getattr(values, name)) != field.default and name not in ("roles", "prefix", "database_url")
    ]
    yield ok("settings", ", ".join(changed) if changed else "all as by default")
    yield ok("prefix", f"all nodes are below {values.prefix}/" if values.prefix else "none: all nodes are at the root")
    if values.roles:
        yield ok("roles", f"{', '.join(values.roles)}: jobs with another role don't run here")
    else:
        yield ok("roles", "none, as FIRECRON_ROLES is not set: jobs with a role don't run here")


def guard(values: Settings, verdict: Verdict, variables: Mapping[str, str]) -> Iterator[Finding]:
    """Whether jobs tick here, and whether they have CPU for it."""
    if verdict.may_tick:
        yield ok("guard", f"jobs tick here: {verdict.why}")
    elif verdict.is_suspicious:
        remedy = f"if they are to tick here: set {values.runtime_variable}={values.runtime_value}"
        yield warning("guard", f"jobs don't tick here: {verdict.why}", remedy)
    else:
        yield ok("guard", f"jobs don't tick here: {verdict.why}")
    place = find_cloud_run(variables)
    if place is None or not verdict.may_tick:
        return
    if place.kind == "service":
        yield ok(
            "billing",
            "not to be seen from inside: with request-based billing, the default, jobs tick only while a request is "
            f"served; the service {place.name} needs instance-based billing (--no-cpu-throttling) and a minimum of one "
            "instance (--min 1), or a trigger from outside",
        )
    elif place.kind == "worker pool":
        yield ok("billing", f"the worker pool {place.name} has CPU all the time")


def jobs(
    here: Sequence[str], elsewhere: Sequence[str], odd: Sequence[str], unclaimed: Sequence[Unclaimed]
) -> Iterator[Finding]:
    """Which jobs an application has for this machine, what is odd about them, and which ones never run."""
    if here or elsewhere:
        not_here = f"; disabled, or with a role that isn't here: {', '.join(elsewhere)}" if elsewhere else ""
        yield ok("jobs", f"{', '.join(here) or 'none'}{not_here}")
    else:
        yield warning("jobs", "the application has no jobs", "give the functions to it: FireCron(*jobs)")
    for message in odd:
        yield Finding("jobs", "warning", message)  # which names its remedy itself
    for job in unclaimed:
        yield warning(
            "jobs",
            f"{job.name} ({job.where}) is declared, but no FireCron was given it: it never runs",
            "give the function, or the object that it is a method of, to FireCron",
        )


def latency(seconds: Sequence[float]) -> Finding:
    """How long reads take; the median, because the first one makes the connection."""
    found = f"{median(seconds) * 1000:.0f} ms, the median of {len(seconds)} reads"
    if median(seconds) > _SLOW:
        return warning("latency", found, "run in the database's region: every claim takes one to three such trips")
    return ok("latency", found)


def clock(wall_ahead: float, uncertainty: float, margin: float) -> Iterator[Finding]:
    """How well RTDB's time is known, and how far this machine's clock is from it; all in milliseconds."""
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


def locks(views: Sequence[LockView]) -> Iterator[Finding]:
    """Whether every lock's node can be read, and whether the held ones will be free again."""
    broken = [view for view in views if view.problem is not None]
    for view in broken:
        if view.state == "malformed":
            told = f"{view.name} is malformed, and nobody can acquire it: {view.problem}"
            yield problem("locks", told, view.remedy, "malformed")
        elif view.is_stuck:
            yield problem("locks", f"{view.name} is blocked: {view.problem}", view.remedy)
        else:
            yield Finding("locks", "warning", f"{view.name} is held by {view.owner}: {view.problem}", view.remedy)
    if not broken:
        yield ok("locks", f"{len(views)} in the database, {sum(view.is_taken for view in views)} of them held")


def instances(found: Instances, now: int) -> Iterator[Finding]:
    """Who is alive, and who was and has fallen silent."""
    silent = found.silent(now)
    yield ok("instances", f"{len(found.seen) - len(silent)} alive")
    for name, at in silent.items():
        yield warning(
            "instances",
            f"{name} was seen last at {to_text(at)}, {(now - at) / 1000:.0f} s ago",
            "it died, or has no CPU between requests; its node is removed by the others after ten beats",
        )


def credentials(kind: str, account: str | None) -> Finding:
    """What kind of credentials gave a token, and whose they are."""
    return ok("credentials", f"{kind}{f' of {account}' if account else ''}; a token was given")


def administrator() -> Finding:
    """No auth override: rules don't concern this process."""
    return ok(
        "rules",
        "this process is an administrator, whom security rules don't concern, as FIRECRON_UID is not set",
    )


def rules(user: str, writes_elsewhere: bool, takes_live_locks: bool) -> Iterator[Finding]:
    """Whether the rules keep this user to what firecron has to do."""
    remedy = "deploy what `firecron rules` prints, and grant nothing above its three paths"
    yield ok("rules", f"this process is {user}, whom security rules keep in bounds")
    if writes_elsewhere:
        yield warning("rules", "they let it write outside of its own paths", remedy)
    if takes_live_locks:
        yield warning("rules", "they let it overwrite a lock that somebody else holds", remedy)
    if not (writes_elsewhere or takes_live_locks):
        yield ok("rules", "a write outside of its paths, and one to a lock that another holds, were refused")


def left_behind(path: str, error: StoreError) -> Finding:
    """The doctor's own write, which it could not take back."""
    return warning(
        "rules",
        f"what was written to {path} as a test could not be deleted: {redacted(str(error))}",
        f"delete {path} in the Firebase console",
    )


def strangers(may_read: bool, *, is_emulator: bool) -> Finding:
    """Whether somebody without credentials can read the locks."""
    if not may_read:
        return ok("strangers", "without credentials nothing can be read")
    if is_emulator:
        return ok("strangers", "anybody who reaches this emulator can read it: it has no rules")
    return warning(
        "strangers",
        "anybody in the world can read cron-locks, and perhaps write there",
        "deploy rules that deny it, such as those that `firecron rules` prints",
    )


def worst(findings: Iterable[Finding]) -> Kind | None:
    """What the sum of it is: the kind of the problem that has to be solved first."""
    kinds = {finding.kind or "other" for finding in findings if finding.level == "problem"}
    order: tuple[Kind, ...] = ("configuration", "unreachable", "denied", "malformed", "other")
    return next((kind for kind in order if kind in kinds), None)


def without_query(url: str) -> str:
    """A URL without what may be a secret in it: its user, and its query but for the namespace."""
    base, _, query = url.partition("?")
    scheme, separator, rest = base.rpartition("://")
    namespaces = [part for part in query.split("&") if part.startswith("ns=")]
    user, _, after = rest.rpartition("@")
    host = after if separator or ":" in user else rest
    return f"{scheme}{separator}{host}{'?' if namespaces else ''}{'&'.join(namespaces)}"


def _shown(name: str, value: str) -> str:
    # With a brace in it, it may be a whole key.
    return "" if name in _NOT_SHOWN or "{" in value else f"={redacted(without_query(value))}"
