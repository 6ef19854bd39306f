"""The options of a job, and the checks of them while the program is loaded: each by itself, and against the others.

Durations are in milliseconds here, except in texts for people. The options answer what `overlap`, `on_abandoned` and
`catch_up` mean (`has_lease`, `reruns`, `catches_up`): no other module compares the words. The scheduler interprets the
other options.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from firecron.base.instants import doubt
from firecron.cron.schedule import Schedule
from firecron.errors import ConfigurationError
from firecron.jobs.about import About
from firecron.store import below

if TYPE_CHECKING:
    from firecron.lock.stored import LookOptions

Overlap: TypeAlias = Literal["skip", "queue", "cancel_previous", "allow"]
CatchUp: TypeAlias = Literal["skip", "once", "all"]
OnAbandoned: TypeAlias = Literal["skip", "rerun"]

# In seconds.
DEFAULT_GRACE = 60
DEFAULT_MAX_RUNTIME = 86_400
DEFAULT_TTL = 60
DEFAULT_WINDOW = 86_400

# Numbers that are no durations.
_COUNTS = ("retries", "alert_after")


@dataclass(frozen=True, slots=True)
class StoredOptions:
    """The options of a job with stored schedules: how many instances look, and how long closed ones and runs stay."""

    lookers: int
    keep_closed: int
    history: int


@dataclass(frozen=True, slots=True)
class JobOptions:
    """A job's name, schedule and options. The repr shows them as they were declared, with durations in seconds."""

    name: str
    schedule: Schedule
    lock_ttl: int
    hold_at_least: int
    once_per_tick: bool
    renew: bool
    overlap: Overlap
    catch_up: CatchUp
    catch_up_window: int
    grace: int
    grace_given: bool
    on_abandoned: OnAbandoned
    retries: int
    retry_backoff: int
    max_runtime: int
    expected_runtime: int | None
    alert_after: int
    jitter: int
    role: str | None
    disabled: bool
    about: About = field(repr=False)
    # None of a job that has its schedule in its code.
    stored: StoredOptions | None = field(repr=False)
    # These two tell whether a number without a unit may have been meant in milliseconds. Declarations that differ only
    # in them are equal.
    lock_ttl_is_bare: bool = field(compare=False, repr=False)
    doubts: Mapping[str, str] = field(compare=False, repr=False)

    @property
    def has_lease(self) -> bool:
        """Whether a run holds the lock of its job while it runs."""
        return has_lease(self.overlap)

    @property
    def has_steps(self) -> bool:
        """Whether a run has what steps need: a lease, a fence and a tick."""
        return self.has_lease and self.once_per_tick

    @property
    def waits(self) -> bool:
        """Whether a tick waits for the previous run, instead of being skipped."""
        return waits(self.overlap)

    @property
    def cancels_previous(self) -> bool:
        """Whether a tick asks the run of an earlier tick to end."""
        return self.overlap == "cancel_previous"

    @property
    def waits_until_next_tick(self) -> bool:
        """Whether a queued tick waits until the next tick. If a grace was given, it waits until the grace is over."""
        return self.waits and not self.grace_given

    @property
    def keeps_all_waiting(self) -> bool:
        """Whether all ticks that wait stay in line. Else a newer tick replaces the ones before it."""
        return self.waits and self.grace_given and not self.cancels_previous

    @property
    def asks_in_waves(self) -> bool:
        """Whether instances may ask for a tick one after another: a later one still finds out what has become of it."""
        return self.overlap == "skip" and self.once_per_tick

    @property
    def needs_recovery(self) -> bool:
        """Whether firecron has to look for runs that died or ticks that were missed."""
        return self.reruns or self.catches_up

    @property
    def reruns(self) -> bool:
        """Whether a run that died is run again."""
        return reruns(self.on_abandoned)

    @property
    def catches_up(self) -> bool:
        """Whether missed ticks are run later."""
        return self.catch_up != "skip"

    @property
    def catches_up_all(self) -> bool:
        """Whether all missed ticks are run later, not only the newest."""
        return self.catch_up == "all"

    def below(self, prefix: str) -> JobOptions:
        """Return the options with the schedule that the job has below this prefix. Only an `H` in its line differs."""
        schedule = self.schedule.named(below(prefix, self.name))
        return self if schedule is self.schedule else replace(self, schedule=schedule)

    def look(self, margin: int) -> LookOptions | None:
        """Return what decides when an entry of the job is looked at; None of a job without entries."""
        if self.stored is None:
            return None
        # Imported here, so that a program's first line doesn't load what only stored jobs need.
        from firecron.lock.stored import LookOptions

        return LookOptions(margin, self.waits, self.reruns, self.stored.keep_closed)

    def places(self, most: int) -> int:
        """Return how many runs of the job may overlap on one instance, if the instance allows `most`."""
        return 1 if self.has_lease else most

    def __repr__(self) -> str:
        values = {
            one.name: getattr(self, one.name) for one in fields(self)[2:] if one.repr and one.name != "grace_given"
        }
        if not self.grace_given:
            values["grace"] = None
        schedule = self.schedule
        said = [repr(self.name), *schedule.arguments()]
        if schedule.has_line:
            said[1:3] = [repr(schedule.written or schedule.line), f"timezone={schedule.timezone!r}"]
        for name, value in values.items():
            in_seconds = type(value) is int and name not in _COUNTS
            said.append(f"{name}={f'{value / 1000:.10g}' if in_seconds else repr(value)}")
        said += [f"{name}={text!r}" for name, text in self.about.known().items()]
        return f"JobOptions({', '.join(said)})"


def waits(overlap: str) -> bool:
    """Return whether a tick waits for the previous run with this value of `overlap`, instead of being skipped."""
    return overlap in ("queue", "cancel_previous")


def reruns(on_abandoned: str) -> bool:
    """Return whether a run that died is run again with this value of `on_abandoned`."""
    return on_abandoned == "rerun"


def has_lease(overlap: str) -> bool:
    """Return whether a run of a job with this overlap policy holds the lock of its job while it runs."""
    return overlap != "allow"


def check_together(options: JobOptions) -> None:
    """Raise ConfigurationError if two options contradict each other."""
    if options.hold_at_least > options.lock_ttl:
        raise ConfigurationError(
            f"hold_at_least ({options.hold_at_least / 1000:g} s) must not be longer than "
            f"lock_ttl ({options.lock_ttl / 1000:g} s)"
        )
    if options.expected_runtime is not None and options.expected_runtime > options.max_runtime:
        raise ConfigurationError(
            f"expected_runtime ({options.expected_runtime / 1000:g} s) must not be longer than max_runtime "
            f"({options.max_runtime / 1000:g} s), which ends a run"
        )
    if options.jitter > options.grace:
        raise ConfigurationError(
            f"jitter ({options.jitter / 1000:g} s) must not be longer than grace ({options.grace / 1000:g} s), "
            "because a tick that starts later than its grace does not run"
        )
    if options.catch_up_window != DEFAULT_WINDOW * 1000 and not options.catches_up:
        raise ConfigurationError(
            f"catch_up='skip' runs no missed tick later, so catch_up_window ({options.catch_up_window / 1000:g} s) "
            "can't work: leave it out, or give catch_up='once' or catch_up='all'"
        )
    if not options.has_lease:
        if options.hold_at_least:
            raise ConfigurationError(
                "overlap='allow' holds no lock, so hold_at_least can't work: leave one of them out"
            )
        if options.reruns:
            raise ConfigurationError(
                "overlap='allow' holds no lock whose expiry shows a dead run, so on_abandoned='rerun' can't work: "
                "leave one of them out"
            )
    if options.cancels_previous:
        for name, value, why in (
            ("catch_up", "all", "runs every tick to its end"),
            ("renew", False, "never finds out that a run is cancelled, because a renewal would"),
            ("once_per_tick", False, "gives a run no fence to cancel it by"),
        ):
            if getattr(options, name) == value:
                raise ConfigurationError(
                    f"{name}={value!r} {why}, so overlap='cancel_previous' can't work: leave one of them out"
                )
    if not options.once_per_tick:
        for name, value in (("catch_up", options.catch_up), ("on_abandoned", options.on_abandoned)):
            if value != "skip":
                raise ConfigurationError(
                    f"once_per_tick=False remembers no ticks, so {name}={value!r} can't work: leave one of them out"
                )
        if not options.has_lease:
            raise ConfigurationError(
                "once_per_tick=False with overlap='allow' would lock nothing: leave one of them out"
            )


def doubts_of(**durations: object) -> dict[str, str]:
    """Return a question about each duration that looks like milliseconds, by the option's name."""
    found = {name: doubt(duration, name) for name, duration in durations.items()}
    return {name: said for name, said in found.items() if said is not None}


def check_schedule(name: str, line: object, timezone: object, **bounds: object) -> Schedule:
    """Return the schedule of the job of this name. Raise ConfigurationError for what can't be one."""
    try:
        return Schedule(line, timezone, name=name, **bounds)  # type: ignore[arg-type]  # it checks them
    except ValueError as error:
        raise ConfigurationError(str(error)) from None


def check_flag(value: object, name: str) -> bool:
    """Return the value if it is True or False. Raise ConfigurationError if not."""
    if not isinstance(value, bool):
        raise ConfigurationError(f"{name}={value!r} must be True or False")
    return value


def check_count(value: object, name: str, least: int, most: int) -> int:
    """Return the value if it is a number within the bounds. Raise ConfigurationError if not."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ConfigurationError(f"{name}={value!r} must be a number from {least} to {most}")
    return value


def check_word(value: object, name: str, words: object) -> Any:  # it is one of those words
    """Return the value if it is one of the words of a Literal. Raise ConfigurationError if not."""
    if value not in get_args(words):
        raise ConfigurationError(f"{name}={value!r} must be one of {', '.join(map(repr, get_args(words)))}")
    return str(value)


def check_role(role: object) -> str | None:
    """Return the role itself. Raise ConfigurationError if no instance can have it."""
    if role is None:
        return None
    # FIRECRON_ROLES is split at commas, without the blanks around a name, so no role may have them.
    if not isinstance(role, str) or role != role.strip(", ") or not role or "," in role:
        raise ConfigurationError(
            f"role={role!r} must be one name without commas or blanks around it, or None for a job that runs anywhere"
        )
    return role
