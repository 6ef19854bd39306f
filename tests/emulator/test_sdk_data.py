"""firebase-admin's `Reference` against the emulator: reading, writing, paths."""

from __future__ import annotations

import time

import pytest
from firebase_admin import db, exceptions
from tests.emulator.conftest import MakeApp, ReferenceTo

from rtdb_emulator.pytest_plugin import Rtdb

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


def test_get_of_nothing_is_none(reference: ReferenceTo) -> None:
    """An absent node reads as None, shallow or not."""
    assert reference("nowhere").get() is None
    assert reference("nowhere").get(shallow=True) is None


@pytest.mark.parametrize(
    ("value", "seen"),
    [({"a": {"x": 1}, "b": 2}, {"a": True, "b": True}), (["p", "q"], {"0": True, "1": True}), ("leaf", "leaf")],
    ids=["object", "array", "leaf"],
)
def test_a_shallow_get_shows_the_keys_only(reference: ReferenceTo, value: object, seen: object) -> None:
    """With `shallow` an object reads as its keys, also where they are indexes, and a leaf as itself."""
    reference("a").set(value)
    assert reference("a").get(shallow=True) == seen


def test_set_replaces_what_was_there(reference: ReferenceTo) -> None:
    """`set` leaves nothing of the old value, and a child below a leaf turns the leaf into an object."""
    reference("a").set({"old": 1})
    reference("a").set({"new": 2})
    reference("a/new/below").set(3)
    assert reference("a").get() == {"new": {"below": 3}}


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


def test_delete_takes_empty_parents_along(reference: ReferenceTo, rtdb: Rtdb) -> None:
    """Deleting a last child removes its parents too, and deleting nothing is no error."""
    reference("a/b/c").set(1)
    reference("a/b/c").delete()
    reference("a/b/c").delete()
    assert rtdb.get("/") is None


ODD_KEYS = [
    "sp ace",
    "é",
    "%",
    "日本😀",
    "a+b",
    "x&y=1",
    "a;b,c",
    'it\'s "q"',
    "back\\slash",
    "a:b@c",
    "(){}<>|^~`!*",
    "-0",
]


@pytest.mark.parametrize("key", ODD_KEYS)
def test_odd_characters_in_a_path(reference: ReferenceTo, rtdb: Rtdb, key: str) -> None:
    """Whatever the SDK lets into a path is the key that is stored, and what `key`, `path` and `parent` say."""
    node = reference("odd").child(f"{key}/end")
    node.set("here")
    assert rtdb.get("/odd") == {key: {"end": "here"}}
    assert (node.key, node.path, node.get()) == ("end", f"/odd/{key}/end", "here")
    assert (node.parent.key, node.parent.get()) == (key, {"end": "here"})


def test_the_root_is_a_node(reference: ReferenceTo) -> None:
    """The root can be set, read and deleted; it has no key and no parent."""
    root = reference("/")
    root.set({"a": 1})
    assert (root.key, root.parent, root.path, root.get()) == (None, None, "/", {"a": 1})
    root.delete()
    assert root.get() is None


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


def test_one_app_can_use_several_databases(make_app: MakeApp, rtdb: Rtdb) -> None:
    """`reference(url=…)` reaches another namespace, and the two share no data."""
    app = make_app()
    other = f"{rtdb.namespace}-other"
    db.reference("a", app).set("mine")
    db.reference("a", app, url=rtdb.emulator.database_url(other)).set("other")
    assert (rtdb.get("/a"), rtdb.emulator.get(other, "/a")) == ("mine", "other")
