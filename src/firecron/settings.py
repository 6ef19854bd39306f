"""Settings, from `FIRECRON_…` environment variables or as arguments; durations are in seconds.

Checked when they are made, alone and against each other: a setting that can't hold what the lock promises is refused
with the names of both.
"""

from __future__ import annotations

import re
from typing import Annotated, Self

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from firecron.durations import DAY
from firecron.errors import ConfigurationError

_PREFIX = re.compile(r"([^.$#\[\]/\x00-\x1f\x7f]+/)*[^.$#\[\]/\x00-\x1f\x7f]+")


class Settings(BaseSettings):
    """What can be set."""

    model_config = SettingsConfigDict(env_prefix="FIRECRON_", frozen=True, extra="ignore")

    database_url: str | None = Field(None, description="The database, if it is not the Firebase app's own databaseURL.")
    uid: str | None = Field(
        None, min_length=1, description="The user that security rules see; without one it is an administrator."
    )
    prefix: str = Field("", description="A path that all nodes of firecron are put under, such as `ops/cron`.")
    margin: float = Field(
        1.0,
        gt=0,
        le=60,
        description="How far two instances' ideas of the time may be apart. The same in the whole fleet.",
    )
    request_timeout: float = Field(3.0, gt=0, le=60, description="How long one request to RTDB may take in all.")
    acquire_timeout: float = Field(8.0, gt=0, le=DAY, description="How long one try to acquire may take in all.")
    release_timeout: float = Field(5.0, gt=0, le=DAY, description="How long a release may take in all.")
    clock_samples: int = Field(
        3, ge=1, le=20, description="How many samples a synchronisation with RTDB's clock takes."
    )
    clock_drift: float = Field(
        200e-6, gt=0, lt=0.01, description="How fast this machine's clock may run wrong, in seconds a second."
    )
    clock_interval: float = Field(
        300.0, gt=0, le=DAY, description="How old a synchronisation may become before it is made again."
    )

    roles: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="The roles that this instance has, separated by commas; jobs with another role don't run here."
    )
    runtime_variable: str = Field(
        "RUNTIME_INSTANCE", min_length=1, description="The environment variable that tells whether jobs tick here."
    )
    runtime_value: str = Field("production", description="The value of that variable where jobs tick.")
    history_limit: int = Field(50, ge=1, le=1000, description="How many runs of each job `cron-runs` keeps.")
    heartbeat: float = Field(30.0, ge=1, le=3600, description="How often an instance says that it is alive.")
    recovery_interval: float = Field(
        300.0, ge=1, le=DAY, description="How often an instance looks for runs that died and ticks that nobody ran."
    )
    shutdown_grace: float = Field(8.0, ge=0, le=3600, description="How long runs may go on when the instance stops.")
    workers: int = Field(10, ge=1, le=500, description="How many jobs one instance runs at the same time.")
    max_concurrent: int = Field(
        3, ge=1, le=100, description="How many runs of one job with overlap='allow' one instance runs at the same time."
    )

    @field_validator("roles", mode="before")
    @classmethod
    def _split(cls, roles: object) -> object:
        return tuple(role.strip() for role in roles.split(",") if role.strip()) if isinstance(roles, str) else roles

    @field_validator("prefix")
    @classmethod
    def _is_path(cls, prefix: str) -> str:
        trimmed = prefix.strip("/")
        if trimmed and not _PREFIX.fullmatch(trimmed):
            raise ValueError("must be a path of RTDB keys, which can't have . $ # [ ] or control characters")
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

    def check_ttl(self, ttl: int, name: str = "ttl") -> None:
        """ConfigurationError if the margin is more than a sixth of this ttl (in milliseconds)."""
        if ttl < round(6 * self.margin * 1000):
            raise ConfigurationError(
                f"{name} ({ttl / 1000:g} s) is too short for margin ({self.margin:g} s): make it at least "
                f"{6 * self.margin:g} s, or FIRECRON_MARGIN smaller in the whole fleet"
            )


def load(**values: object) -> Settings:
    """Settings from these values and the environment; ConfigurationError says in one line what is wrong."""
    try:
        return Settings(**values)  # type: ignore[arg-type]  # pydantic checks the values
    except ValidationError as error:
        problems = [
            f"{'.'.join(map(str, problem['loc'])) or 'settings'}: {problem['msg'].removeprefix('Value error, ')}"
            f"{_given(problem['input'])}"
            for problem in error.errors()
        ]
        raise ConfigurationError("; ".join(problems)) from None


def _given(value: object) -> str:
    return f" (given: {value!r})" if isinstance(value, str | int | float) else ""
