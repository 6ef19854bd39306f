"""Which rules decide a read or a write, and at what place in the tree each of them looks."""

import json
from pathlib import Path as FilePath

import pytest

from rtdb_emulator.jsondata import parse
from rtdb_emulator.rules import QueryFacts, Rules, Write
from rtdb_emulator.tree import EMPTY

NOW = 1_700_000_000_000
CASES = json.loads((FilePath(__file__).parent / "data" / "rule-cases.json").read_text("utf-8"))


def keys(path: str) -> tuple[str, ...]:
    return tuple(key for key in path.split("/") if key)


def reads(rules: object, path: str, root: object = None, auth: object = None, query: QueryFacts | None = None) -> bool:
    request = Rules.parse({"rules": rules}).request(parse(root, now=NOW), None, auth=auth, now=NOW)
    return request.may_read(keys(path), query)


def writes(rules: object, changes: dict[str, object], root: object = None, auth: object = None) -> bool:
    """Whether all of these changes, done at once, are allowed."""
    before = after = parse(root, now=NOW)
    done = [Write(keys(path), parse(data, now=NOW)) for path, data in changes.items()]
    for write in done:
        after = after.put(write.path, write.carried)
    request = Rules.parse({"rules": rules}).request(before, after, auth=auth, now=NOW)
    return all(request.grants_write(write) and request.is_valid(write) for write in done)


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["id"]))
def test_decides_as_the_live_service_does(case: dict[str, object]) -> None:
    """Each recorded situation is allowed or denied as it was on the live service."""
    rules, path, root, auth = case["rules"], str(case["path"]), case.get("root"), case["auth"]
    data = case.get("data")
    if case["op"] == "read":
        asked = case.get("query")
        query = (
            QueryFacts(order_by_child=asked["orderByChild"], equal_to=asked["equalTo"])
            if isinstance(asked, dict)
            else None
        )
        allowed = reads(rules, path, root, auth, query)
    elif case["op"] == "update":
        assert isinstance(data, dict)
        allowed = writes(rules, {f"{path}/{key}": value for key, value in data.items()}, root, auth)
    else:
        allowed = writes(rules, {path: data}, root, auth)
    assert allowed is case["want"]


@pytest.mark.parametrize(
    ("rules", "path", "allowed"),
    [
        ({}, "/", False),
        ({"a": {}}, "/a/b", False),
        ({".read": True}, "/", True),
        ({".read": True}, "/any/where", True),
        ({"a": {".read": True}}, "/", False),
        ({"a": {".read": True}}, "/b", False),
        ({"a": {".read": True, "b": {".read": False}}}, "/a/b/c", True),
        ({".read": "data.child(auth.none).exists()", "a": {".read": True}}, "/a", True),
        ({"a": {".read": True, "b": {".read": "auth.none > 1"}}}, "/a/b", True),
        ({"a": {".write": True, ".validate": True}}, "/a", False),
        ({"a": {"$x": {".read": "$x == 'b c'"}}}, "/a/b c", True),
        ({"a": {"$x": {".read": "$x == 'b c'"}}}, "/a/b", False),
        ({"$x": {"$y": {"z": {".read": "$x + $y == 'ab'"}}}}, "/a/b/z/more", True),
        ({"$x": {"$y": {"z": {".read": "$x + $y == 'ab'"}}}}, "/b/a/z", False),
        ({"$x": {".read": True}, "a": {}}, "/a", False),
        ({"a": {"b": {}}, "$x": {"b": {".read": True}}}, "/a/b", False),
        ({"$x": {".read": "data.val() == 1"}}, "/one", True),
        ({".read": "data.child('one').val() == 1"}, "/two", True),
        ({"$x": {".read": "data.val() == root.child('one').val()"}}, "/two", False),
    ],
)
def test_a_read_needs_one_rule_on_its_path(rules: object, path: str, allowed: bool) -> None:
    """A read is allowed when one `.read` from the root down to it holds, with `data` at that rule's own place."""
    assert reads(rules, path, {"one": 1, "two": 2}) is allowed


RECORD = {
    "r": {
        "$id": {
            ".write": True,
            ".validate": "newData.hasChildren(['t'])",
            "t": {".validate": "newData.isString()"},
            "n": {".validate": "newData.isNumber()"},
            "list": {"$i": {".validate": "newData.val() == $i"}},
        }
    }
}


@pytest.mark.parametrize(
    ("rules", "root", "changes", "allowed"),
    [
        # (a) One .write on the path grants; those below don't count, and .validate and .read grant nothing.
        ({}, None, {"/a": 1}, False),
        ({"a": {".validate": True, ".read": True}}, None, {"/a": 1}, False),
        ({".write": True, "a": {".write": False}}, None, {"/a/b": 1}, True),
        ({"a": {"b": {".write": True}}}, None, {"/a": {"b": 1}}, False),
        ({".write": "auth.none > 1", "a": {".write": True}}, None, {"/a": 1}, True),
        ({"a": {".write": "auth.none > 1 || true"}}, None, {"/a": 1}, False),
        # Each rule looks at its own place: data before, newData after, root before.
        ({"a": {".write": "data.val() == 1 && newData.val() == 2"}}, {"a": 1}, {"/a": 2}, True),
        ({"a": {".write": "newData.child('b').val() == 1 && !data.exists()"}}, None, {"/a/b": 1}, True),
        ({"a": {".write": "newData.child('c').val() == 7"}}, {"a": {"c": 7}}, {"/a/b": 1}, True),
        (
            {"a": {".write": "root.child('a').val() == 1 && newData.parent().child('a').val() == 2"}},
            {"a": 1},
            {"/a": 2},
            True,
        ),
        ({"a": {".write": "!newData.exists()"}}, {"a": 1}, {"/a": None}, True),
        ({"a": {"$x": {".write": "$x == 'é b'"}}}, None, {"/a/é b/c": 1}, True),
        # (b) .validate on the path, on the merged value, unless the node is gone.
        (RECORD, None, {"/r/1": {"t": "x"}}, True),
        (RECORD, None, {"/r/1": {"n": 1}}, False),
        (RECORD, None, {"/r/1/n": 1}, False),
        (RECORD, {"r": {"1": {"t": "x"}}}, {"/r/1/n": 1}, True),
        (RECORD, {"r": {"1": {"t": "x", "n": 1}}}, {"/r/1/t": None}, False),
        (RECORD, {"r": {"1": {"t": "x"}}}, {"/r/1/t": None}, True),
        (RECORD, {"r": {"1": {"t": "x", "n": 1}}}, {"/r/1": None}, True),
        ({".write": True, ".validate": "newData.hasChild('keep')"}, {"keep": 1}, {"/a": 1}, True),
        ({".write": True, ".validate": "newData.hasChild('keep')"}, {"keep": 1, "a": 1}, {"/keep": None}, False),
        # (c) .validate below, on what is carried and nothing else.
        (RECORD, {"r": {"1": {"n": "bad", "t": "y"}}}, {"/r/1/t": "x"}, True),
        (RECORD, {"r": {"1": {"n": "bad", "t": "y"}}}, {"/r/1": {"t": "x", "n": "bad"}}, False),
        (RECORD, None, {"/r/1": {"t": "x", "list": {"a": "a", "b": "b"}}}, True),
        (RECORD, None, {"/r/1": {"t": "x", "list": {"a": "a", "b": "c"}}}, False),
        (RECORD, None, {"/r/1": {"t": "x", "list": {"a": {"deep": 1}}}}, False),
        (RECORD, None, {"/r/1": {"t": "x", "other": {"t": 5}}}, True),
        ({".write": True, **RECORD}, None, {"/": {"r": {"1": {"t": "x"}, "2": {"t": 5}}}}, False),
        ({".write": True, **RECORD}, None, {"/r": {"1": {"t": "x"}, "2": {"t": "y"}}}, True),
        (
            {".write": True, "$x": {"b": {"c": {"d": {".validate": False}}}}},
            None,
            {"/a": {"b": {"c": {"d": 1}}}},
            False,
        ),
        ({".write": True, "a": {".validate": False}}, None, {"/b/a": 1}, True),
        ({".write": True, "a": {"b": {".validate": False}}}, None, {"/a/x": {"b": 1}}, True),
        ({".write": True, "a": {".validate": False}}, {"a": 1}, {"/b": {"a": 1}}, True),
        # A literal key hides the $ child from validation as well.
        ({".write": True, "ok": {}, "$other": {".validate": False}}, None, {"/": {"ok": 1}}, True),
        ({".write": True, "ok": {}, "$other": {".validate": False}}, None, {"/": {"ok": 1, "more": 1}}, False),
        # Several writes at once: each is asked by itself, and sees the tree with all of them done.
        ({"a": {".write": True}, "b": {".write": True}}, None, {"/a": 1, "/b": 1}, True),
        ({"a": {".write": True}, "b": {}}, None, {"/a": 1, "/b": 1}, False),
        ({"$x": {".write": "newData.parent().child('b').val() == 1"}}, None, {"/a": 1, "/b": 1}, True),
        ({"$x": {".write": "root.child('b').val() == null"}}, None, {"/a": 1, "/b": 1}, True),
        ({"$x": {".write": "newData.parent().child('b').val() == 1"}}, None, {"/a": 1}, False),
        (RECORD, None, {"/r/1/n": 1, "/r/1/t": "x"}, True),
        (RECORD, None, {"/r/1/t": "x", "/r/2/n": 1}, False),
        # Indexes decide nothing, and a query has no part in a write.
        ({".indexOn": ["a"], "a": {".write": "query.orderByKey == false", ".indexOn": "b"}}, None, {"/a": 1}, True),
    ],
)
def test_a_write_is_granted_and_valid(rules: object, root: object, changes: dict[str, object], allowed: bool) -> None:
    """A write needs a `.write` on its path, every `.validate` on it, and every `.validate` of what it carries."""
    assert writes(rules, changes, root) is allowed


def test_an_update_of_nothing_is_allowed() -> None:
    """Without any write there is nothing that a rule could refuse."""
    assert writes({}, {})


def test_a_written_timestamp_is_now() -> None:
    """A resolved server timestamp equals `now`."""
    assert writes({"t": {".write": True, ".validate": "newData.val() == now"}}, {"/t": {".sv": "timestamp"}})
    assert not writes({"t": {".write": True, ".validate": "newData.val() == now"}}, {"/t": NOW - 1})


def test_rules_are_asked_at_their_own_priority() -> None:
    """A priority is seen by `getPriority` before and after, and never by `val`."""
    rules = {"a": {".write": "data.getPriority() == 1 && newData.getPriority() == 'p' && newData.val() == data.val()"}}
    assert writes(rules, {"/a": {".value": "v", ".priority": "p"}}, {"a": {".value": "v", ".priority": 1}})


def test_no_write_reaches_rules_of_an_empty_tree() -> None:
    """Deleting what isn't there is granted by `.write` and not validated."""
    rules = Rules.parse({"rules": {".write": True, "$x": {".validate": False}}})
    request, write = rules.request(EMPTY, EMPTY, auth=None, now=NOW), Write(("a",), EMPTY)
    assert request.grants_write(write)
    assert request.is_valid(write)
