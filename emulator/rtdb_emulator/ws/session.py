"""One client of a database: its rights, its listens, and its onDisconnect writes.

`Session.handle` takes a request and returns its answer. The pushes of a request, also those to the client itself, are
sent inside the commit: so they come before the answer, and in the order of the commits on every connection. It raises
nothing for any request.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Final, TypeAlias, TypeGuard, final

from rtdb_emulator.database import ADMIN, NULL_ETAG, SIGNED_OUT, Access, Database, PreconditionFailed
from rtdb_emulator.errors import BadRequest, Denied
from rtdb_emulator.http.messages import user_of
from rtdb_emulator.jsondata import INVALID, INVALID_OBJECT
from rtdb_emulator.large import preparing
from rtdb_emulator.paths import PRIORITY, split_path
from rtdb_emulator.query import Query
from rtdb_emulator.rules.explain import explain
from rtdb_emulator.tree import Node, Path, branch
from rtdb_emulator.viewer import Inspector
from rtdb_emulator.ws.listens import Listen, Listens
from rtdb_emulator.ws.messages import (
    INSPECT,
    OK,
    Answer,
    Message,
    Request,
    dumps,
    ended,
    exported,
    parse_wire_query,
    pushed,
    refusal,
    security_debug,
)

logger = logging.getLogger("rtdb_emulator")

# The onDisconnect writes of one step.
WRITES: Final = 10
_STALE: Final = refusal("datastale", "Transaction hash does not match")
_Body: TypeAlias = Mapping[str, object]
# The place and the query of a listen: so the client names it.
_Known: TypeAlias = tuple[Path, str]


class Session:
    """A client, from its hello to its end. With `explains` it gets the reason for each refusal.

    `send` queues a message for it. The thread of a commit calls it, and it never blocks. `inspect` begins to serve the
    emulator's own page.
    """

    def __init__(
        self,
        listens: Listens,
        send: Callable[[Message], None],
        inspect: Callable[[], Inspector],
        *,
        explains: bool = False,
    ) -> None:
        self.access = SIGNED_OUT
        self.send = send
        self._database: Database = listens.database
        self._all = listens
        self._listens: dict[_Known, Listen] = {}
        self._tags: dict[int, _Known] = {}
        self._disconnects = Disconnects()
        self._explains = explains
        self._has_other_rights = False
        self._inspect = inspect
        self._inspector: Inspector | None = None

    def handle(self, request: Request, *, rules_first: bool = False) -> Answer:
        """Do a request, and return its answer. After the answer is sent, the caller calls `settle`."""
        action = _ACTIONS.get(request.action)
        if action is None:
            return refusal("error", f"Unknown action {request.action[:40]!r}")
        try:
            if rules_first and request.action == "p":
                return self._put(request.body, rules_first=True)
            return action(self, request.body)
        except PreconditionFailed:
            return _STALE
        except Denied as denied:
            self._explain(denied)
            return replace(refusal("permission_denied", denied.text), refused=denied.refused)
        except BadRequest as error:
            return refusal("failed", error.text.removeprefix("Invalid path: "))
        except (RecursionError, ValueError):  # a token's user that is too deep, or has a number that JSON can't have
            return refusal("failed", INVALID)

    def preparing(self, request: Request) -> Generator[None]:
        """Make a request quick, in steps, where it needs the order or the hash of many children, or a query's window
        that waits for a commit.
        """
        body = request.body
        if request.action not in ("q", "g", "p") or not (body.get("q") or body.get("h")):
            return
        try:
            path, asked = _path(body), parse_wire_query(body.get("q", {}))
        except BadRequest:
            return  # which the answer says
        order = None if asked is None else asked.order
        yield from preparing(self._database.root.at(path), order, hashed=asked is None and bool(body.get("h")))
        if request.action == "q":
            yield from self._all.catching_up(path, asked)

    def without_writes(self) -> AbstractContextManager[object]:
        """Return a block in which no write happens. A request that writes would wait for ever in it."""
        return self._database.locked()

    def settle(self) -> None:
        """If the rights have changed, end the listens that they don't allow."""
        if self._has_other_rights:
            self._has_other_rights = False
            with self._database.locked():
                self._all.recheck(self._listens.values())

    def revoked(self, listen: Listen, denied: Denied) -> None:
        self._forget(listen)
        self._explain(denied)
        self.send(ended(listen.path, listen.spelled))

    def ending(self, *, writes: bool) -> Generator[None]:
        """The client is gone: end its listens, and with `writes` run its onDisconnect writes, a few in each step.

        The listens end with the first step.
        Each write is a commit of its own, in the order in which it would come at once, and under the rules of its
        moment. So others may see some of the writes without the rest, and may write between them: it is the same as if
        they did so between the requests of a client. Whoever must not come between runs the rest first: the same client
        that is back, which names its session, and the end of the emulator.
        """
        self._close_inspector()
        with self._database.locked():
            for listen in self._listens.values():
                self._all.remove(listen)
            self._listens, self._tags = {}, {}
        pending = self._disconnects.take()
        for number, (path, value) in enumerate(pending if writes else ()):
            if number and number % WRITES == 0:
                yield
            try:
                self._database.write(path, value, self.access)
            except (Denied, BadRequest) as refused:
                logger.info("an onDisconnect write at /%s was refused: %s", "/".join(path), refused.text)

    def _listen(self, body: _Body) -> Answer:
        path, spelled, tag = _path(body), body.get("q"), body.get("t")
        if path[-1:] == (PRIORITY,):
            raise BadRequest(f"A listen is of a whole node: leave out {PRIORITY}")
        asked = parse_wire_query(spelled) if spelled is not None else None
        if not (tag is None or _is_integer(tag)):
            raise BadRequest(f"Invalid tag: an integer is wanted, not {tag!r}")
        if asked is not None and tag is None:
            raise BadRequest("A listen with a query needs a tag")
        with self._database.locked() as root:
            self._database.check_read(path, self.access, asked)
            is_indexed = self._database.has_index(path, asked)
            listen = Listen(self, path, asked, tag, spelled if asked else None)
            known = _known(path, asked, spelled)
            replaced = known if tag is None else self._tags.get(tag, known)
            for old in (self._listens.get(known), self._listens.get(replaced)):
                if old is not None and self._forget(old):
                    self._all.remove(old)
            node, keys = self._all.add(listen, root)
            self._listens[known] = listen
            if tag is not None:
                self._tags[tag] = known
            if not body.get("h") or body["h"] != _hash(node, keys):
                # Without the index the client makes the window itself, once: the later pushes are what moves it.
                self.send(pushed("d", path, exported(node, keys if is_indexed else None), tag))
        return Answer("ok", "{}" if is_indexed else '{"w":["no_index"]}')

    def _unlisten(self, body: _Body) -> Answer:
        path, spelled, tag = _path(body), body.get("q"), body.get("t")
        asked = parse_wire_query(spelled) if spelled is not None else None
        known = self._tags.get(tag) if _is_integer(tag) else None
        with self._database.locked():
            listen = self._listens.get(known or _known(path, asked, spelled))
            if listen is not None and self._forget(listen):
                self._all.remove(listen)
        return OK

    def _get(self, body: _Body) -> Answer:
        path = _path(body)
        asked = parse_wire_query(body.get("q", {}))
        node = self._database.read(path, self.access, asked)
        return Answer("ok", exported(node, None if asked is None else asked.keys(node)))

    def _put(self, body: _Body, *, rules_first: bool = False) -> Answer:
        known = body.get("h")
        if known is not None and not isinstance(known, str):
            raise BadRequest(f"Invalid hash: a string is wanted, not {known!r}")
        # The answer to a stale write shows no data, so the client needs no right to read.
        self._database.write(
            _path(body),
            _data(body),
            self.access,
            if_match=NULL_ETAG if known == "" else known,
            rules_first=rules_first,
            shows_current=False,
        )
        return OK

    def _merge(self, body: _Body) -> Answer:
        self._database.update(_path(body), _values(body), self.access)
        return OK

    def _leave_put(self, body: _Body) -> Answer:
        path, data = _path(body), _data(body)
        self._database.check_possible(path, data, self.access)
        self._disconnects.remember(path, data)
        return OK

    def _leave_merge(self, body: _Body) -> Answer:
        path, values = _path(body), _values(body)
        self._database.check_possible_update(path, values, self.access)
        for key, value in values.items():
            self._disconnects.remember((*path, *split_path(key)), value)
        return OK

    def _leave_nothing(self, body: _Body) -> Answer:
        self._disconnects.forget(_path(body))
        return OK

    def _sign_in(self, body: _Body) -> Answer:
        token = body.get("cred")
        try:
            access = ADMIN if token == "owner" else Access(admin=False, auth=user_of(str(token)))
        except Denied as denied:
            return refusal("invalid_token", denied.text)
        return self._signed_in(access, body)

    def _sign_in_as_admin(self, body: _Body) -> Answer:
        return self._signed_in(ADMIN, body)

    def _signed_in(self, access: Access, body: _Body) -> Answer:
        override = body.get("authvar")
        if body.get("noauth") is True or "authvar" in body:
            if not access.admin:
                raise Denied("Unauthorized request.")
            if override is not None and not isinstance(override, dict):
                raise BadRequest("authvar must be an object or null")
            access = Access(admin=False, auth=None if body.get("noauth") is True else override)
        answer = Answer("ok", dumps({"auth": access.auth, "expires": None}))
        self._become(access)
        return answer

    def _sign_out(self, body: _Body) -> Answer:
        self._become(SIGNED_OUT)
        return OK

    def _take_note(self, body: _Body) -> Answer:
        return OK

    def _answer_page(self, body: _Body) -> Answer:
        if not self.access.admin:
            raise Denied
        if self._inspector is None:
            self._inspector = self._inspect()
        return Answer("ok", dumps(self._inspector.receive(body)))

    def _close_inspector(self) -> None:
        if self._inspector is not None:
            self._inspector.close()
            self._inspector = None

    def _become(self, access: Access) -> None:
        self._close_inspector()
        # A commit on another thread reads this when it checks the listens.
        with self._database.locked():
            self.access = access
        self._has_other_rights = True

    def _forget(self, listen: Listen) -> bool:
        """Forget a listen. Return whether the session had it."""
        known = _known(listen.path, listen.asked, listen.spelled)
        if self._listens.get(known) is not listen:
            return False
        del self._listens[known]
        if listen.tag is not None and self._tags.get(listen.tag) == known:
            del self._tags[listen.tag]
        return True

    def _explain(self, denied: Denied) -> None:
        if self._explains and denied.refused is not None:
            self.send(security_debug("\n".join(explain(denied.refused))))


_ACTIONS: Mapping[str, Callable[[Session, _Body], Answer]] = {
    "s": Session._take_note,
    "q": Session._listen,
    "n": Session._unlisten,
    "g": Session._get,
    "p": Session._put,
    "m": Session._merge,
    "o": Session._leave_put,
    "om": Session._leave_merge,
    "oc": Session._leave_nothing,
    "auth": Session._sign_in,
    "gauth": Session._sign_in_as_admin,
    "unauth": Session._sign_out,
    "appcheck": Session._take_note,
    "unappeck": Session._take_note,
    INSPECT: Session._answer_page,
}


def _path(body: _Body) -> Path:
    path = body.get("p")
    if not isinstance(path, str):
        raise BadRequest(f"Invalid path: a string is wanted, not {path!r}")
    return split_path(path)


def _data(body: _Body) -> object:
    if "d" not in body:
        raise BadRequest("Error: No data supplied.")
    return body["d"]


def _hash(node: Node, keys: list[str] | None) -> str:
    """Return the hash of what a client holds: a node, or a node with these of its children only."""
    shown = node if keys is None else branch({key: node.child(key) for key in keys}, node.priority)
    return shown.hash


def _values(body: _Body) -> dict[str, object]:
    values = _data(body)
    if not isinstance(values, dict):
        raise BadRequest(INVALID_OBJECT)
    return values


def _known(path: Path, asked: Query | None, spelled: object) -> _Known:
    return path, "" if asked is None else json.dumps(spelled, sort_keys=True)


def _is_integer(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


# --- onDisconnect: a sparse tree of pending writes
#
# A value is kept as the client has sent it, with its server values, because they are resolved at the write. A tree is a
# pending value, or has trees below it, or is empty. Pure.

_Json: TypeAlias = object


@final
class Disconnects:
    """The pending writes at and below one place."""

    __slots__ = ("_below", "_is_set", "_value")

    def __init__(self) -> None:
        self._is_set = False
        self._value: _Json = None
        self._below: dict[str, Disconnects] = {}

    def remember(self, path: Path, value: _Json) -> None:
        """Add a pending write. It replaces all pending writes at and below the path."""
        if not path:
            self._is_set, self._value, self._below = True, value, {}
        elif self._is_set:
            self._value = _with(self._value, path, value)
        else:
            # The last to arrive is the last to be written.
            below = self._below.pop(path[0], None) or Disconnects()
            self._below[path[0]] = below
            below.remember(path[1:], value)

    def forget(self, path: Path) -> None:
        """Drop the pending writes at and below the path; those beside it stay."""
        if not path:
            self._is_set, self._value, self._below = False, None, {}
            return
        if self._is_set:
            members = _members(self._value)
            if members is None and self._value is not None:
                return  # a single value has no part below it to remove
            self._is_set, self._value = False, None
            for key, item in (members or {}).items():
                self.remember((key,), item)
        below = self._below.get(path[0])
        if below is not None:
            below.forget(path[1:])
            if below.is_empty:
                del self._below[path[0]]

    @property
    def is_empty(self) -> bool:
        return not self._is_set and not self._below

    def take(self) -> list[tuple[Path, _Json]]:
        """Return all pending writes, and forget them. A priority comes after its value."""
        writes = sorted(self._writes(()), key=lambda write: write[0][-1:] == (PRIORITY,))
        self.forget(())
        return writes

    def _writes(self, path: Path) -> Iterator[tuple[Path, _Json]]:
        if self._is_set:
            yield path, self._value
        for key, below in self._below.items():
            yield from below._writes((*path, key))


def _with(value: _Json, path: Path, new: _Json) -> _Json:
    """Return a value with another one at a path below it; None if nothing is left."""
    if not path:
        return new
    members = _members(value)
    if members is None:
        # A leaf: it stays for a priority, and makes room for a child.
        given = value if isinstance(value, dict) and ".value" in value else {".value": value}
        if path == (PRIORITY,):
            return None if given[".value"] is None else {".value": given[".value"], PRIORITY: new}
        if _is_nothing(new):
            return value
        members = {PRIORITY: given[PRIORITY]} if PRIORITY in given else {}
    members = {**members, path[0]: _with(members.get(path[0]), path[1:], new)}
    return None if _is_nothing(members) else members


def _is_nothing(value: _Json) -> bool:
    """Return whether a write of this value deletes."""
    if isinstance(value, dict) and ".value" in value:
        return value[".value"] is None
    members = _members(value)
    if members is None:
        return value is None
    return all(key == PRIORITY or _is_nothing(item) for key, item in members.items())


def _members(value: _Json) -> dict[str, _Json] | None:
    """Return the children of an object or array, with its priority; None for a leaf."""
    if isinstance(value, list):
        return {str(index): item for index, item in enumerate(value) if item is not None}
    if isinstance(value, dict) and not {".value", ".sv"} & value.keys():
        return value
    return None
