"""A finding of the doctor's as a value: ok, a warning or a problem, with the remedy. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from firecron.base.redaction import redacted
from firecron.errors import ConfigurationError, Denied, EmulatorDown, Malformed, StoreError

Level: TypeAlias = Literal["ok", "warning", "problem"]
Kind: TypeAlias = Literal["configuration", "unreachable", "denied", "malformed", "other"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the doctor's output. `kind` is the kind of the problem."""

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


def worst(findings: Iterable[Finding]) -> Kind | None:
    """Return the kind of the problem to solve first, None without a problem."""
    kinds = {finding.kind or "other" for finding in findings if finding.level == "problem"}
    order: tuple[Kind, ...] = ("configuration", "unreachable", "denied", "malformed", "other")
    return next((kind for kind in order if kind in kinds), None)
