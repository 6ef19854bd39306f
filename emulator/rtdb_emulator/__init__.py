"""A Firebase Realtime Database emulator in pure Python: in process, in milliseconds, no Java.

    from rtdb_emulator import Emulator

    with Emulator() as emulator:
        ...  # FIREBASE_DATABASE_EMULATOR_HOST=emulator.host

Importing the package loads nothing: the server behind `Emulator` is loaded when it is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rtdb_emulator.clock import Clock
    from rtdb_emulator.emulator import Emulator
    from rtdb_emulator.http.faults import Fault, Faults, Hold
    from rtdb_emulator.http.log import LoggedRequest, RequestLog
    from rtdb_emulator.rules import RulesError

__all__ = ["Clock", "Emulator", "Fault", "Faults", "Hold", "LoggedRequest", "RequestLog", "RulesError"]

__version__ = "0.1.0"

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


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
