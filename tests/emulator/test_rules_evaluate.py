"""The evaluation of rule expressions: what is true, what is false, and what fails."""

import math

import pytest

from rtdb_emulator.jsondata import parse
from rtdb_emulator.rules import QueryFacts, Rules
from rtdb_emulator.rules.evaluate import number_text
from rtdb_emulator.tree import EMPTY, Node

NOW = 1_700_000_000_000
DATA = {
    "text": "b",
    "long": "a_b_c",
    "number": 5,
    "real": 2.5,
    "yes": True,
    "no": False,
    "empty": "",
    "astral": "é😀",
    "big": 2**53 + 1,
    "tree": {"a": {"b": 1}, "c": "x", "null": 1},
    "ranked": {".value": "v", ".priority": 7},
    "object": {".priority": "p", "x": 1},
}
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
        (
            "true",
            ["auth.missing == null", "auth.missing.more.still == null", "auth.none == null", "auth.uid.foo == null"],
        ),
        ("true", ["auth.age.foo == null", "auth['uid'] == 'u1'", "auth['u' + 'id'] == 'u1'", "auth[$k] == null"]),
        ("true", ["auth.token.roles[1] == 'r1'", "auth.token.roles['0'] == 'r0'", "auth.token.roles[2] == null"]),
        (
            "true",
            [
                "auth.token.roles[99999] == null",
                "auth.token.roles.x == null",
                f"auth['token'].roles['{'9' * 5000}'] == null",
                "auth.token.roles[-1] == null",
            ],
        ),
        ("true", ["auth.null == 'x'", "auth.length == 4", "auth.token.deep.er == 1", "auth.uid.length == 2"]),
        ("fails", ["auth[null] == null", "auth[true] == null", "auth[data] == null", "auth.missing.length == null"]),
        ("fails", ["auth.token.roles.length == 2", "auth.age.length == 2"]),
        # 3. Equality never converts.
        ("true", [f"{at('number')} == 5", "5 == 5.0", "null == null", "'a' === 'a'", "true == true", "5 !== '5'"]),
        (
            "false",
            [
                "5 == '5'",
                "1 == true",
                "true == 1",
                "false == 0",
                "0 == false",
                "'' == false",
                "null == false",
                "'' == null",
                "0 == null",
            ],
        ),
        ("false", ["5 != 5", "5 !== 5.0", "'null' == null", "true == 'true'", "auth == null", "auth == auth"]),
        ("true", ["auth != null", "auth.token.roles != 'r0'", "5 != '5'", f"{at('big')} != 9007199254740992"]),
        # 4. Two numbers or two strings have an order.
        ("true", ["1 < 2", "2 >= 2.0", "'a' < 'b'", "'B' < 'a'", "'' <= 'a'", "2 > 1.5", "'10' < '9'"]),
        ("false", ["2 < 1", "'b' <= 'a'", "1 >= 2", "1 > 1"]),
        (
            "fails",
            ["1 < 'a'", "'a' > 1", "auth.none < 1", "auth.admin > 0", f"{at('tree')} > 1", "1 <= auth", "auth > auth"],
        ),
        # 5. Arithmetic.
        ("true", ["1 + 2 == 3", "'a' + 'b' == 'ab'", "'a' + 1 == 'a1'", "1.5 + 'a' == '1.5a'", "1 + 2 + 'a' == '3a'"]),
        (
            "true",
            [
                "7 - 2 == 5",
                "7 * 2 == 14",
                "7 / 2 == 3.5",
                "7 % 3 == 1",
                "-7 % 3 == -1",
                "7 % -3 == 1",
                "-5.5 % 2 == -1.5",
            ],
        ),
        ("true", ["- -3 == 3", "4 / 2 + '' == '2'", "(1/0) + '' == 'NaN'", "(5 % 0) + '' == 'NaN'", "2.0 + '' == '2'"]),
        ("false", ["1/0 == 1/0", "1/0 > 2", "1/0 < 2", "1/0 >= 1/0", "0/0 == 0", "auth.token.nan == auth.token.nan"]),
        ("fails", ["auth.none + 1 == 1", "auth.none + 'a' == 'a'", "auth.admin + 1 == 2", "auth.admin + 'a' == 'a'"]),
        (
            "fails",
            [
                "auth + 'a' == 'a'",
                f"{at('tree')} + 'a' == 'a'",
                "auth.uid - 1 == 0",
                "-auth.uid == 1",
                "-auth.none == 0",
            ],
        ),
        ("fails", ["auth.none * 1 == 0", "auth.admin / 1 == 1", "1 % auth.none == 0", "-auth.admin == 1"]),
        # 6. Methods of strings.
        (
            "true",
            [f"{at('long')}.replace('_', '-') == 'a-b-c'", "'a.b'.replace('.', '+') == 'a+b'", "'aa'.contains('a')"],
        ),
        (
            "true",
            [
                "'abc'.beginsWith('ab')",
                "'abc'.endsWith('bc')",
                "'aB'.toUpperCase() == 'AB'",
                "'aB'.toLowerCase() == 'ab'",
            ],
        ),
        ("false", ["'abc'.beginsWith('b')", "'abc'.endsWith('b')", "'abc'.contains('d')", "'abc'.matches(/d/)"]),
        (
            "true",
            [
                f"{at('astral')}.length == 3",
                "'abc'.length == 3",
                "''.length == 0",
                "auth.uid.matches(/^u/)",
                "$k.length == 4",
            ],
        ),
        ("fails", [f"{at('number')}.length == 1", f"{at('missing')}.length == 0", f"{at('tree')}.length == 3"]),
        (
            "fails",
            [
                f"{at('number')}.contains('5')",
                "auth.age.beginsWith('3')",
                "auth.none.matches(/a/)",
                "auth.toLowerCase() == 'a'",
            ],
        ),
        (
            "fails",
            [
                "'a1'.contains(auth.age)",
                "'a'.endsWith(auth.none)",
                "'a'.replace(auth.age, 'b') == 'a'",
                "'a'.replace('a', auth) == 'a'",
            ],
        ),
        # 7. The way through the tree.
        (
            "true",
            [
                "root.child('tree/a/b').val() == 1",
                "root.child('/tree//a/').hasChild('b')",
                "root.child('').hasChild('tree')",
            ],
        ),
        ("true", ["data.child('a').parent().child('c').val() == 'x'", "data.parent().child('text').val() == 'b'"]),
        (
            "true",
            [
                "root.child('a/b').parent().parent().hasChild('tree')",
                "root.hasChild('tree/a/b')",
                "data.hasChild('null')",
            ],
        ),
        (
            "false",
            ["root.child('tree/../tree').exists()", "root.child('tree/.').exists()", "root.child('text/a').exists()"],
        ),
        (
            "false",
            [
                "root.child('banned/bob@example.com').exists()",
                "root.hasChild('a.b')",
                "root.hasChildren(['$a', '[x]'])",
            ],
        ),
        ("false", ["root.child('ranked/.priority').exists()", "data.child(auth.uid).exists()"]),
        ("fails", ["root.parent().exists()", "data.parent().parent().exists()", "data.child(auth.none).exists()"]),
        ("fails", ["data.hasChild(auth.none)", "data.child(auth.age).exists()", "data.child(auth.token).exists()"]),
        # 8. Children.
        (
            "true",
            [
                "data.hasChildren()",
                "data.hasChildren([])",
                "root.child('text').hasChildren([])",
                "root.child('x').hasChildren([])",
            ],
        ),
        ("true", ["data.hasChildren(['a', 'c'])", "data.hasChildren(['a/b'])", "root.hasChildren([$k])"]),
        (
            "false",
            ["root.child('text').hasChildren()", "root.child('x').hasChildren()", "data.hasChildren(['a', 'x'])"],
        ),
        ("false", ["data.hasChildren(auth.token.roles)"]),
        (
            "fails",
            [
                "data.hasChildren([auth.none])",
                "data.hasChildren(['x', auth.age])",
                "data.hasChildren(auth.uid)",
                "data.hasChildren(auth)",
            ],
        ),
        # 9. Values.
        ("true", [f"{at('tree')} != null", f"{at('missing')} == null", f"{at('ranked')} == 'v'", "data.exists()"]),
        ("false", [f"{at('tree')} == {at('tree')}", f"{at('tree')} == 'x'", "root.child('x').exists()"]),
        (
            "true",
            [
                "root.child('text').isString()",
                "root.child('number').isNumber()",
                "root.child('no').isBoolean()",
                "root.child('real').isNumber()",
            ],
        ),
        (
            "false",
            [
                "root.child('x').isString()",
                "root.child('x').isNumber()",
                "root.child('x').isBoolean()",
                "data.isString()",
            ],
        ),
        (
            "false",
            ["root.child('number').isString()", "root.child('yes').isNumber()", "root.child('number').isBoolean()"],
        ),
        (
            "true",
            [
                "root.child('ranked').getPriority() == 7",
                "root.child('object').getPriority() == 'p'",
                "data.getPriority() == null",
            ],
        ),
        # 10. The time.
        ("true", [f"now == {NOW}", "now == now", "now > 0"]),
        # Types that differ by branch are told apart by the request.
        (
            "true",
            [
                "(true ? 1 : 'a') == 1",
                "(true ? data : root).exists()",
                "(true ? query : 1) != 1",
                "(true ? /a/ : 1) != 1",
            ],
        ),
        (
            "fails",
            ["(true ? data : 1).length == 1", "(true ? query : 1).length == 1", "(true ? data.val : 1).contains('a')"],
        ),
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
