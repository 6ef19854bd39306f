"""The parameters of a REST request that are not a query, checked with RTDB's texts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from rtdb_emulator.errors import BadRequest
from rtdb_emulator.query import PARAMETERS

MEBIBYTE = 1024 * 1024
MAX_BODY = 256 * MEBIBYTE
# The real service estimates the seconds that a write would take. These bytes stand for its 1, 10, 30 and 60 seconds;
# the last number is also the documented limit of any request. An admin's write without a limit may have any size, for
# imports.
WRITE_SIZE_LIMITS: dict[str, int | None] = {
    "tiny": 4 * MEBIBYTE,
    "small": 42 * MEBIBYTE,
    "medium": 128 * MEBIBYTE,
    "large": MAX_BODY,
    "unlimited": None,
}
WRITE_TOO_LARGE = "Data to write exceeds the maximum size that can be modified with a single request."
READ_TOO_LARGE = "Data requested exceeds the maximum size that can be accessed with a single request."

# A name, or names with dots between them: a program can't look like this.
_CALLBACK = re.compile(r"[A-Za-z_$][\w$]*(\.[A-Za-z_$][\w$]*)*\Z", re.ASCII)
_TIMEOUT = re.compile(r"([0-9]{1,9})(ms|s|min)\Z")
_MILLISECONDS = {"ms": 1, "s": 1000, "min": 60_000}
_MAX_TIMEOUT = 15 * 60_000


@dataclass(frozen=True, slots=True)
class Options:
    """The form of the answer, and the largest cost of the request."""

    printing: Literal["", "pretty", "silent"]
    shallow: bool
    export: bool
    write_size_limit: str
    callback: str


def parse_options(parameters: Mapping[str, str]) -> Options:
    printing = parameters.get("print", "")
    if printing not in ("", "pretty", "silent"):
        raise BadRequest(f"print must be pretty or silent, not {printing!r}")
    limit = parameters.get("writeSizeLimit", "unlimited")
    if limit not in WRITE_SIZE_LIMITS:
        raise BadRequest(f"writeSizeLimit must be one of {', '.join(WRITE_SIZE_LIMITS)}, not {limit!r}")
    if "timeout" in parameters:
        _check_timeout(parameters["timeout"])
    shape = parameters.get("format", "")
    if shape not in ("", "export", "strict"):
        raise BadRequest(f"format must be export, not {shape!r}")
    callback = parameters.get("callback", "")
    if callback and not _CALLBACK.match(callback):
        raise BadRequest(f"callback must be the name of a JavaScript function, not {callback!r}")
    return Options(
        printing="pretty" if printing == "pretty" else "silent" if printing == "silent" else "",
        shallow=parameters.get("shallow", "") == "true",
        export=shape == "export",
        write_size_limit=limit,
        callback=callback,
    )


def has_query(parameters: Mapping[str, str]) -> bool:
    return any(name in parameters for name in PARAMETERS)


def _check_timeout(text: str) -> None:
    match = _TIMEOUT.match(text)
    if match is None or not 0 < int(match[1]) * _MILLISECONDS[match[2]] <= _MAX_TIMEOUT:
        raise BadRequest(f"timeout must be like 3ms, 3s or 3min, more than 0 and at most 15min, not {text!r}")
