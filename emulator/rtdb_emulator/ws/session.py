"""One client of a database: its rights, its listens, and its onDisconnect writes.

`Session.handle` takes a request and returns its answer. The pushes of a request, also those to the client itself, are
sent inside the commit: so they come before the answer, and in the order of the commits on every connection. It raises
nothing for any request.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Final, Protocol, TypeAlias, TypeGuard

from rtdb_emulator.database import ADMIN, NULL_ETAG, Access, Database, PreconditionFailed
from rtdb_emulator.errors import BadRequest, Denied
from rtdb_emulator.http.credentials import user_of
from rtdb_emulator.jsondata import INVALID, INVALID_OBJECT
from rtdb_emulator.paths import PRIORITY, split_path
from rtdb_emulator.query import Query
from rtdb_emulator.rules.explain import explain
from rtdb_emulator.tree import Path, branch
from rtdb_emulator.viewer.inspector import Inspector
from rtdb_emulator.ws.disconnects import Disconnects
from rtdb_emulator.ws.listens import Listen, Listens
from rtdb_emulator.ws.messages import (
    INSPECT,
    OK,
    Answer,
    Request,
    dumps,
    ended,
    exported,
    pushed,
    refusal,
    said,
)
from rtdb_emulator.ws.queries import parse_wire_query
from rtdb_emulator.ws.segments import Message

logger = logging.getLogger("rtdb_emulator")

_SIGNED_OUT: Final = Access(admin=False)
_STALE: Final = refusal("datastale", "Transaction hash does not match")
_Body: TypeAlias = Mapping[str, object]
# The place and the query of a listen: so the client names it.
_Known: TypeAlias = tuple[Path, str]


class Sink(Protocol):
    """Queue a message for the client. The thread of a commit calls this, and it never blocks."""

    def send(self, message: Message) -> None: ...


class Session:
    """A client, from its hello to its end. With `explains` it gets the reason for each refusal. `inspect` begins to
    serve the emulator's own page.
    """

    def __init__(
        self, listens: Listens, sink: Sink, inspect: Callable[[], Inspector], *, explains: bool = False
    ) -> None:
        self.access = _SIGNED_OUT
        self.send: Callable[[Message], None] = sink.send
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

    def undisturbed(self) -> AbstractContextManager[object]:
        """Return a block in which no write happens. A request that writes would wait for ever in it."""
        return self._database.still()

    def settle(self) -> None:
        """If the rights have changed, end the listens that they don't allow."""
        if self._has_other_rights:
            self._has_other_rights = False
            with self._database.still():
                self._all.recheck(self._listens.values())

    def revoked(self, listen: Listen, denied: Denied) -> None:
        self._forget(listen)
        self._explain(denied)
        self.send(ended(listen.path, listen.spelled))

    def end(self, *, writes: bool) -> None:
        """The client is gone: end its listens, and with `writes` run its onDisconnect writes."""
        self._close_inspector()
        with self._database.still():
            for listen in self._listens.values():
                self._all.remove(listen)
            self._listens, self._tags = {}, {}
        pending = self._disconnects.take()
        for path, value in pending if writes else ():
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
        with self._database.still() as root:
            self._database.check_read(path, self.access, asked)
            is_indexed = self._database.has_index(path, asked)
            listen = Listen(self, path, asked, asked if is_indexed else None, tag, spelled if asked else None)
            known = _known(path, asked, spelled)
            replaced = known if tag is None else self._tags.get(tag, known)
            for old in (self._listens.get(known), self._listens.get(replaced)):
                if old is not None and self._forget(old):
                    self._all.remove(old)
            node = self._all.add(listen, root)
            self._listens[known] = listen
            if tag is not None:
                self._tags[tag] = known
            if not body.get("h") or body["h"] != node.hash:
                self.send(pushed("d", path, exported(node), tag))
        return Answer("ok", "{}" if is_indexed else '{"w":["no_index"]}')

    def _unlisten(self, body: _Body) -> Answer:
        path, spelled, tag = _path(body), body.get("q"), body.get("t")
        asked = parse_wire_query(spelled) if spelled is not None else None
        known = self._tags.get(tag) if _is_integer(tag) else None
        with self._database.still():
            listen = self._listens.get(known or _known(path, asked, spelled))
            if listen is not None and self._forget(listen):
                self._all.remove(listen)
        return OK

    def _get(self, body: _Body) -> Answer:
        path = _path(body)
        asked = parse_wire_query(body.get("q", {}))
        node = self._database.read(path, self.access, asked)
        if asked is not None:
            node = branch(asked.select(node), node.priority)
        return Answer("ok", exported(node))

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
        self._become(_SIGNED_OUT)
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
        with self._database.still():
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
            self.send(said("\n".join(explain(denied.refused))))


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


def _values(body: _Body) -> dict[str, object]:
    values = _data(body)
    if not isinstance(values, dict):
        raise BadRequest(INVALID_OBJECT)
    return values


def _known(path: Path, asked: Query | None, spelled: object) -> _Known:
    return path, "" if asked is None else json.dumps(spelled, sort_keys=True)


def _is_integer(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)
