"""Which functions a write triggers, and what each is called with.

The Firebase CLI's functions emulator registers a function here for each database trigger that it finds (`Trigger`), and
wants to be called for each event (`Call`): by a background event for functions of the first generation
(`functions.database.ref().onWrite`), by a CloudEvent for those of the second (`onValueWritten`). Nothing tells that a
function is gone: the CLI answers 404 then.

A commit is remembered inside the write, and looked at after it: `committed` costs nothing where nobody has registered.
Pure, but for the identifiers of events: `http.calls` makes the requests.
"""

from __future__ import annotations

import json
import logging
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Final, Literal, TypeAlias
from uuid import uuid4

from rtdb_emulator.database import Access, Commit
from rtdb_emulator.errors import BadRequest
from rtdb_emulator.jsondata import render
from rtdb_emulator.tree import Node, Path

logger = logging.getLogger("rtdb_emulator")

Kind: TypeAlias = Literal["written", "created", "updated", "deleted"]

# The types of events: of the first generation, and of the second.
_KINDS: Mapping[str, Kind] = {
    "providers/google.firebase.database/eventTypes/ref.write": "written",
    "providers/google.firebase.database/eventTypes/ref.create": "created",
    "providers/google.firebase.database/eventTypes/ref.update": "updated",
    "providers/google.firebase.database/eventTypes/ref.delete": "deleted",
    "google.firebase.database.ref.v1.written": "written",
    "google.firebase.database.ref.v1.created": "created",
    "google.firebase.database.ref.v1.updated": "updated",
    "google.firebase.database.ref.v1.deleted": "deleted",
}
# `projects/…/locations/_/functions/…` of the first generation, `projects/…/locations/REGION/triggers/…` of the second.
_NAME = re.compile(r"projects/([^/]+)/locations/([^/]+)/(functions|triggers)/(.+)")
# The region of every emulated database: the CLI warns that functions elsewhere are not triggered.
REGION = "us-central1"
_CAPTURE = re.compile(r"\{(\w+)(?:=(.*))?\}")


@dataclass(frozen=True)
class Trigger:
    """A function that is called when something happens at a path of the databases that `databases` matches."""

    name: str
    event: str
    path: str
    databases: str
    project: str
    region: str
    key: str
    is_second: bool

    @property
    def why_never(self) -> str | None:
        """Why it is never called; None if it is."""
        if self.event not in _KINDS:
            return f"the event {self.event!r} is not known"
        if any("**" in segment for segment in self.segments):
            return f"the path {self.path!r} has a ** that stands for many segments"
        if self.is_second and self.region != REGION:
            return f"it is in {self.region}, and emulated databases are in {REGION}"
        return None

    @property
    def segments(self) -> list[str]:
        return [segment for segment in self.path.split("/") if segment]

    def parameters(self, path: Path) -> dict[str, str]:
        """The keys of a path that its pattern gives names to."""
        pairs = zip(self.segments, path, strict=True)
        return {found[1]: key for segment, key in pairs if (found := _CAPTURE.fullmatch(segment))}

    def as_json(self) -> dict[str, str]:
        return {"name": self.name, "path": self.path, "event": self.event, "namespacePattern": self.databases}


@dataclass(frozen=True)
class Call:
    """One request to the functions emulator."""

    function: str
    target: str
    content_type: str
    body: bytes


@dataclass(frozen=True)
class _Written:
    """A write whose functions are to be called: its database, its time, and the functions then."""

    database: str
    commit: Commit
    at: int
    triggers: tuple[Trigger, ...]


class Functions:
    """The functions of all databases of one emulator, and the writes that wait for their calls, for any thread."""

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._triggers: dict[str, Trigger] = {}
        self._waiting: deque[_Written] = deque()
        self._wake: Callable[[], None] | None = None

    def register(self, data: object, namespace: str | None, *, anew: bool) -> None:
        """Add the functions of a request's body: one, a list, or {"functionTriggers": a list}. One of the same name is
        replaced. With `anew`, those that the namespace (None: any) had are gone.
        """
        given = data["functionTriggers"] if isinstance(data, dict) and "functionTriggers" in data else data
        triggers = [_trigger(one, namespace) for one in (given if isinstance(given, list) else [given])]
        kept = {} if namespace is None else {n: t for n, t in self._triggers.items() if t.databases != namespace}
        self._triggers = {**(kept if anew else self._triggers), **{trigger.name: trigger for trigger in triggers}}
        for trigger in triggers:
            if why := trigger.why_never:
                logger.warning("the function %s is never called: %s", trigger.key, why)

    def as_json(self) -> dict[str, object]:
        return {"functionTriggers": [trigger.as_json() for trigger in self._triggers.values()]}

    def attach(self, wake: Callable[[], None]) -> None:
        """Call `wake`, which must not block, when there is a write to look at, until `detach`."""
        self._wake = wake

    def detach(self) -> None:
        self._wake = None
        self._waiting.clear()

    def committed(self, database: str, commit: Commit) -> None:
        """Remember a write, if it could trigger a function. The database calls this inside the write."""
        if not self._triggers or self._wake is None:
            return
        triggers = tuple(one for one in self._triggers.values() if fnmatchcase(database, one.databases))
        if triggers:
            self._waiting.append(_Written(database, commit, self._now(), triggers))
            self._wake()

    def next_calls(self) -> list[Call] | None:
        """Return what the oldest write that waits has triggered; None if none waits."""
        try:
            written = self._waiting.popleft()
        except IndexError:
            return None
        return [call for trigger in written.triggers for call in _calls(trigger, written)]


def _trigger(data: object, namespace: str | None) -> Trigger:
    if not isinstance(data, dict) or not all(isinstance(data.get(word), str) for word in ("name", "path", "event")):
        raise BadRequest("A function has the texts name, path and event")
    databases = data.get("namespacePattern", namespace or "*")
    if not isinstance(databases, str):
        raise BadRequest("namespacePattern is a text")
    found = _NAME.fullmatch(data["name"])
    if found is None:
        raise BadRequest(f"name {data['name']!r} isn't projects/…/locations/…/functions/… or …/triggers/…")
    project, region, generation, key = found.groups()
    return Trigger(
        data["name"], data["event"], data["path"], databases, project, region, key, is_second=generation == "triggers"
    )


def _calls(trigger: Trigger, written: _Written) -> Iterator[Call]:
    if trigger.why_never is not None:
        return
    kind, commit = _KINDS[trigger.event], written.commit
    for path in places(trigger.segments, commit):
        before, after = commit.before.at(path), commit.after.at(path)
        happened: Kind = "created" if before.is_empty else "deleted" if after.is_empty else "updated"
        if kind in ("written", happened):
            make = _cloud_event if trigger.is_second else _background_event
            event = make(trigger, written, path, _change(before, after))
            suffix = "application/cloudevents+json" if trigger.is_second else "application/json"
            yield Call(
                trigger.key,
                f"/functions/projects/{trigger.project}/triggers/{trigger.key}",
                f"{suffix}; charset=utf-8",
                json.dumps(event, ensure_ascii=True).encode(),
            )


# --- where a write has changed something


def places(segments: Sequence[str], commit: Commit) -> list[Path]:
    """Return the paths that a pattern matches and whose value a write has changed, in its order."""
    found: dict[Path, None] = {}
    for change in commit.changes:
        if not change.priority_only:
            found.update(dict.fromkeys(_places(segments, change.path, (), commit.before, commit.after)))
    return list(found)


def _places(segments: Sequence[str], written: Path, path: Path, before: Node, after: Node) -> Iterator[Path]:
    """Yield the paths below `path` that are on the way to what was written, at it, or below it."""
    if before == after:
        return
    if not segments:
        yield path
        return
    is_below = len(path) >= len(written)
    for key in dict.fromkeys([*after.members, *before.members]) if is_below else [written[len(path)]]:
        if _matches(segments[0], key):
            yield from _places(segments[1:], written, (*path, key), before.child(key), after.child(key))


def _matches(segment: str, key: str) -> bool:
    """Whether a segment of a pattern stands for a key: `{name}`, `*`, `{name=a*}`, or the key itself."""
    capture = _CAPTURE.fullmatch(segment)
    glob = (capture[2] or "*") if capture else segment
    return glob == key or ("*" in glob and re.fullmatch(".*".join(map(re.escape, glob.split("*"))), key) is not None)


# --- what a function is told


def _change(before: Node, after: Node) -> dict[str, object]:
    """The value before a write, and what of it has changed: a child that is null was deleted."""
    old, new = (render(node, arrays=False) for node in (before, after))
    delta = _delta(old, new)
    # Only a priority has changed, which no function hears of.
    return {"data": old, "delta": ({} if isinstance(new, dict) else new) if delta is _SAME else delta}


_SAME: Final = object()


def _delta(old: object, new: object) -> object:
    """What of a value has changed, as it is now; `_SAME` if nothing has."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return _SAME if type(old) is type(new) and old == new else new  # True is no 1
    changed: dict[str, object] = dict.fromkeys(old.keys() - new.keys())
    for key, value in new.items():
        delta = _delta(old[key], value) if key in old else value
        if delta is not _SAME:
            changed[key] = delta
    return changed or _SAME


def _background_event(trigger: Trigger, written: _Written, path: Path, change: object) -> object:
    access = written.commit.access
    auth: dict[str, object] = {"admin": access.admin}
    if not access.admin and access.auth is not None:
        auth["variable"] = access.auth
    context = {
        "eventId": str(uuid4()),
        "timestamp": _time(written.at),
        "eventType": trigger.event,
        "resource": {
            "service": "firebaseio.com",
            "name": f"projects/_/instances/{written.database}/refs/{'/'.join(path)}",
        },
        "params": trigger.parameters(path),
        "auth": auth,
    }
    return {"context": context, "data": change}


def _cloud_event(trigger: Trigger, written: _Written, path: Path, change: dict[str, object]) -> object:
    return {
        "specversion": "1.0",
        "id": str(uuid4()),
        "time": _time(written.at),
        "type": trigger.event,
        "source": f"//firebasedatabase.googleapis.com/projects/_/locations/{REGION}/instances/{written.database}",
        "subject": f"refs/{'/'.join(path)}",
        "datacontenttype": "application/json",
        "location": REGION,
        "instance": written.database,
        "ref": "/".join(path),
        "firebasedatabasehost": "firebaseio.com",
        **_who(written.commit.access),
        "data": {"@type": "type.googleapis.com/google.events.firebase.database.v1.ReferenceEventData", **change},
    }


def _who(access: Access) -> dict[str, str]:
    if access.admin:
        return {"authtype": "admin"}
    uid = access.auth.get("uid") if isinstance(access.auth, dict) else None
    return {"authtype": "app_user", "authid": uid} if isinstance(uid, str) else {"authtype": "unauthenticated"}


def _time(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
