"""Whatever rules, data and `auth` are: a request is answered, and nothing is raised."""

import inspect

from hypothesis import given
from hypothesis import strategies as st

from rtdb_emulator.jsondata import parse
from rtdb_emulator.rules import QueryFacts, Rules, RulesError, Write
from rtdb_emulator.tree import EMPTY

NOW = 1_700_000_000_000


def test_works_near_the_end_of_the_stack() -> None:
    """The deepest rules there may be are parsed and evaluated by a caller who is far down the stack himself."""
    levels = 60
    regex = "(" * 20 + "a" + ")" * 20
    rule = "(" * 54 + f"data.child('x' + 'y').parent().val().matches(/{regex}/)" + " && true)" * 54

    def deeper(calls: int) -> bool:
        if calls:
            return deeper(calls - 1)
        deepest: dict[str, object] = {".read": rule}
        for _ in range(levels):
            deepest = {"a": deepest}
        tree = EMPTY.put(("a",) * levels, parse("a", now=NOW))
        return Rules.parse({"rules": deepest}).request(tree, None, auth=None, now=NOW).may_read(("a",) * levels)

    assert deeper(max(0, 200 - len(inspect.stack(0))))


KEYS = st.sampled_from(["a", "b", "uid", "0", "1", "token", "length", "é", "x.y"])
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=4)
    | st.sampled_from([2**63, 10**400, "", "a", "\ud800"])
)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=6
)
STORED = st.recursive(
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text("ab1é😀", max_size=4),
    lambda inner: st.dictionaries(st.sampled_from(["a", "b", "1", "é"]), inner, min_size=1, max_size=3),
    max_leaves=8,
)


def typed() -> st.SearchStrategy[str]:
    """Boolean expressions that are mostly well-typed, each operator and method among them."""
    snapshots = st.sampled_from(
        ["data", "root", "newData", "data.parent()", "root.child('a/b')", "newData.child(auth.uid)", "data.child($k)"]
    )
    leaves = st.sampled_from(
        [
            *("auth", "auth.uid", "auth.token.a", "auth[$k]", "auth[1]", "auth.length", "auth.a.length", "now"),
            *("1", "0", "1.5", "9223372036854775807", "1e308", "'a'", "''", "null", "true", "$k"),
            *("query.startAt", "query.limitToFirst"),
        ]
    )
    leaves |= st.builds(
        "{}.{}".format, snapshots, st.sampled_from(["val()", "getPriority()", "val().length", "val().toUpperCase()"])
    )
    sums = st.deferred(
        lambda: (
            leaves
            | st.builds("({} {} {})".format, sums, st.sampled_from("+-*/%"), sums)
            | st.builds("-{}".format, leaves)
            | st.builds("({} ? {} : {})".format, booleans, sums, sums)
            | st.builds("auth.uid.replace({}, {})".format, sums, sums)
        )
    )
    operators = st.sampled_from(["==", "!=", "===", "!==", "<", "<=", ">", ">="])
    booleans: st.SearchStrategy[str] = st.deferred(
        lambda: (
            st.sampled_from(
                ["true", "false", "query.orderByKey", "data.hasChildren([auth.a])", "data.hasChildren(auth)"]
            )
            | st.builds("{} {} {}".format, sums, operators, sums)
            | st.builds("{}.{}({})".format, leaves, st.sampled_from(["contains", "beginsWith", "endsWith"]), sums)
            | st.builds("{}.matches(/^[a-z]+(1|é)?$/i)".format, leaves)
            | st.builds("{}.hasChild({})".format, snapshots, sums)
            | st.builds(
                "{}.{}()".format,
                snapshots,
                st.sampled_from(["exists", "isNumber", "isString", "isBoolean", "hasChildren"]),
            )
            | st.builds("!({})".format, booleans)
            | st.builds("({}) {} ({})".format, booleans, st.sampled_from(["&&", "||"]), booleans)
        )
    )
    return booleans


WORDS = st.lists(
    st.sampled_from(
        [
            "auth", ".uid", "data", ".val()", "[", "]", "(", ")", "'a'", "1", "==", "+", "!", "-", "&&", "?", ":",
            "/a/", "$k", ".child(", "null",
        ]
    ),
    max_size=8,
).map("".join)  # fmt: skip


@given(typed() | WORDS, st.none() | STORED, st.none() | STORED, JSON, SCALARS, SCALARS)
def test_never_raises(expression: str, before: object, after: object, auth: object, start: object, end: object) -> None:
    """Whatever the rule, the data and `auth`, a request is allowed or denied and nothing is raised."""
    old, new = (parse(data, now=NOW) for data in (before, after))
    query = QueryFacts(order_by_key=True, start_at=start, end_at=end, limit_to_first=1)  # type: ignore[arg-type]  # any JSON
    for kind in (".read", ".write", ".validate"):
        try:
            rules = Rules.parse({"rules": {"$k": {".write": True, kind: expression}}})
        except RulesError:
            continue
        assert rules.request(old, None, auth=auth, now=NOW).may_read(("a", "b"), query) in (True, False)
        request, write = rules.request(old, new, auth=auth, now=NOW), Write(("a",), new.child("a"))
        assert request.grants_write(write) in (True, False)
        assert request.is_valid(write) in (True, False)
