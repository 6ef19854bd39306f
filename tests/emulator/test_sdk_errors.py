"""firebase-admin's errors against the emulator: rules under an auth override, and scripted faults."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import pytest
import urllib3
from firebase_admin import db, exceptions
from tests.emulator.conftest import MakeApp, Reference, ReferenceTo

from rtdb_emulator.pytest_plugin import Rtdb

RULES = """{
  "rules": {
    "open": {".read": true, ".write": true},
    "users": {
      "$uid": {".read": "$uid === auth.uid", ".write": "$uid === auth.uid", ".validate": "newData.isString()"}
    },
    "admins": {".read": "auth.token.admin === true", ".write": "auth.token.admin === true"}
  }
}"""

Act: TypeAlias = Callable[[Reference], object]

ACTIONS: dict[str, Act] = {
    "get": lambda node: node.get(),
    "get with etag": lambda node: node.get(etag=True),
    "shallow get": lambda node: node.get(shallow=True),
    "get_if_changed": lambda node: node.get_if_changed("null_etag"),
    "query": lambda node: node.order_by_key().get(),
    "set": lambda node: node.set("x"),
    "set_if_unchanged": lambda node: node.set_if_unchanged("null_etag", "x"),
    "push": lambda node: node.push("x"),
    "update": lambda node: node.update({"x": "x"}),
    "delete": lambda node: node.delete(),
    "transaction": lambda node: node.transaction(lambda _: "x"),
    "listen": lambda node: node.listen(print),
}


@contextmanager
def denied() -> Iterator[None]:
    with pytest.raises(exceptions.UnauthenticatedError) as caught:
        yield
    assert str(caught.value) == "Permission denied"
    assert caught.value.http_response.status_code == 401


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK's HTTP library repeats requests without its pauses of up to 4 seconds."""
    monkeypatch.setattr(urllib3.Retry, "sleep", lambda *_: None)


@pytest.mark.parametrize("act", ACTIONS.values(), ids=ACTIONS)
@pytest.mark.parametrize("override", [None, {"uid": "somebody"}, {"uid": "alice2"}], ids=str)
def test_rules_refuse_everything_they_do_not_open(make_app: MakeApp, rtdb: Rtdb, act: Act, override: object) -> None:
    """Under an auth override each call that the rules forbid is an UnauthenticatedError, and nothing is written."""
    rtdb.set("/users", {"alice": "kept"})
    rtdb.set_rules(RULES)
    with denied():
        act(db.reference("users/alice", make_app(databaseAuthVariableOverride=override)))
    assert rtdb.get("/") == {"users": {"alice": "kept"}}


def test_rules_see_the_override_as_auth(make_app: MakeApp, rtdb: Rtdb) -> None:
    """The override is `auth`, whole, in the rules: its owner reads and writes her own node, claims included."""
    rtdb.set_rules(RULES)
    app = make_app(databaseAuthVariableOverride={"uid": "alice", "token": {"admin": True}})
    for path in ("users/alice", "open", "admins"):
        db.reference(path, app).transaction(lambda _: "hello")
        assert db.reference(path, app).get() == "hello"
    with denied():
        db.reference("users/bob", app).get()
    with denied():
        db.reference("users/alice", app).set(5)


def test_an_override_of_none_is_signed_out(make_app: MakeApp, rtdb: Rtdb) -> None:
    """With None the client is nobody: it may do what the rules leave open to all."""
    rtdb.set_rules(RULES)
    node = db.reference("open", make_app(databaseAuthVariableOverride=None))
    node.set("hello")
    assert node.get() == "hello"


@pytest.mark.parametrize("options", [{}, {"databaseAuthVariableOverride": {}}], ids=["none given", "empty"])
def test_rules_do_not_hold_for_an_admin(make_app: MakeApp, rtdb: Rtdb, options: dict[str, Any]) -> None:
    """Without an override, and with the SDK's empty one, the rules are passed by, validation as well."""
    rtdb.set_rules('{"rules": {}}')
    node = db.reference("users/alice", make_app(**options))
    node.set(5)
    assert node.get() == 5


@pytest.mark.parametrize(
    ("status", "error", "requests"),
    [
        (400, exceptions.InvalidArgumentError, 1),
        (401, exceptions.UnauthenticatedError, 3),
        (403, exceptions.PermissionDeniedError, 1),
        (404, exceptions.NotFoundError, 1),
        (409, exceptions.ConflictError, 1),
        (412, exceptions.FailedPreconditionError, 1),
        (418, exceptions.UnknownError, 1),
        (429, exceptions.ResourceExhaustedError, 1),
        (500, exceptions.InternalError, 5),
        (503, exceptions.UnavailableError, 5),
    ],
)
@pytest.mark.parametrize(
    "act", [ACTIONS["get"], ACTIONS["set"], ACTIONS["set_if_unchanged"]], ids=["get", "set", "set_if_unchanged"]
)
@pytest.mark.usefixtures("no_pauses")
def test_a_scripted_status_becomes_the_sdks_error(
    reference: ReferenceTo, rtdb: Rtdb, act: Act, status: int, error: type[Exception], requests: int
) -> None:
    """A status that a fault answers is the SDK's error for it, after as many requests as the SDK makes of it."""
    with rtdb.faults.answer(status, times=None), pytest.raises(error, match="scripted fault"):
        act(reference("a"))
    assert rtdb.count(path="/a") == requests
    assert rtdb.get("/a") is None


@pytest.mark.parametrize("status", [500, 503])
@pytest.mark.usefixtures("no_pauses")
def test_an_outage_that_passes_is_not_noticed(reference: ReferenceTo, rtdb: Rtdb, status: int) -> None:
    """The SDK repeats a request that meets a 500 or 503, and returns what the database answers in the end."""
    rtdb.set("/a", "still here")
    rtdb.faults.answer(status, times=4)
    assert reference("a").get() == "still here"
    assert rtdb.count() == 5


@pytest.mark.parametrize("stored", [1, 2])
def test_a_push_that_is_repeated(reference: ReferenceTo, rtdb: Rtdb, stored: int) -> None:
    """The SDK repeats what was dropped: a push is stored once if its request was lost, twice if its reply was."""
    fault = rtdb.faults.drop_request() if stored == 1 else rtdb.faults.drop_reply()
    pushed = reference("list").push("x")
    children = rtdb.get("/list")
    assert isinstance(children, dict)
    assert len(children) == stored
    assert pushed.key == max(children)
    assert fault.hits == 1


def test_a_database_that_does_not_answer_is_unavailable(make_app: MakeApp, rtdb: Rtdb) -> None:
    """A request that is held beyond `httpTimeout` is an UnavailableError, and held before its work it isn't done."""
    node = db.reference("a", make_app(httpTimeout=0.2))
    hold = rtdb.faults.hold(times=None)
    with pytest.raises(exceptions.UnavailableError):
        node.set(1)
    hold.wait()
    assert rtdb.get("/a") is None
