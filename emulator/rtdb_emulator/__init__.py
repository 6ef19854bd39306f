"""A Firebase Realtime Database emulator in pure Python: in process, in milliseconds, no Java.

    from rtdb_emulator import Emulator

    with Emulator() as emulator:
        ...  # FIREBASE_DATABASE_EMULATOR_HOST=emulator.host

Importing the package loads nothing: the server behind `Emulator` needs the extra `firecron[emulator]`, and is loaded
when it is first asked for. Without the extra that is a ModuleNotFoundError, which says what to install.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rtdb_emulator.clock import Clock
    from rtdb_emulator.emulator import Emulator
    from rtdb_emulator.http.faults import Fault, Faults, Hold
    from rtdb_emulator.http.log import LoggedRequest, RequestLog
    from rtdb_emulator.rules import RulesError

__all__ = ["Clock", "Emulator", "Fault", "Faults", "Hold", "LoggedRequest", "RequestLog", "RulesError"]

_HOMES = {
    "Clock": "rtdb_emulator.clock",
    "Emulator": "rtdb_emulator.emulator",
    "Fault": "rtdb_emulator.http.faults",
    "Faults": "rtdb_emulator.http.faults",
    "Hold": "rtdb_emulator.http.faults",
    "LoggedRequest": "rtdb_emulator.http.log",
    "RequestLog": "rtdb_emulator.http.log",
    "RulesError": "rtdb_emulator.rules",
}


EXTRA = {"httptools", "starlette", "uvicorn", "websockets"}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with naming_the_extra():
        value: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


@contextmanager
def naming_the_extra() -> Iterator[None]:
    """Let the error for a missing package of the extra say what to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRA:
            raise
        line = f"{package} is not installed; the emulator needs: pip install 'firecron[emulator]'"
        raise ModuleNotFoundError(line, name=package) from error


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
