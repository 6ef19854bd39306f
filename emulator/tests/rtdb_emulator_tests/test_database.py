"""Writes and updates: what is stored, what the checks are and in which order, and who reads what."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtdb_emulator.database import ADMIN, NULL_ETAG, Access, Database, PreconditionFailed, etag
from rtdb_emulator.errors import BadRequest, Denied
from rtdb_emulator.jsondata import render
from rtdb_emulator.paths import split_path
from rtdb_emulator.query import parse_query
from rtdb_emulator.rules import Rules
from rtdb_emulator.store import Store
from rtdb_emulator.tree import Path

NOW = 1_700_000_000_000
USER = Access(admin=False, auth={"uid": "u1"})
SIGNED_OUT = Access(admin=False)


def database(data: object = None, rules: dict[str, object] | None = None) -> Database:
    made = Database("test", lambda: NOW, Rules.parse({"rules": rules or {".read": True, ".write": True}}))
    made.write((), data, ADMIN)
    return made


def content(stored: Database) -> object:
    return render(stored.root, priorities=True, arrays=False)


WRITES: list[tuple[object, str, object, object]] = [
    (None, "/", 5, 5),
    (None, "/a/b", [1, None, 2], {"a": {"b": {"0": 1, "2": 2}}}),
    ({"a": 1, "b": 2}, "/a", {"c": 3}, {"a": {"c": 3}, "b": 2}),
    ({"a": 1, "b": 2}, "/a", None, {"b": 2}),
    ({"a": {"b": {"c": 1}}}, "/a/b/c", {}, None),
    ({"a": 5}, "/a", {".sv": {"increment": 2}}, {"a": 7}),
    (None, "/a", {".sv": "timestamp"}, {"a": NOW}),
    ({"a": {".value": 1, ".priority": 2}}, "/a", 3, {"a": 3}),
    ({"a": 1}, "/a/.priority", 2, {"a": {".value": 1, ".priority": 2}}),
    ({"a": {"b": 1}}, "/a/.priority", "p", {"a": {"b": 1, ".priority": "p"}}),
    ({"a": {"b": 1, ".priority": 1}}, "/a/.priority", None, {"a": {"b": 1}}),
    ({"a": {"b": 1, ".priority": 1}}, "/a/.priority", {".sv": {"increment": 2}}, {"a": {"b": 1, ".priority": 3}}),
    ({"a": 5}, "/a/.priority", {".sv": {"increment": 2}}, {"a": {".value": 5, ".priority": 2}}),
    ({"a": 5}, "/a/.priority", {".sv": "timestamp"}, {"a": {".value": 5, ".priority": NOW}}),
    ({"a": 5}, "/.priority", 1, {"a": 5, ".priority": 1}),
    ({"a": 5}, "/b/.priority", 1, {"a": 5}),
]


@pytest.mark.parametrize(("before", "path", "data", "after"), WRITES)
def test_write(before: object, path: str, data: object, after: object) -> None:
    """A write replaces the value at its path, or the priority alone, and returns what is there then."""
    stored = database(before)
    answer = stored.write(split_path(path), data, ADMIN)
    assert content(stored) == after
    assert answer == stored.read(split_path(path), ADMIN)


def test_priority_is_read_by_itself() -> None:
    """The path of a priority reads as the priority, or as nothing."""
    stored = database({"a": {".value": 1, ".priority": "p"}, "b": 1})
    shown = [render(stored.read(split_path(path), ADMIN)) for path in ("/a/.priority", "/b/.priority", "/c/.priority")]
    assert shown == ["p", None, None]


DEEPEST = "/a" * 32


@pytest.mark.parametrize("path", [DEEPEST, f"{DEEPEST}/.priority"])
def test_deepest_path(path: str) -> None:
    """The deepest path there may be can be written, its priority too."""
    stored = database()
    stored.write(split_path(DEEPEST), "x", ADMIN)
    assert stored.write(split_path(path), 1, ADMIN).value == 1


@pytest.mark.parametrize("path", [("a",) * 33, (*("a",) * 32, "b", ".priority")])
@pytest.mark.parametrize("data", [1, None])
def test_too_deep(path: tuple[str, ...], data: object) -> None:
    """One level more is refused, also where the path was put together from parts."""
    stored = database()
    with pytest.raises(BadRequest, match="33 levels deep"):
        stored.write(path, data, ADMIN)
    assert content(stored) is None


def test_bad_data_changes_nothing() -> None:
    """Data that is refused leaves the tree as it is."""
    stored = database({"a": 1})
    root = stored.root
    with pytest.raises(BadRequest):
        stored.write(("a",), {"b": 1, "$": 2}, ADMIN)
    with pytest.raises(BadRequest):
        stored.write(("a", ".priority"), True, ADMIN)
    assert stored.root is root


VALUE = {"a": {"n": 9}, "b": 1}
OTHER = "YPVfR2bXt/lcDjiQZ8pOkAd3qkQ="
MATCHES = [
    ("/a/n", None),
    ("/a", None),
    ("/", None),
    ("/c", NULL_ETAG),
    ("/b/x", NULL_ETAG),
    ("/a/.priority", NULL_ETAG),
]
MISMATCHES = [
    ("/a/n", OTHER, 9),
    ("/a/n", NULL_ETAG, 9),
    ("/a/n", "", 9),
    ("/a/n", "*", 9),
    ("/a/n", "invalid-etag", 9),
    ("/a", OTHER, {"n": 9}),
    ("/c", OTHER, None),
    ("/c", "", None),
]


@pytest.mark.parametrize("data", [5, {"x": 1}, None])
@pytest.mark.parametrize(("path", "tag"), MATCHES)
def test_matching_precondition(path: str, tag: str | None, data: object) -> None:
    """A write goes through if the node is in the state that `if-match` names, or absent with `null_etag`."""
    stored = database(VALUE)
    place = split_path(path)
    if path.endswith(".priority") and isinstance(data, dict):
        data = "p"
    stored.write(place, data, ADMIN, if_match=tag or etag(stored.read(place, ADMIN)))
    expected = database(VALUE)
    expected.write(place, data, ADMIN)
    assert stored.root == expected.root


@pytest.mark.parametrize("data", [5, None])
@pytest.mark.parametrize(("path", "tag", "current"), MISMATCHES)
def test_other_precondition(path: str, tag: str, current: object, data: object) -> None:
    """A write with any other tag is refused, with the current value, and changes nothing."""
    stored = database(VALUE)
    root = stored.root
    with pytest.raises(PreconditionFailed) as caught:
        stored.write(split_path(path), data, ADMIN, if_match=tag)
    assert render(caught.value.current) == current
    assert stored.root is root


def test_precondition_looks_below_and_nowhere_else() -> None:
    """A tag stays good while others write beside the node, and not when they write below it."""
    stored = database(VALUE)
    tag = etag(stored.read(("a",), ADMIN))
    stored.write(("b",), 2, ADMIN)
    stored.write(("a", "n"), 10, ADMIN)
    stored.write(("a", "n"), 9, ADMIN)
    stored.write(("a",), {"n": 9}, ADMIN, if_match=tag)
    stored.write(("a", "m", "deep"), 1, ADMIN)
    with pytest.raises(PreconditionFailed):
        stored.write(("a",), {"n": 10}, ADMIN, if_match=tag)


GUARDED: dict[str, object] = {
    "open": {".read": True, ".write": True, ".validate": "newData.isString()"},
    "blind": {".write": True, ".validate": "newData.isString()"},
    "closed": {".read": True},
}
ORDER: list[tuple[str, object, str | None, type[Exception]]] = [
    ("open", {"$": 1}, OTHER, BadRequest),
    ("open", 5, OTHER, PreconditionFailed),
    ("open", "x", OTHER, PreconditionFailed),
    ("open", 5, NULL_ETAG, Denied),
    ("open", 5, None, Denied),
    # What is current is in the answer to a failed precondition, so it takes the right to read.
    ("blind", "x", OTHER, Denied),
    ("blind", None, OTHER, Denied),
    ("closed", "x", OTHER, PreconditionFailed),
    ("closed", "x", NULL_ETAG, Denied),
    ("closed", None, None, Denied),
]


@pytest.mark.parametrize(("path", "data", "tag", "refusal"), ORDER)
def test_order_of_checks(path: str, data: object, tag: str | None, refusal: type[Exception]) -> None:
    """A write is checked for its data, then precondition, then permission, then validity."""
    stored = database(rules=GUARDED)
    with pytest.raises(refusal) as caught:
        stored.write((path,), data, SIGNED_OUT, if_match=tag)
    assert type(caught.value) is refusal
    assert content(stored) is None


@pytest.mark.parametrize("path", ["open", "blind"])
def test_permitted_write(path: str) -> None:
    """Who may write what he writes, and names the right state, needs no right to read."""
    stored = database(rules=GUARDED)
    stored.write((path,), "x", SIGNED_OUT, if_match=NULL_ETAG)
    assert content(stored) == {path: "x"}


def test_denied() -> None:
    """A refusal for want of permission says no more than that."""
    stored = database({"secret": 1}, {"secret": {".read": "auth.uid == 'u1'"}})
    assert stored.read(("secret",), USER).value == 1
    assert stored.read(("secret", ".priority"), USER).is_empty
    for path in (("secret",), ("secret", ".priority"), ()):
        with pytest.raises(Denied) as caught:
            stored.read(path, SIGNED_OUT)
        assert caught.value.text == "Permission denied"


def test_admin_passes_the_rules() -> None:
    """An admin reads and writes whatever the rules say."""
    stored = database(rules=GUARDED)
    stored.write(("blind",), 5, ADMIN)
    assert stored.read((), ADMIN).child("blind").value == 5


def test_check_write() -> None:
    """The permission of a write can be asked without writing; precondition and validity are not looked at."""
    stored = database({"open": "x"}, GUARDED)
    root = stored.root
    stored.check_write(("open",), 5, SIGNED_OUT)
    with pytest.raises(Denied):
        stored.check_write(("closed",), 5, SIGNED_OUT)
    stored.check_write(("closed",), 5, ADMIN)
    assert stored.root is root


def test_rules_see_the_servers_time() -> None:
    """A timestamp that is written equals the time that the rules see."""
    stored = database(rules={"t": {".write": "newData.val() == now"}})
    assert stored.write(("t",), {".sv": "timestamp"}, SIGNED_OUT).value == NOW


def test_rule_of_a_written_priority() -> None:
    """Writing a priority takes the right to write its node."""
    stored = database({"a": 1, "b": 1}, {"a": {".write": "newData.getPriority() == 2 && newData.val() == 1"}})
    stored.write(("a", ".priority"), 2, SIGNED_OUT)
    assert stored.root.child("a").priority == 2
    for path in (("a", ".priority"), ("b", ".priority")):
        with pytest.raises(Denied):
            stored.write(path, 3, SIGNED_OUT)


def test_a_priority_is_no_child_to_the_rules() -> None:
    """The right to a node's children is none to its priority."""
    stored = database({"a": 1}, {"a": {"$child": {".read": True, ".write": True}}})
    for act in (stored.read, lambda path, access: stored.write(path, 1, access)):
        with pytest.raises(Denied):
            act(("a", ".priority"), SIGNED_OUT)


INDEXED: dict[str, object] = {
    ".read": True,
    "dinosaurs": {".indexOn": ["height", ".value", "a/b"], "$one": {".indexOn": "x"}},
}
INDEXES = [("/dinosaurs", "height"), ("/dinosaurs", "$value"), ("/dinosaurs", "a/b"), ("/dinosaurs/rex", "x")]
MISSING = [
    ("/dinosaurs", "weight", "weight", "/dinosaurs"),
    ("/dinosaurs", "a", "a", "/dinosaurs"),
    ("/dinosaurs/rex", "height", "height", "/dinosaurs/rex"),
    ("/dinosaurs/rex", "$value", ".value", "/dinosaurs/rex"),
    ("/", "height", "height", "/"),
    ("/other/place", "$value", ".value", "/other/place"),
]


@pytest.mark.parametrize("access", [ADMIN, SIGNED_OUT])
def test_index(access: Access) -> None:
    """Ordering by a child or by value needs an index at the path, for an admin too; other orders need none."""
    stored = database(rules=INDEXED)
    for path, order in (*INDEXES, ("/", "$key"), ("/dinosaurs", "$priority")):
        stored.read(split_path(path), access, parse_query({"orderBy": f'"{order}"'}))
    for path, order, index, shown in MISSING:
        with pytest.raises(BadRequest) as caught:
            stored.read(split_path(path), access, parse_query({"orderBy": f'"{order}"'}))
        assert caught.value.text == f'Index not defined, add ".indexOn": "{index}", for path "{shown}", to the rules'


def test_query_of_the_rules() -> None:
    """The rules see the query of a read, and permission comes before the index."""
    stored = database(rules={"q": {".read": "query.limitToFirst <= 2"}})
    stored.read(("q",), SIGNED_OUT, parse_query({"orderBy": '"$key"', "limitToFirst": "2"}))
    for parameters in ({"orderBy": '"$key"', "limitToFirst": "3"}, {"orderBy": '"x"'}):
        with pytest.raises(Denied):
            stored.read(("q",), SIGNED_OUT, parse_query(parameters))


def test_store() -> None:
    """A store gives the same database each time, and names those that were written to or given rules."""
    store = Store(lambda: NOW, Rules.parse({"rules": GUARDED}))
    first = store.database("b")
    store.database("a").write(("x",), 1, ADMIN)
    assert store.database("b") is first
    assert first.root.is_empty
    assert store.names() == ["a"]
    first.set_rules(first.rules)
    assert store.names() == ["a", "b"]
    with pytest.raises(Denied):
        first.write((), 1, SIGNED_OUT)


def test_rules_of_its_own_stay() -> None:
    """A database that was given rules keeps them when all others get new ones, also if they read as those did."""
    store = Store(lambda: NOW, Rules.parse({"rules": GUARDED}))
    own, other = store.database("own"), store.database("other")
    own.set_rules(Rules.parse({"rules": GUARDED}))
    store.replace_rules(Rules.parse({"rules": {}}))
    assert own.rules.as_json() == {"rules": GUARDED}
    assert other.rules.as_json() == {"rules": {}}


INVALID_OBJECT = "Invalid data; couldn't parse JSON object. Are you sending a JSON object with valid key names?"
STORED = {"a": {"b": 1, "c": 2}, "d": {".value": 5, ".priority": 1}, "l": "leaf"}


def after(path: str, data: dict[str, object]) -> object:
    stored = database(STORED)
    stored.update(split_path(path), data, ADMIN)
    return render(stored.root, priorities=True, arrays=False)


UPDATES: list[tuple[str, dict[str, object], object]] = [
    ("/", {}, STORED),
    ("/a", {"b": 3}, {**STORED, "a": {"b": 3, "c": 2}}),
    ("/", {"a": {"x": 1}}, {**STORED, "a": {"x": 1}}),
    ("/", {"a/b": 3, "a/x/y": [4], "n": 1}, {**STORED, "a": {"b": 3, "c": 2, "x": {"y": {"0": 4}}}, "n": 1}),
    ("/a", {"/b//": 3}, {**STORED, "a": {"b": 3, "c": 2}}),
    ("/a", {"b": None, "c": None}, {"d": STORED["d"], "l": "leaf"}),
    ("/a", {"b": {}, "c": []}, {"d": STORED["d"], "l": "leaf"}),
    ("/l", {"x": 1}, {**STORED, "l": {"x": 1}}),
    ("/l", {"x": None}, STORED),
    ("/d", {"x": 1}, {**STORED, "d": {"x": 1, ".priority": 1}}),
    ("/", {"d": 6}, {**STORED, "d": 6}),
    ("/", {"d/.priority": None}, {**STORED, "d": 5}),
    ("/d", {".priority": "p"}, {**STORED, "d": {".value": 5, ".priority": "p"}}),
    ("/a", {".priority": 7, "b": 3}, {**STORED, "a": {"b": 3, "c": 2, ".priority": 7}}),
    ("/n", {".priority": 7}, STORED),
    # The priority comes last, whatever the order: it goes onto what the update makes of its node.
    ("/n", {".priority": 7, "x": 1}, {**STORED, "n": {"x": 1, ".priority": 7}}),
    ("/a", {".priority": 7, "b": None, "c": None}, {"d": STORED["d"], "l": "leaf"}),
    ("/", {"a/b": {".sv": {"increment": 2}}, "a/c": {".sv": {"increment": 3}}}, {**STORED, "a": {"b": 3, "c": 5}}),
    ("/", {"s": {".sv": "timestamp"}, "t": {".sv": "timestamp"}}, {**STORED, "s": NOW, "t": NOW}),
    ("/d", {".priority": {".sv": {"increment": 2}}}, {**STORED, "d": {".value": 5, ".priority": 3}}),
]


@pytest.mark.parametrize(("path", "data", "expected"), UPDATES)
def test_update(path: str, data: dict[str, object], expected: object) -> None:
    """An update replaces what each of its keys names, which may be a deep path or a priority, and leaves the rest."""
    assert after(path, data) == expected


def test_answer() -> None:
    """An update returns what is stored at each of its keys, as they were sent."""
    data = {"a/b": {".sv": {"increment": 2}}, "/l/": None, "d/.priority": "p", "t": {".sv": "timestamp"}}
    answer = database(STORED).update((), data, ADMIN)
    assert {key: render(node) for key, node in answer.items()} == {"a/b": 3, "/l/": None, "d/.priority": "p", "t": NOW}


BAD_KEYS = ["", "/", "//", "a.b", "$a", "a/#", "a[0]", "\x00", "\ud800", "a" * 769, ".value", ".sv", ".priority/a"]
BAD_KEYS += ["/".join("a" * 33)]


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
    assert after("/", data) == {**STORED, "n": {"a": 1, "ab": 2, "a-": 3, "b": {"a": 4}}}


def test_update_of_a_priority() -> None:
    """A priority has no children that could be updated."""
    with pytest.raises(BadRequest, match="has no children"):
        after("/d/.priority", {"x": 1})


def test_update_too_deep() -> None:
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
    stored = database(STORED)
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
    stored = database(STORED, RULES)
    root = stored.root
    with pytest.raises(Denied):
        stored.update((), data, SIGNED_OUT)
    assert stored.root is root


def test_rules_see_the_whole_update() -> None:
    """Each path of an update is judged by the tree that all of them together make."""
    stored = database(STORED, RULES)
    stored.update((), {"n": 1, "a/b": 3}, SIGNED_OUT)
    assert render(stored.root.child("n")) == 1


KEYS = st.sampled_from(["a", "b", "0"])
PATHS = st.lists(KEYS, min_size=1, max_size=3).map(tuple)
LEAVES = st.none() | st.booleans() | st.integers(0, 9) | st.text("xy", max_size=2)
SERVER_VALUES = st.sampled_from([{".sv": "timestamp"}, {".sv": {"increment": 2}}])
DATA = st.recursive(
    LEAVES | SERVER_VALUES | st.builds(lambda value: {".value": value, ".priority": 1}, LEAVES),
    lambda inner: st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)


def are_disjoint(paths: list[Path]) -> bool:
    return not any(
        one[: len(other)] == other
        for index, one in enumerate(paths)
        for place, other in enumerate(paths)
        if index != place
    )


@given(DATA, st.lists(KEYS, max_size=1).map(tuple), st.dictionaries(PATHS, DATA, max_size=4))
def test_update_is_its_writes(before: object, base: Path, changes: dict[Path, object]) -> None:
    """An update of disjoint paths leaves what the single writes leave, in any order; of others it writes nothing."""
    updated = database(before)
    root = updated.root
    data = {"/".join(path): value for path, value in changes.items()}
    if not are_disjoint(list(changes)):
        try:
            updated.update(base, data, ADMIN)
        except BadRequest:
            assert updated.root is root
            return
        raise AssertionError("one of the paths is above another")
    answer = updated.update(base, data, ADMIN)
    for order in (list(changes), list(reversed(changes))):
        one_by_one = database(before)
        for path in order:
            one_by_one.write((*base, *path), changes[path], ADMIN)
        assert updated.root == one_by_one.root
        assert updated.root.hash == one_by_one.root.hash
    assert answer == {"/".join(path): updated.root.at((*base, *path)) for path in changes}
