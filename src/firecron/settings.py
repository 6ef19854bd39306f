"""Settings, from `FIRECRON_…` environment variables or from arguments. Durations are in seconds.

Each setting is checked when the settings are made, by itself and against the others. Settings that would break the
promise of the lock are refused. The error then names both settings.

pydantic-settings reads and checks what is given. It is loaded when something is given for the first time: the defaults
need no check, and most programs have no others.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints
from urllib.parse import parse_qsl, unquote

from firecron.base.instants import DAY
from firecron.base.texts import redacted
from firecron.errors import ConfigurationError

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails
    from pydantic_settings import BaseSettings

T = TypeVar("T")

VARIABLES = "FIRECRON_"

# The SDK's variable that names an emulator.
EMULATOR_HOST = "FIREBASE_DATABASE_EMULATOR_HOST"

# The password of `firecron page`, which no program needs.
PAGE_PASSWORD = "FIRECRON_PAGE_PASSWORD"

# Variables with the same prefix that are not settings: what `firecron exec` sets for its command, and that password.
FACTS = (
    "FIRECRON_NAME",
    "FIRECRON_SLOT",
    "FIRECRON_FENCE",
    "FIRECRON_IDEMPOTENCY_KEY",
    "FIRECRON_ATTEMPT",
    PAGE_PASSWORD,
)

_KEY = r"[^.$#\[\]/\x00-\x1f\x7f\ud800-\udfff]+"  # the last range is lone surrogates: RTDB allows none in a key
_PREFIX = re.compile(rf"({_KEY}/)*{_KEY}")
# The name of a database, as a URL's `ns`. Nothing else that a URL may have fits in.
_NAMESPACE = re.compile(r"[^\s@:;=/?#]*")


def _setting(default: T, description: str, **bounds: float) -> T:
    """Return the field of a setting. `bounds` are pydantic's: `ge`, `gt`, `le`, `lt`, `min_length`."""
    found: T = field(default=default, metadata={"description": description, **bounds})
    return found


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings, by keyword or by `FIRECRON_…` variables. Durations are seconds.

    A setting that can't be used raises ConfigurationError, which names the argument or the variable, and the reason.
    """

    database_url: str | None = _setting(None, "The database, if it is not the Firebase app's own databaseURL.")
    uid: str | None = _setting(
        None, "The user that the security rules see; without it, firecron is an administrator.", min_length=1
    )
    prefix: str = _setting("", "The path above all nodes of firecron, such as `ops/cron`.")
    margin: float = _setting(
        1.0, "How far apart two instances' ideas of the time may be. Use one value in the whole fleet.", gt=0, le=60
    )
    request_timeout: float = _setting(3.0, "How long one request to RTDB may take in all.", gt=0, le=60)
    acquire_timeout: float = _setting(8.0, "How long one try to acquire may take in all.", gt=0, le=DAY)
    release_timeout: float = _setting(5.0, "How long a release may take in all.", gt=0, le=DAY)
    clock_samples: int = _setting(3, "How many samples a synchronisation with RTDB's clock takes at most.", ge=1, le=20)
    clock_drift: float = _setting(
        200e-6, "How much this machine's clock may drift, in seconds per second.", gt=0, lt=0.01
    )
    clock_interval: float = _setting(
        300.0, "How long a synchronisation with RTDB's clock is used before the next one.", gt=0, le=DAY
    )

    watch: bool = _setting(True, "Whether waiters hear of changes by a stream. Without it they ask every few seconds.")

    roles: tuple[str, ...] = _setting(
        (), "The roles that this instance has, separated by commas; jobs with another role don't run here."
    )
    runtime_variable: str = _setting(
        "RUNTIME_INSTANCE", "The environment variable that decides whether jobs tick here.", min_length=1
    )
    runtime_value: str = _setting("production", "The value of that variable where jobs tick.")
    history_limit: int = _setting(50, "How many runs of each job `cron-runs` keeps.", ge=1, le=1000)
    tracebacks: bool = _setting(
        True, "Whether the last frames of a failed run's traceback are kept in `cron-errors`, beside its entry."
    )
    heartbeat: float = _setting(30.0, "How often an instance writes its sign of life.", ge=1, le=3600)
    contenders: int = _setting(
        3,
        "How many instances of a large fleet ask for a tick at once; four times as many within 4 s. 0: all ask.",
        ge=0,
        le=1000,
    )
    recovery_interval: float = _setting(
        300.0, "How often an instance looks for runs that died and ticks that did not run.", ge=1, le=DAY
    )
    shutdown_grace: float = _setting(8.0, "How long runs may go on when the instance stops.", ge=0, le=3600)
    workers: int = _setting(50, "How many jobs one instance runs at the same time.", ge=1, le=500)
    max_concurrent: int = _setting(
        3, "How many runs of one job with overlap='allow' one instance runs at the same time.", ge=1, le=100
    )

    if not TYPE_CHECKING:
        # Type checkers derive the signature from the fields, but only if they see no explicit `__init__`.
        def __init__(self, **values: object) -> None:
            vars(self).update(_checked(values) if values or _is_any_set() else DEFAULTS)

    @property
    def margin_ms(self) -> int:
        """The margin in milliseconds."""
        return round(self.margin * 1000)

    @property
    def least_ttl(self) -> float:
        """The shortest ttl that this margin allows, in seconds."""
        return 6 * self.margin

    def check_ttl(self, ttl: int, name: str = "ttl") -> None:
        """Raise ConfigurationError if the ttl (in milliseconds) is shorter than six times the margin."""
        if ttl < round(self.least_ttl * 1000):
            raise ConfigurationError(
                f"{name} ({ttl / 1000:g} s) is too short: it must be at least {self.least_ttl:g} s (six times the "
                f"margin of {self.margin:g} s), or FIRECRON_MARGIN must be smaller in the whole fleet"
            )


# --- what is given


DEFAULTS: Mapping[str, object] = {setting.name: setting.default for setting in fields(Settings)}
_IN_SMALL = frozenset(f"{VARIABLES}{name}".lower() for name in DEFAULTS)


def _is_any_set() -> bool:
    """Return whether the environment has a setting, in capitals or small letters."""
    return not _IN_SMALL.isdisjoint(map(str.lower, os.environ))


def _checked(values: Mapping[str, object]) -> dict[str, object]:
    """Return all settings, of these values and the environment. Raise ConfigurationError if one can't be used."""
    from pydantic import ValidationError

    try:
        return dict(_model()(**values))
    except ValidationError as error:
        problems = (_problem(problem, values) for problem in error.errors())
        raise ConfigurationError("; ".join(problems)) from None


@cache
def _model() -> Callable[..., BaseSettings]:
    """Return the model of the settings, with the fields that `Settings` has."""
    from pydantic import Field, create_model, field_validator, model_validator
    from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

    class Model(BaseSettings):
        model_config = SettingsConfigDict(env_prefix=VARIABLES, extra="forbid")

    hints = {**get_type_hints(Settings), "roles": Annotated[tuple[str, ...], NoDecode]}
    declared: dict[str, Any] = {
        setting.name: (hints[setting.name], Field(setting.default, **setting.metadata)) for setting in fields(Settings)
    }
    validators: dict[str, Any] = {
        "split": field_validator("roles", mode="before")(_split),
        "used_whole": field_validator("database_url")(_used_whole),
        "path": field_validator("prefix")(_path),
        "fit_together": model_validator(mode="after")(_fit_together),
    }
    return create_model("Settings", __base__=Model, __validators__=validators, **declared)


def _split(roles: object) -> object:
    return tuple(role.strip() for role in roles.split(",") if role.strip()) if isinstance(roles, str) else roles


def _used_whole(url: str | None) -> str | None:
    if url is not None and (problem := unused_part(url)) is not None:
        raise ValueError(problem)
    return url


def _path(prefix: str) -> str:
    trimmed = prefix.strip("/")
    if trimmed and not _PREFIX.fullmatch(trimmed):
        raise ValueError("must be a path of RTDB keys, without . $ # [ ], control characters or lone surrogates")
    return trimmed


def _fit_together(settings: Settings) -> Settings:
    for name, seconds in (("acquire_timeout", settings.acquire_timeout), ("release_timeout", settings.release_timeout)):
        if settings.request_timeout > seconds:
            raise ValueError(
                f"request_timeout ({settings.request_timeout:g} s) must not be longer than {name} ({seconds:g} s), "
                "which may take several requests"
            )
    if settings.clock_interval * settings.clock_drift > settings.margin / 2:
        raise ValueError(
            f"clock_interval ({settings.clock_interval:g} s) lets the clock drift by more than half of "
            f"margin ({settings.margin:g} s): make it {settings.margin / 2 / settings.clock_drift:g} s at most"
        )
    return settings


def given(settings: object) -> Settings:
    """Return the settings that a program gives; those of the environment for None. Raise ConfigurationError."""
    if settings is None:
        return load()
    if not isinstance(settings, Settings):
        shown = redacted(repr(settings))  # a database's URL may have a password in it
        raise ConfigurationError(f"settings={shown} is not a Settings: write settings=Settings(margin=0.5)")
    return settings


def load(**values: object) -> Settings:
    """Return Settings from values whose types are not checked yet."""
    return Settings(**values)  # type: ignore[arg-type]  # they are checked here


def unused_part(url: str) -> str | None:
    """Return which part of a database's URL firecron doesn't use, and how to remove it; None if it uses all.

    The part may be a secret, and a database's URL is shown in many places. So the text doesn't quote it.
    """
    if "@" in unquote(url):
        return "the URL has an @: remove the user and the password before it; the credentials are the Firebase app's"
    if "#" in url:
        return "the URL has a #: remove it, and what comes after it"
    query = parse_qsl(url.partition("?")[2], keep_blank_values=True)
    if len(query) > 1 or not all(name == "ns" and _NAMESPACE.fullmatch(value) for name, value in query):
        return "the URL may have the parameter 'ns', the name of a database, alone: remove the others"
    return None


def unknown_variables(environment: Mapping[str, str] = os.environ) -> list[tuple[str, str]]:
    """Return the `FIRECRON_…` variables that are not settings and so have no effect, each as a problem and a remedy."""
    known = {*FACTS, *map(_variable, DEFAULTS)}
    return [
        (f"{name} is not a setting, and has no effect", _remedy(name[len(VARIABLES) :].lower(), _variable))
        for name in sorted(environment)
        if name.upper().startswith(VARIABLES) and name.upper() not in known
    ]


def _variable(setting: str) -> str:
    return f"{VARIABLES}{setting.upper()}"


def _problem(problem: ErrorDetails, values: Mapping[str, object]) -> str:
    """Return what is wrong with a setting. What is not among the given values comes from its variable."""
    name = ".".join(map(str, problem["loc"]))
    if problem["type"] == "extra_forbidden":
        return f"{name} is not a setting: {_remedy(name)}"
    given = problem["input"]
    # A database's URL that is refused may have a password in it.
    shown = f"={given!r}" if isinstance(given, str | int | float) and name != "database_url" else ""
    if name in DEFAULTS and name not in values:
        name = _variable(name)
    return f"{name or 'settings'}{shown}: {problem['msg'].removeprefix('Value error, ')}"


def _remedy(name: str, shown: Callable[[str], str] = str) -> str:
    known = list(DEFAULTS)
    close = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {shown(close[0])}?" if close else f"the settings are {', '.join(map(shown, known))}"
