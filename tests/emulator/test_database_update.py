"""Several paths in one write: all of them or none."""

import pytest

from rtdb_emulator.database import ADMIN, Access, Database
from rtdb_emulator.errors import BadRequest, Denied
from rtdb_emulator.jsondata import render
from rtdb_emulator.paths import split_path
from rtdb_emulator.rules import Rules

NOW = 1_700_000_000_000
SIGNED_OUT = Access(admin=False)
INVALID_OBJECT = "Invalid data; couldn't parse JSON object. Are you sending a JSON object with valid key names?"
BEFORE = {"a": {"b": 1, "c": 2}, "d": {".value": 5, ".priority": 1}, "l": "leaf"}


def database(rules: dict[str, object] | None = None) -> Database:
    made = Database("test", lambda: NOW, Rules.parse({"rules": rules or {".write": True}}))
    made.write((), BEFORE, ADMIN)
    return made


def after(path: str, data: dict[str, object]) -> object:
    stored = database()
    stored.update(split_path(path), data, ADMIN)
    return render(stored.root, priorities=True, arrays=False)


UPDATES: list[tuple[str, dict[str, object], object]] = [
    ("/", {}, BEFORE),
    ("/a", {"b": 3}, {**BEFORE, "a": {"b": 3, "c": 2}}),
    ("/", {"a": {"x": 1}}, {**BEFORE, "a": {"x": 1}}),
    ("/", {"a/b": 3, "a/x/y": [4], "n": 1}, {**BEFORE, "a": {"b": 3, "c": 2, "x": {"y": {"0": 4}}}, "n": 1}),
    ("/a", {"/b//": 3}, {**BEFORE, "a": {"b": 3, "c": 2}}),
    ("/a", {"b": None, "c": None}, {"d": BEFORE["d"], "l": "leaf"}),
    ("/a", {"b": {}, "c": []}, {"d": BEFORE["d"], "l": "leaf"}),
    ("/l", {"x": 1}, {**BEFORE, "l": {"x": 1}}),
    ("/l", {"x": None}, BEFORE),
    ("/d", {"x": 1}, {**BEFORE, "d": {"x": 1, ".priority": 1}}),
    ("/", {"d": 6}, {**BEFORE, "d": 6}),
    ("/", {"d/.priority": None}, {**BEFORE, "d": 5}),
    ("/d", {".priority": "p"}, {**BEFORE, "d": {".value": 5, ".priority": "p"}}),
    ("/a", {".priority": 7, "b": 3}, {**BEFORE, "a": {"b": 3, "c": 2, ".priority": 7}}),
    ("/n", {".priority": 7}, BEFORE),
    # The priority comes last, whatever the order: it goes onto what the update makes of its node.
    ("/n", {".priority": 7, "x": 1}, {**BEFORE, "n": {"x": 1, ".priority": 7}}),
    ("/a", {".priority": 7, "b": None, "c": None}, {"d": BEFORE["d"], "l": "leaf"}),
    ("/", {"a/b": {".sv": {"increment": 2}}, "a/c": {".sv": {"increment": 3}}}, {**BEFORE, "a": {"b": 3, "c": 5}}),
    ("/", {"s": {".sv": "timestamp"}, "t": {".sv": "timestamp"}}, {**BEFORE, "s": NOW, "t": NOW}),
    ("/d", {".priority": {".sv": {"increment": 2}}}, {**BEFORE, "d": {".value": 5, ".priority": 3}}),
]


@pytest.mark.parametrize(("path", "data", "expected"), UPDATES)
def test_update(path: str, data: dict[str, object], expected: object) -> None:
    """An update replaces what each of its keys names, which may be a deep path or a priority, and leaves the rest."""
    assert after(path, data) == expected


def test_answer() -> None:
    """An update returns what is stored at each of its keys, as they were sent."""
    data = {"a/b": {".sv": {"increment": 2}}, "/l/": None, "d/.priority": "p", "t": {".sv": "timestamp"}}
    answer = database().update((), data, ADMIN)
    assert {key: render(node) for key, node in answer.items()} == {"a/b": 3, "/l/": None, "d/.priority": "p", "t": NOW}


BAD_KEYS = [
    "",
    "/",
    "//",
    "a.b",
    "$a",
    "a/#",
    "a[0]",
    "\x00",
    "\ud800",
    "a" * 769,
    ".value",
    ".sv",
    ".priority/a",
    "/".join("a" * 33),
]


@pytest.mark.parametrize("key", BAD_KEYS)
def test_bad_key(key: str) -> None:
    """An update with a key that is no path is refused as a whole."""
    with pytest.raises(BadRequest) as caught:
        after("/", {"n": 1, key: 1})
    assert caught.value.text == INVALID_OBJECT


CONFLICTS = [
    {"a": 1, "a/b": 2},
    {"a/b": 1, "a": 2},
    {"a": None, "a/b/c/d": None},
    {"a": 1, "b": 1, "a/x": 1, "ab": 1, "a-": 1},
    {"a": 1, "/a": 2},
    {"a": 1, "a/.priority": 2},
]


@pytest.mark.parametrize("data", CONFLICTS)
def test_conflict(data: dict[str, object]) -> None:
    """No key of an update may be above another, or the same."""
    with pytest.raises(BadRequest, match=r"path '/?a' is ancestor of, or the same as, path '/?a.*'"):
        after("/", data)


def test_similar_keys_are_no_conflict() -> None:
    """Keys that only begin alike may stand together."""
    data: dict[str, object] = {"n/a": 1, "n/ab": 2, "n/a-": 3, "n/b/a": 4}
    assert after("/", data) == {**BEFORE, "n": {"a": 1, "ab": 2, "a-": 3, "b": {"a": 4}}}


def test_update_of_a_priority() -> None:
    """A priority has no children that could be updated."""
    with pytest.raises(BadRequest, match="has no children"):
        after("/d/.priority", {"x": 1})


def test_too_deep() -> None:
    """The levels of the path and of the key count together."""
    after("/a" * 16, {"/".join("b" * 16): 1})
    for key, value in (("/".join("b" * 17), 1), ("/".join("b" * 16), [1])):
        with pytest.raises(BadRequest, match="33 levels deep"):
            after("/a" * 16, {key: value})


BAD_DATA: list[dict[str, object]] = [
    {"n": 1, "a/b": {"$": 1}},
    {"n": 1, "a/b": {".sv": "unknown"}},
    {"n": 1, "a/.priority": True},
    {"n": 1, "": 1},
    {"n": 1, "n/m": 1},
]


@pytest.mark.parametrize("data", BAD_DATA)
def test_bad_request_writes_nothing(data: dict[str, object]) -> None:
    """An update with one bad key or value writes none of the others."""
    stored = database()
    root = stored.root
    with pytest.raises(BadRequest):
        stored.update((), data, ADMIN)
    assert stored.root is root


RULES: dict[str, object] = {
    "a": {".write": True, "b": {".validate": "newData.isNumber()"}},
    "n": {".write": "newData.parent().child('a/b').val() == 3"},
}


@pytest.mark.parametrize("data", [{"a/b": 3, "d": 1}, {"a/b": "x"}, {"a/c": 1, "n": 1}, {"a/b": 3, ".priority": 1}])
def test_denied_update_writes_nothing(data: dict[str, object]) -> None:
    """An update with one path that isn't permitted, or not valid, writes none of the others."""
    stored = database(RULES)
    root = stored.root
    with pytest.raises(Denied):
        stored.update((), data, SIGNED_OUT)
    assert stored.root is root


def test_rules_see_the_whole_update() -> None:
    """Each path of an update is judged by the tree that all of them together make."""
    stored = database(RULES)
    stored.update((), {"n": 1, "a/b": 3}, SIGNED_OUT)
    assert render(stored.root.child("n")) == 1
