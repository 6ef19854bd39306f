"""Endpoints for tests in any language: they script the emulator's faults, and set its clock.

    POST   /.inspect/faults.json   {"fault": "delay", "seconds": 2, "method": "PUT", "path": "/visits"}  → {"id": "1"}
    GET    /.inspect/faults.json   those that were added here and not removed, and how many requests each was applied to
    DELETE /.inspect/faults.json   removes all of them, or with ?id=1 that one (a removed hold releases its requests)
    GET    /.inspect/clock.json    {"now": 1700000000000}
    PUT    /.inspect/clock.json    {"now": 1700000000000}, or {"advance": 60000}

The names of faults and their parameters are those of `Faults`; the names of sockets' faults begin with "sockets.". Only
an admin may use these endpoints, and no fault applies to them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from types import NoneType
from typing import cast

from rtdb_emulator.clock import Clock
from rtdb_emulator.database import Access
from rtdb_emulator.errors import BadRequest, Denied
from rtdb_emulator.http.faults import Fault, Faults, Hold
from rtdb_emulator.http.management import Endpoint
from rtdb_emulator.http.messages import Reply, RestRequest, error_reply
from rtdb_emulator.jsondata import decode, encode
from rtdb_emulator.store import Store

_FAULTS = (
    *("drop_request", "drop_reply", "delay", "hold", "drip", "answer", "garbage", "rules_first", "cut_off"),
    *("sockets.swallow", "sockets.answer_first", "sockets.stale", "sockets.reset", "sockets.expire", "sockets.cut"),
    *("sockets.freeze", "sockets.skew"),
)

# The types of the faults' parameters; the others are texts.
_FORMS: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(("nth", "port", "status"), (int,)),
    "times": (int, NoneType),
    "seconds": (int, float),
    "applied": (bool,),
    "header": (list,),
    "headers": (dict,),
}
_MOMENTS = ("before", "after")
# A push id has eight characters for the time.
_LAST_INSTANT = 64**8 - 1


class Doors:
    """These endpoints of one emulator, by their paths."""

    def __init__(self, faults: Faults, now: Callable[[], int]) -> None:
        self._faults = faults
        self._now = now
        self._numbers = count(1)
        self._added: dict[str, tuple[Fault, Mapping[str, object]]] = {}

    def endpoints(self) -> dict[str, Endpoint]:
        return {".inspect/faults.json": self._script, ".inspect/clock.json": self._set_clock}

    def _script(self, method: str, request: RestRequest, access: Access, store: Store, namespace: str) -> Reply:
        if not access.admin:
            raise Denied
        # A test in this process may have removed some.
        self._added = {number: added for number, added in self._added.items() if added[0] in self._faults}
        wanted = request.parameters.get("id")
        if wanted is not None and wanted not in self._added:
            return error_reply(404, f"there is no fault {wanted!r}")
        match method:
            case "GET":
                return Reply(200, encode([self._shown(number) for number in self._added]))
            case "POST":
                return Reply(200, encode({"id": self._add(_object(request))}))
            case "DELETE":
                for number in [wanted] if wanted is not None else [*self._added]:
                    self._added.pop(number)[0].remove()
                return Reply(200, encode(None))
        return error_reply(405, f"{method} is not one of GET, POST, DELETE")

    def _shown(self, number: str) -> dict[str, object]:
        fault, asked = self._added[number]
        held = {"held": fault.has_reached} if isinstance(fault, Hold) else {}
        return {"id": number, **asked, "hits": fault.hits, **held}

    def _add(self, asked: Mapping[str, object]) -> str:
        words = dict(asked)
        name = words.pop("fault", None)
        if name not in _FAULTS:
            raise BadRequest(f"fault must be one of {', '.join(_FAULTS)}, not {name!r}")
        _check(words)
        if isinstance(words.get("header"), list):
            words["header"] = tuple(cast(list[str], words["header"]))
        if isinstance(words.get("body"), str):
            words["body"] = str(words["body"]).encode()
        made: object = self._faults
        for part in str(name).split("."):
            made = getattr(made, part)
        try:
            fault = cast(Callable[..., Fault], made)(**words)
        except (TypeError, ValueError) as error:
            raise BadRequest(str(error)) from None
        number = str(next(self._numbers))
        self._added[number] = fault, asked
        return number

    def _set_clock(self, method: str, request: RestRequest, access: Access, store: Store, namespace: str) -> Reply:
        if method == "PUT":
            if not access.admin:
                raise Denied
            self._turn(_object(request))
        elif method != "GET":
            return error_reply(405, f"{method} is not one of GET, PUT")
        return Reply(200, encode({"now": self._now()}))

    def _turn(self, asked: Mapping[str, object]) -> None:
        if not isinstance(self._now, Clock):
            raise BadRequest("This clock can't be set: start the emulator with --clock, or Emulator(now=Clock(…))")
        match asked:
            case {"now": int(now), **rest} if not rest and not isinstance(now, bool):
                pass
            case {"advance": int(milliseconds), **rest} if not rest and not isinstance(milliseconds, bool):
                now = self._now() + milliseconds
            case _:
                raise BadRequest('The body is {"now": MILLISECONDS} or {"advance": MILLISECONDS}')
        if not 0 <= now <= _LAST_INSTANT:
            raise BadRequest(f"The clock can show 0 to {_LAST_INSTANT} ms, not {now}")
        self._now.set(now)


def _check(words: Mapping[str, object]) -> None:
    """Raise BadRequest for parameters with which the fault would fail later, at a request."""
    for word, value in words.items():
        forms = _FORMS.get(word, (str,))
        is_meant = isinstance(value, forms) and (bool in forms or not isinstance(value, bool))
        if isinstance(value, list):
            is_meant = is_meant and len(value) == 2 and all(isinstance(item, str) for item in value)
        if isinstance(value, dict):
            is_meant = is_meant and all(isinstance(item, str) for item in value.values())
        if word == "status":
            is_meant = value in range(200, 600)
        if word == "moment":
            is_meant = value in _MOMENTS
        if not is_meant:
            raise BadRequest(f"{word} can't be {value!r}")


def _object(request: RestRequest) -> dict[str, object]:
    data = decode(request.body)
    if not isinstance(data, dict):
        raise BadRequest("The body is a JSON object")
    return data
