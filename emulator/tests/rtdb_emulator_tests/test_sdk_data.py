"""firebase-admin's `Reference` against the emulator: reading, writing, paths, and the errors of rules and of faults."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

import pytest
import urllib3
from firebase_admin import db, exceptions

from rtdb_emulator.pytest_plugin import Rtdb
from rtdb_emulator_tests.conftest import ReferenceTo
from rtdb_emulator_tests.helpers.firebase_apps import MakeApp, Reference

VALUES = {
    "text": "Grüße, 日本, 😀",
    "escapes": 'quote " backslash \\ slash / newline \n tab \t zero \x00 line \u2028',
    "empty text": "",
    "integer": 2**53 + 1,
    "negative": -7,
    "double": 0.1,
    "huge": 1e300,
    "true": True,
    "false": False,
    "object": {"a": {"b": {"c": "deep"}}, "ключ": 1, "sp ace": 2},
    "array": ["a", ["b", "c"], {"d": 1}],
    "sparse array": ["a", None, "c"],
    "many children": {f"k{number}": number for number in range(2_000)},
    "large text": "ä" * 2_000_000,
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_what_is_set_is_read_back(reference: ReferenceTo, rtdb: Rtdb, value: object) -> None:
    """A value comes back from `get` as it went into `set`, and is what the database holds."""
    reference("a/b").set(value)
    assert reference("a/b").get() == value == rtdb.get("/a/b")


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        ({"a": 1, "b": None, "c": {}, "d": []}, {"a": 1}),
        ({"0": "a", "1": "b"}, ["a", "b"]),
        ({"1": "a", "7": "b"}, {"1": "a", "7": "b"}),
        ([None, "a"], [None, "a"]),
        ({"2": "a", "4": "b"}, {"2": "a", "4": "b"}),
        (1.0, 1),
        ({".value": 5, ".priority": 1}, 5),
        ({}, None),
        ([], None),
    ],
    ids=str,
)
def test_is_stored_in_the_form_of_the_database(reference: ReferenceTo, value: object, stored: object) -> None:
    """Empty children vanish, dense integer keys read as a list and sparse ones don't, a whole double is an integer."""
    reference("a").set("something else")
    reference("a").set(value)
    assert reference("a").get() == stored


def test_resolves_server_values(reference: ReferenceTo) -> None:
    """The timestamp becomes the server's milliseconds, one value a request, and an increment adds to what is there."""
    before = time.time_ns() // 1_000_000
    reference("a").set({"at": {".sv": "timestamp"}, "again": {".sv": "timestamp"}, "n": 40})
    reference("a").update({"n": {".sv": {"increment": 2}}, "new": {".sv": {"increment": 1.5}}})
    stored = reference("a").get()
    assert before <= stored["at"] == stored["again"] <= time.time_ns() // 1_000_000
    assert (stored["n"], stored["new"]) == (42, 1.5)


@pytest.mark.parametrize(
    ("value", "seen"),
    [({"a": {"x": 1}, "b": 2}, {"a": True, "b": True}), (["p", "q"], {"0": True, "1": True}), ("leaf", "leaf")],
    ids=["object", "array", "leaf"],
)
def test_a_shallow_get_shows_the_keys_only(reference: ReferenceTo, value: object, seen: object) -> None:
    """With `shallow` an object reads as its keys, also where they are indexes, and a leaf as itself."""
    reference("a").set(value)
    assert reference("a").get(shallow=True) == seen


@pytest.mark.parametrize(
    ("change", "stored"),
    [
        ({"x": 9}, {"x": 9, "y": {"p": 2, "q": 3}}),
        ({"y": {"p": 9}}, {"x": 1, "y": {"p": 9}}),
        ({"y/p": 9, "z/deep/er": 4}, {"x": 1, "y": {"p": 9, "q": 3}, "z": {"deep": {"er": 4}}}),
        ({"x": None, "y/p": None}, {"y": {"q": 3}}),
        ({"y": None, "nowhere": None}, {"x": 1}),
        ({"x": None, "y": None}, None),
    ],
    ids=str,
)
def test_update_replaces_the_named_paths_only(reference: ReferenceTo, change: object, stored: object) -> None:
    """`update` replaces each named child or deeper path, deletes where it says None, and leaves the rest."""
    reference("a").set({"x": 1, "y": {"p": 2, "q": 3}})
    reference("a").update(change)
    assert reference("a").get() == stored


@pytest.mark.parametrize("change", [{"y": {}, "y/p": 1}, {"bad$key": 1}, {"": 1}], ids=str)
def test_an_impossible_update_changes_nothing(reference: ReferenceTo, rtdb: Rtdb, change: dict[str, object]) -> None:
    """`update` with an illegal path, or one above another, is an InvalidArgumentError and writes none of its paths."""
    with pytest.raises(exceptions.InvalidArgumentError):
        reference("a").update({"good": 1, **change})
    assert rtdb.get("/") is None


def test_push_makes_children_in_order(reference: ReferenceTo) -> None:
    """`push` gives each child a key that sorts after the earlier ones, and an empty text where no value is given."""
    pushed = [reference("list").push(number) for number in range(50)]
    default = reference("list").push()
    keys = [child.key for child in pushed]
    assert keys == sorted(set(keys))
    assert [child.get() for child in pushed[:2]] == [0, 1]
    assert default.get() == ""
    assert list(reference("list").order_by_key().get().values()) == [*range(50), ""]


ODD_KEYS = ["sp ace", "é", "%", "日本😀", "a+b", "x&y=1", "a;b,c", 'it\'s "q"', "back\\slash", "a:b@c", "-0"]
ODD_KEYS += ["(){}<>|^~`!*"]


@pytest.mark.parametrize("key", ODD_KEYS)
def test_odd_characters_in_a_path(reference: ReferenceTo, rtdb: Rtdb, key: str) -> None:
    """Whatever the SDK lets into a path is the key that is stored, and what `key`, `path` and `parent` say."""
    node = reference("odd").child(f"{key}/end")
    node.set("here")
    assert rtdb.get("/odd") == {key: {"end": "here"}}
    assert (node.key, node.path, node.get()) == ("end", f"/odd/{key}/end", "here")
    assert (node.parent.key, node.parent.get()) == (key, {"end": "here"})


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("a", {"bad.key": 1}),
        ("a", {"k" * 769: 1}),
        ("a", "x" * (10 * 1024 * 1024 + 1)),
        ("a", {".value": 1, "child": 2}),
        ("a", {".sv": "unknown"}),
        ("/".join(["d"] * 33), 1),
        ("control\x01", 1),
    ],
    ids=["dot", "long key", "long text", "value and child", "server value", "too deep", "control character"],
)
def test_what_the_database_cannot_hold_is_refused(reference: ReferenceTo, rtdb: Rtdb, path: str, value: object) -> None:
    """Illegal keys and too large or too deep data are an InvalidArgumentError, and nothing is written."""
    with pytest.raises(exceptions.InvalidArgumentError):
        reference(path).set(value)
    assert rtdb.get("/") is None


def test_an_address_or_the_environment_leads_to_the_same_database(make_app: MakeApp, rtdb: Rtdb) -> None:
    """The SDK finds the emulator by an http databaseURL, and by the environment beside a production URL."""
    production = f"https://{rtdb.namespace}.firebaseio.com"
    db.reference("by/url", make_app(rtdb.url)).set(1)
    db.reference("by/host", make_app(production)).set(2)
    assert rtdb.get("/by") == {"url": 1, "host": 2}
    assert [request.headers["authorization"] for request in (logged.facts for logged in rtdb.emulator.requests)] == [
        "Bearer owner",
        "Bearer owner",
    ]


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
