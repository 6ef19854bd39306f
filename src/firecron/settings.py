"""Settings, from `FIRECRON_…` environment variables or from arguments. Durations are in seconds.

Each setting is checked when the settings are made, by itself and against the others. Settings that would break the
promise of the lock are refused. The error then names both settings.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Self
from urllib.parse import parse_qsl, unquote

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from firecron.base.instants import DAY
from firecron.base.texts import redacted
from firecron.errors import ConfigurationError

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

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


class Settings(BaseSettings):
    """The settings, by keyword or by `FIRECRON_…` variables. Durations are seconds.

    A setting that can't be used raises ConfigurationError, which names the argument or the variable, and the reason.
    """

    model_config = SettingsConfigDict(env_prefix=VARIABLES, frozen=True, extra="forbid")

    database_url: str | None = Field(
        default=None, description="The database, if it is not the Firebase app's own databaseURL."
    )
    uid: str | None = Field(
        default=None,
        min_length=1,
        description="The user that the security rules see; without it, firecron is an administrator.",
    )
    prefix: str = Field(default="", description="The path above all nodes of firecron, such as `ops/cron`.")
    margin: float = Field(
        default=1.0,
        gt=0,
        le=60,
        description="How far apart two instances' ideas of the time may be. Use one value in the whole fleet.",
    )
    request_timeout: float = Field(
        default=3.0, gt=0, le=60, description="How long one request to RTDB may take in all."
    )
    acquire_timeout: float = Field(
        default=8.0, gt=0, le=DAY, description="How long one try to acquire may take in all."
    )
    release_timeout: float = Field(default=5.0, gt=0, le=DAY, description="How long a release may take in all.")
    clock_samples: int = Field(
        default=3, ge=1, le=20, description="How many samples a synchronisation with RTDB's clock takes."
    )
    clock_drift: float = Field(
        default=200e-6, gt=0, lt=0.01, description="How much this machine's clock may drift, in seconds per second."
    )
    clock_interval: float = Field(
        default=300.0,
        gt=0,
        le=DAY,
        description="How long a synchronisation with RTDB's clock is used before the next one.",
    )

    watch: bool = Field(
        default=True,
        description="Whether those who wait are told of changes by RTDB. Without it they ask every few seconds.",
    )

    roles: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(),
        description="The roles that this instance has, separated by commas; jobs with another role don't run here.",
    )
    runtime_variable: str = Field(
        default="RUNTIME_INSTANCE",
        min_length=1,
        description="The environment variable that tells whether jobs tick here.",
    )
    runtime_value: str = Field(default="production", description="The value of that variable where jobs tick.")
    history_limit: int = Field(default=50, ge=1, le=1000, description="How many runs of each job `cron-runs` keeps.")
    heartbeat: float = Field(default=30.0, ge=1, le=3600, description="How often an instance writes its sign of life.")
    contenders: int = Field(
        default=3,
        ge=0,
        le=1000,
        description=(
            "How many instances of a large fleet ask for a tick at once; four times as many within 4 s. 0: all ask."
        ),
    )
    recovery_interval: float = Field(
        default=300.0,
        ge=1,
        le=DAY,
        description="How often an instance looks for runs that died and ticks that did not run.",
    )
    shutdown_grace: float = Field(
        default=8.0, ge=0, le=3600, description="How long runs may go on when the instance stops."
    )
    workers: int = Field(default=50, ge=1, le=500, description="How many jobs one instance runs at the same time.")
    max_concurrent: int = Field(
        default=3,
        ge=1,
        le=100,
        description="How many runs of one job with overlap='allow' one instance runs at the same time.",
    )

    if not TYPE_CHECKING:
        # Type checkers derive the signature from the fields, but only if they see no explicit `__init__`.
        def __init__(self, **values: object) -> None:
            try:
                super().__init__(**values)
            except ValidationError as error:
                problems = (_problem(problem, values) for problem in error.errors())
                raise ConfigurationError("; ".join(problems)) from None

    @field_validator("roles", mode="before")
    @classmethod
    def _split(cls, roles: object) -> object:
        return tuple(role.strip() for role in roles.split(",") if role.strip()) if isinstance(roles, str) else roles

    @field_validator("database_url")
    @classmethod
    def _is_used_whole(cls, url: str | None) -> str | None:
        if url is not None and (problem := unused_part(url)) is not None:
            raise ValueError(problem)
        return url

    @field_validator("prefix")
    @classmethod
    def _is_path(cls, prefix: str) -> str:
        trimmed = prefix.strip("/")
        if trimmed and not _PREFIX.fullmatch(trimmed):
            raise ValueError("must be a path of RTDB keys, without . $ # [ ], control characters or lone surrogates")
        return trimmed

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.request_timeout > self.acquire_timeout:
            raise ValueError(
                f"request_timeout ({self.request_timeout:g} s) must not be longer than "
                f"acquire_timeout ({self.acquire_timeout:g} s), which may take several requests"
            )
        if self.request_timeout > self.release_timeout:
            raise ValueError(
                f"request_timeout ({self.request_timeout:g} s) must not be longer than "
                f"release_timeout ({self.release_timeout:g} s), which may take several requests"
            )
        if self.clock_interval * self.clock_drift > self.margin / 2:
            raise ValueError(
                f"clock_interval ({self.clock_interval:g} s) lets the clock drift by more than half of "
                f"margin ({self.margin:g} s): make it {self.margin / 2 / self.clock_drift:g} s at most"
            )
        return self

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
    """Return what a database's URL has in vain, and how to mend it; None if there is nothing.

    It would be shown wherever the database is named, and may be a secret. So the text doesn't quote it.
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
    known = {*FACTS, *map(_variable, Settings.model_fields)}
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
    if name in Settings.model_fields and name not in values:
        name = _variable(name)
    return f"{name or 'settings'}{shown}: {problem['msg'].removeprefix('Value error, ')}"


def _remedy(name: str, shown: Callable[[str], str] = str) -> str:
    known = list(Settings.model_fields)
    close = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {shown(close[0])}?" if close else f"the settings are {', '.join(map(shown, known))}"
