"""Rules at work: what an expression is worth, and which rules decide a read or a write, at what place each."""

import json
import math
from pathlib import Path as FilePath

import pytest

from rtdb_emulator.jsondata import parse
from rtdb_emulator.rules import QueryFacts, Rules, Write
from rtdb_emulator.rules.evaluate import number_text
from rtdb_emulator.tree import EMPTY, Node

NOW = 1_700_000_000_000
DATA = {
    "text": "b", "long": "a_b_c", "number": 5, "real": 2.5, "yes": True, "no": False, "empty": "", "astral": "é😀",
    "big": 2**53 + 1, "tree": {"a": {"b": 1}, "c": "x", "null": 1}, "ranked": {".value": "v", ".priority": 7},
    "object": {".priority": "p", "x": 1},
}  # fmt: skip
AUTH = {
    "uid": "u1",
    "age": 30,
    "admin": True,
    "none": None,
    "length": 4,
    "token": {"email": "bob@example.com", "roles": ["r0", "r1"], "deep": {"er": 1}, "huge": 10**400, "nan": math.nan},
    "null": "x",
}


def outcome(expression: str, *, root: Node | None = None, auth: object = AUTH) -> str:
    """`true` or `false`, or `fails` for a rule that is false whichever way it is asked."""
    tree = parse(DATA, now=NOW) if root is None else root
    held, denied = (
        Rules.parse({"rules": {"$k": {".read": rule}}}).request(tree, None, auth=auth, now=NOW).may_read(("tree",))
        for rule in (expression, f"!({expression})")
    )
    return {(True, False): "true", (False, True): "false", (False, False): "fails"}[held, denied]


def at(key: str) -> str:
    return f"root.child('{key}').val()"


@pytest.mark.parametrize(
    ("expected", "expressions"),
    [
        # 1. Left to right, no more than needed; a failure takes the whole rule with it.
        ("false", ["false && auth.none + 1 == 1"]),
        ("true", ["true || auth.none + 1 == 1", "true || false || auth.none > 1", "(false ? auth.none + 1 : 1) == 1"]),
        ("fails", ["auth.none + 1 == 1 || true", "auth.none + 1 == 1 && false", "false || auth.none > 1 || true"]),
        ("fails", ["true && auth.none > 1", "auth.none > 1 ? true : true", "!(auth.none > 1) || true"]),
        # 2. A property of what has none is null.
        ("true", ["auth.missing == null", "auth.missing.more.still == null", "auth.none == null"]),
        ("true", ["auth.uid.foo == null", "auth.age.foo == null", "auth['uid'] == 'u1'", "auth['u' + 'id'] == 'u1'"]),
        ("true", ["auth[$k] == null", "auth.token.roles[1] == 'r1'", "auth.token.roles['0'] == 'r0'"]),
        ("true", ["auth.token.roles[2] == null", "auth.token.roles[99999] == null", "auth.token.roles.x == null"]),
        ("true", [f"auth['token'].roles['{'9' * 5000}'] == null", "auth.token.roles[-1] == null", "auth.null == 'x'"]),
        ("true", ["auth.length == 4", "auth.token.deep.er == 1", "auth.uid.length == 2"]),
        ("fails", ["auth[null] == null", "auth[true] == null", "auth[data] == null", "auth.missing.length == null"]),
        ("fails", ["auth.token.roles.length == 2", "auth.age.length == 2"]),
        # 3. Equality never converts.
        ("true", [f"{at('number')} == 5", "5 == 5.0", "null == null", "'a' === 'a'", "true == true", "5 !== '5'"]),
        ("true", ["auth != null", "auth.token.roles != 'r0'", "5 != '5'", f"{at('big')} != 9007199254740992"]),
        ("false", ["5 == '5'", "1 == true", "true == 1", "false == 0", "0 == false", "'' == false", "null == false"]),
        ("false", ["'' == null", "0 == null", "5 != 5", "5 !== 5.0", "'null' == null", "true == 'true'"]),
        ("false", ["auth == null", "auth == auth"]),
        # 4. Two numbers or two strings have an order.
        ("true", ["1 < 2", "2 >= 2.0", "'a' < 'b'", "'B' < 'a'", "'' <= 'a'", "2 > 1.5", "'10' < '9'"]),
        ("false", ["2 < 1", "'b' <= 'a'", "1 >= 2", "1 > 1"]),
        ("fails", ["1 < 'a'", "'a' > 1", "auth.none < 1", "auth.admin > 0", f"{at('tree')} > 1", "1 <= auth"]),
        ("fails", ["auth > auth"]),
        # 5. Arithmetic.
        ("true", ["1 + 2 == 3", "'a' + 'b' == 'ab'", "'a' + 1 == 'a1'", "1.5 + 'a' == '1.5a'", "1 + 2 + 'a' == '3a'"]),
        ("true", ["7 - 2 == 5", "7 * 2 == 14", "7 / 2 == 3.5", "7 % 3 == 1", "-7 % 3 == -1", "7 % -3 == 1"]),
        ("true", ["-5.5 % 2 == -1.5", "- -3 == 3", "4 / 2 + '' == '2'", "(1/0) + '' == 'NaN'"]),
        ("true", ["(5 % 0) + '' == 'NaN'", "2.0 + '' == '2'"]),
        ("false", ["1/0 == 1/0", "1/0 > 2", "1/0 < 2", "1/0 >= 1/0", "0/0 == 0", "auth.token.nan == auth.token.nan"]),
        ("fails", ["auth.none + 1 == 1", "auth.none + 'a' == 'a'", "auth.admin + 1 == 2", "auth.admin + 'a' == 'a'"]),
        ("fails", ["auth + 'a' == 'a'", f"{at('tree')} + 'a' == 'a'", "auth.uid - 1 == 0", "-auth.uid == 1"]),
        ("fails", ["-auth.none == 0", "auth.none * 1 == 0", "auth.admin / 1 == 1", "1 % auth.none == 0"]),
        ("fails", ["-auth.admin == 1"]),
        # 6. Methods of strings.
        ("true", [f"{at('long')}.replace('_', '-') == 'a-b-c'", "'a.b'.replace('.', '+') == 'a+b'"]),
        ("true", ["'aa'.contains('a')", "'abc'.beginsWith('ab')", "'abc'.endsWith('bc')"]),
        ("true", ["'aB'.toUpperCase() == 'AB'", "'aB'.toLowerCase() == 'ab'", f"{at('astral')}.length == 3"]),
        ("true", ["'abc'.length == 3", "''.length == 0", "auth.uid.matches(/^u/)", "$k.length == 4"]),
        ("false", ["'abc'.beginsWith('b')", "'abc'.endsWith('b')", "'abc'.contains('d')", "'abc'.matches(/d/)"]),
        ("fails", [f"{at('number')}.length == 1", f"{at('missing')}.length == 0", f"{at('tree')}.length == 3"]),
        ("fails", [f"{at('number')}.contains('5')", "auth.age.beginsWith('3')", "auth.none.matches(/a/)"]),
        ("fails", ["auth.toLowerCase() == 'a'", "'a1'.contains(auth.age)", "'a'.endsWith(auth.none)"]),
        ("fails", ["'a'.replace(auth.age, 'b') == 'a'", "'a'.replace('a', auth) == 'a'"]),
        # 7. The way through the tree.
        ("true", ["root.child('tree/a/b').val() == 1", "root.child('/tree//a/').hasChild('b')"]),
        ("true", ["root.child('').hasChild('tree')", "data.child('a').parent().child('c').val() == 'x'"]),
        ("true", ["data.parent().child('text').val() == 'b'", "root.child('a/b').parent().parent().hasChild('tree')"]),
        ("true", ["root.hasChild('tree/a/b')", "data.hasChild('null')"]),
        ("false", ["root.child('tree/../tree').exists()", "root.child('tree/.').exists()"]),
        ("false", ["root.child('text/a').exists()", "root.child('banned/bob@example.com').exists()"]),
        ("false", ["root.hasChild('a.b')", "root.hasChildren(['$a', '[x]'])"]),
        ("false", ["root.child('ranked/.priority').exists()", "data.child(auth.uid).exists()"]),
        ("fails", ["root.parent().exists()", "data.parent().parent().exists()", "data.child(auth.none).exists()"]),
        ("fails", ["data.hasChild(auth.none)", "data.child(auth.age).exists()", "data.child(auth.token).exists()"]),
        # 8. Children.
        ("true", ["data.hasChildren()", "data.hasChildren([])", "root.child('text').hasChildren([])"]),
        ("true", ["root.child('x').hasChildren([])", "data.hasChildren(['a', 'c'])", "data.hasChildren(['a/b'])"]),
        ("true", ["root.hasChildren([$k])"]),
        ("false", ["root.child('text').hasChildren()", "root.child('x').hasChildren()"]),
        ("false", ["data.hasChildren(['a', 'x'])", "data.hasChildren(auth.token.roles)"]),
        ("fails", ["data.hasChildren([auth.none])", "data.hasChildren(['x', auth.age])", "data.hasChildren(auth.uid)"]),
        ("fails", ["data.hasChildren(auth)"]),
        # 9. Values.
        ("true", [f"{at('tree')} != null", f"{at('missing')} == null", f"{at('ranked')} == 'v'", "data.exists()"]),
        ("true", ["root.child('text').isString()", "root.child('number').isNumber()", "root.child('no').isBoolean()"]),
        ("true", ["root.child('real').isNumber()", "root.child('ranked').getPriority() == 7"]),
        ("true", ["root.child('object').getPriority() == 'p'", "data.getPriority() == null"]),
        ("false", [f"{at('tree')} == {at('tree')}", f"{at('tree')} == 'x'", "root.child('x').exists()"]),
        ("false", ["root.child('x').isString()", "root.child('x').isNumber()", "root.child('x').isBoolean()"]),
        ("false", ["data.isString()", "root.child('number').isString()", "root.child('yes').isNumber()"]),
        ("false", ["root.child('number').isBoolean()"]),
        # 10. The time.
        ("true", [f"now == {NOW}", "now == now", "now > 0"]),
        # Types that differ by branch are told apart by the request.
        ("true", ["(true ? 1 : 'a') == 1", "(true ? data : root).exists()", "(true ? query : 1) != 1"]),
        ("true", ["(true ? /a/ : 1) != 1"]),
        ("fails", ["(true ? data : 1).length == 1", "(true ? query : 1).length == 1"]),
        ("fails", ["(true ? data.val : 1).contains('a')"]),
    ],
)
def test_evaluates(expected: str, expressions: list[str]) -> None:
    """Each of the expressions is true, is false, or fails: then it counts as false and so does its negation."""
    assert {expression: outcome(expression) for expression in expressions} == dict.fromkeys(expressions, expected)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("auth == null", "true"),
        ("auth.uid == null", "true"),
        ("auth.token.email == null", "true"),
        ("auth.uid != 'evil'", "true"),
        ("auth.uid.contains('a')", "fails"),
        ("auth.uid.length > 0", "fails"),
        ("data.child(auth.uid).exists()", "fails"),
        ("root.child('users/' + auth.uid).exists()", "fails"),
    ],
)
def test_signed_out_is_null(expression: str, expected: str) -> None:
    """Signed out, `auth` and all its properties are null."""
    assert outcome(expression, auth=None) == expected


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (5, "5"),
        (5.0, "5"),
        (-0.0, "0"),
        (0.1, "0.1"),
        (1e-6, "0.000001"),
        (1.5e-7, "1.5e-7"),
        (123456.789, "123456.789"),
        (1e16, "10000000000000000"),
        (1e21, "1e+21"),
        (-2.5e300, "-2.5e+300"),
        (2**63 - 1, "9223372036854775807"),
        (10**400, "Infinity"),
        (-math.inf, "-Infinity"),
        (math.nan, "NaN"),
    ],
)
def test_writes_numbers_as_javascript_does(number: float, text: str) -> None:
    """A number in a text is written as JavaScript writes it, integers of 64 bits in full."""
    assert number_text(number) == text


@pytest.mark.parametrize(
    "expression",
    [
        "root.child('big').val() + 1 == 9007199254740994",
        "9007199254740992 + 1 == root.child('big').val()",
        "auth.token.huge > 1",
        "auth.token.huge * auth.token.huge + '' == 'Infinity'",
        "auth.token.huge / auth.token.huge + '' == 'NaN'",
        "auth.token.huge % 2 + '' == 'NaN'",
        "9223372036854775807 * 9223372036854775807 > 0",
        "1e308 * 10 + '' == 'Infinity'",
        "5 % auth.token.nan + '' == 'NaN'",
    ],
)
def test_numbers_have_no_edge_to_fall_off(expression: str) -> None:
    """Integers stay exact up to 64 bits and become doubles from there; nothing overflows."""
    if "9007199254740992" in expression:
        # A literal of 16 digits is a double already, whose sum is rounded.
        assert outcome(expression) == "false"
    else:
        assert outcome(expression) == "true"


def test_text_cannot_grow_without_bounds() -> None:
    """A rule that would make a text longer than the database's longest string fails."""
    long = parse({"text": "x" * 6_000_000}, now=NOW)
    for growth in ("{0} + {0}", "{0}.replace('x', 'xx')", "{0}.replace('', {0})"):
        assert outcome(f"({growth.format(at('text'))}).length > 0", root=long) == "fails"
    assert outcome(f"({at('text')} + 'y').length == 6000001", root=long) == "true"


def asks(expression: str, query: QueryFacts | None) -> bool:
    return Rules.parse({"rules": {".read": expression}}).request(EMPTY, None, auth=None, now=NOW).may_read((), query)


@pytest.mark.parametrize(
    ("query", "expressions"),
    [
        (None, ["query.orderByKey == false && query.orderByValue == false && query.orderByPriority == false"]),
        (None, [f"query.{name} == null" for name in ("orderByChild", "startAt", "endAt", "equalTo")]),
        (
            None,
            ["query.limitToFirst == null", "query.limitToLast == null", "!(query.orderByKey || query.orderByValue)"],
        ),
        (QueryFacts(order_by_key=True), ["query.orderByKey", "!query.orderByValue"]),
        (QueryFacts(order_by_value=True), ["query.orderByValue", "!query.orderByPriority"]),
        (QueryFacts(order_by_priority=True), ["query.orderByPriority", "!query.orderByKey"]),
        (QueryFacts(order_by_child="a/b"), ["query.orderByChild == 'a/b'", "query.orderByChild != 'a'"]),
        (QueryFacts(start_at="a", end_at=3), ["query.startAt == 'a'", "query.endAt == 3", "query.equalTo == null"]),
        (QueryFacts(equal_to=True), ["query.equalTo == true", "query.startAt == true", "query.endAt == true"]),
        (QueryFacts(start_at=1, end_at=1), ["query.equalTo == 1", "query.startAt == 1"]),
        (QueryFacts(start_at=1, end_at=True), ["query.equalTo == null"]),
        (QueryFacts(limit_to_first=2), ["query.limitToFirst <= 2", "query.limitToLast == null"]),
        (QueryFacts(limit_to_last=3), ["query.limitToLast == 3", "query.limitToFirst == null"]),
    ],
)
def test_rules_see_the_query(query: QueryFacts | None, expressions: list[str]) -> None:
    """`query` shows what the read asks for, and false or null for what it doesn't."""
    assert [expression for expression in expressions if not asks(expression, query)] == []


def test_a_missing_limit_has_no_order() -> None:
    """A limit that a plain read doesn't have fails a comparison of sizes."""
    assert not asks("query.limitToFirst <= 10 || true", None)


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
