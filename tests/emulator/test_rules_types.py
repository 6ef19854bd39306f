"""The static types of rule expressions: what an upload accepts, and the words in which it refuses."""

import pytest

from rtdb_emulator.rules import Rules, RulesError

SNAPSHOT = "data.child('a')"
VALUE = "data.val()"
MIXED = "(true ? 1 : 'a')"
FIELD = "query.startAt"
LOOSE = (VALUE, "auth", "auth.a.b", MIXED, FIELD, "data.getPriority()", "(now + data.val())", "auth[$k]")
STRINGS = (
    "'a'",
    "$k",
    "'a'.replace('b', 'c')",
    "$k.toLowerCase()",
    "(1 + 'a')",
    "(data.val() + 'a')",
    "(true ? 'a' : $k)",
)
NUMBERS = ("1", "now", "'a'.length", "data.val().length", "auth.length", "-1", "(1 + 2)", "(data.val() * 2)")
BOOLEANS = (
    "true",
    "(1 == 2)",
    "data.exists()",
    "auth.a.contains('b')",
    "query.orderByKey",
    "!false",
    "(true ? true : false)",
)
STRANGE = (SNAPSHOT, "query", "/a/", "data.val", "(true ? data : root)", "data.parent()")


def upload(expression: str, kind: str = ".write") -> str:
    """The refusal's column within the expression and its text; nothing for an accepted rule."""
    try:
        Rules.parse(f'{{"rules": {{"$k":\n{{"{kind}":\n"{expression}"}}}}}}')
    except RulesError as error:
        assert error.line == 3
        return f"{error.column - 1}: {error.message}"
    return ""


@pytest.mark.parametrize("kind", [".read", ".write", ".validate"])
@pytest.mark.parametrize("expression", [*LOOSE, *STRINGS, *NUMBERS, *STRANGE, "null", "data.exists"])
def test_a_rule_is_boolean(expression: str, kind: str) -> None:
    """A rule whose type isn't boolean for certain is refused, in every kind of rule."""
    assert upload(expression, kind).endswith(": Expression must evaluate to a boolean.")


@pytest.mark.parametrize("expression", BOOLEANS)
def test_a_boolean_is_a_rule(expression: str) -> None:
    """Whatever is boolean for certain is accepted, alone and under the logical operators."""
    for rule in (expression, f"!{expression}", f"{expression} && true || {expression}", f"{expression} ? false : true"):
        assert upload(rule, ".read") == ""


@pytest.mark.parametrize("operand", [*LOOSE, *STRINGS, *NUMBERS, *STRANGE, "null"])
@pytest.mark.parametrize(
    ("rule", "refusal"),
    [
        ("!{}", "! only operates on booleans."),
        ("{} && true", "Left operand of && must be boolean."),
        ("true && {}", "Right operand of && must be boolean."),
        ("{} || true", "Left operand of || must be boolean."),
        ("true || {}", "Right operand of || must be boolean."),
        ("{} ? true : false", "condition of ? must be boolean."),
    ],
)
def test_logic_is_of_booleans(rule: str, refusal: str, operand: str) -> None:
    """The logical operators refuse what isn't boolean for certain."""
    assert upload(rule.format(operand)).partition(": ")[2] == refusal


OPERATORS = {
    **dict.fromkeys(
        ("==", "===", "!=", "!=="),
        ((*LOOSE, *STRINGS, *NUMBERS, *BOOLEANS, "null"), STRANGE, "is not a number, boolean, string, or null"),
    ),
    **dict.fromkeys(
        ("<", "<=", ">", ">="),
        ((*LOOSE, *STRINGS, *NUMBERS), (*STRANGE, *BOOLEANS, "null"), "must be a number or string"),
    ),
    "+": ((*LOOSE, *STRINGS, *NUMBERS), (*STRANGE, *BOOLEANS, "null"), "is not a number or string"),
    **dict.fromkeys(
        ("-", "*", "/", "%"), ((*LOOSE, *NUMBERS), (*STRANGE, *STRINGS, *BOOLEANS, "null"), "is not a number")
    ),
}


@pytest.mark.parametrize("operator", OPERATORS)
def test_operators_take_their_types(operator: str) -> None:
    """Each operator takes the types it works on, value and any among them, and refuses others by name and side."""
    accepted, refused, problem = OPERATORS[operator]
    named = operator[:2]
    for operand in accepted:
        assert upload(f"(1 {operator} {operand}) == 1") == ""
        assert upload(f"({operand} {operator} 1) == 1") == ""
    for operand in refused:
        for side, rule in (("left", f"({operand} {operator} 1) == 1"), ("right", f"(1 {operator} {operand}) == 1")):
            expected = f"Invalid {named} expression: {side} operand {problem}."
            if named == "==" and side == "left":
                expected = expected.replace("or null", "null")
            assert upload(rule).partition(": ")[2] == expected


@pytest.mark.parametrize("operand", [*STRINGS, *BOOLEANS, *STRANGE, "null"])
def test_minus_is_of_numbers(operand: str) -> None:
    """Unary minus refuses what can't be a number."""
    assert upload(f"-({operand}) == 1") == "1: - only operates on numbers."


@pytest.mark.parametrize(
    ("expression", "refusal"),
    [
        ("foo == 1", "1: Unknown variable 'foo'."),
        ("$x == 'a'", "1: Unknown variable '$x'."),
        ("foo()", "1: Unknown variable 'foo'."),
        ("data.foo", "6: No such method/property 'foo'."),
        ("data.numChildren() > 1", "6: No such method/property 'numChildren'."),
        ("data.contains('a')", "6: No such method/property 'contains'."),
        ("data.length == 1", "6: No such method/property 'length'."),
        ("data['foo']()", "6: No such method/property 'foo'."),
        ("'a'.foo == 1", "5: No such method/property 'foo'."),
        ("'a'.exists()", "5: No such method/property 'exists'."),
        ("data.val().foo == 1", "12: No such method/property 'foo'."),
        (f"{MIXED}.foo == 1", "18: No such method/property 'foo'."),
        ("query.foo == 1", "7: No such method/property 'foo'."),
        *(
            (f"{target}.foo == 1", f"{len(target) + 2}: Invalid property access: target is not an object.")
            for target in ("1", "now", "true", "null", "/a/", "data.val", "data.exists()", FIELD, "query.orderByChild")
        ),
        ("auth.length.foo == 1", "13: Invalid property access: target is not an object."),
        ("query.orderByChild.length == 1", "20: Invalid property access: target is not an object."),
        ("query.startAt.contains('a')", "15: Invalid property access: target is not an object."),
        ("data['a' + 'b']()", "6: Invalid property access: target is not an object."),
        ("'a'[$k] == 1", "5: Invalid property access: target is not an object."),
        ("auth[foo] == 1", "6: Unknown variable 'foo'."),
        ("auth.exists()", "12: Type error: Function call on target that is not a function."),
        ("auth.uid.foo()", "13: Type error: Function call on target that is not a function."),
        ("auth.length()", "12: Type error: Function call on target that is not a function."),
        ("'a'.length()", "11: Type error: Function call on target that is not a function."),
        ("query.orderByKey()", "17: Type error: Function call on target that is not a function."),
        ("now()", "4: Type error: Function call on target that is not a function."),
        ("data.exists()()", "14: Type error: Function call on target that is not a function."),
        ("auth[$k]('a')", "9: Type error: Function call on target that is not a function."),
        ("['a'] == 'a'", "1: Unexpected array literal."),
        ("[true]", "1: Unexpected array literal."),
        ("data.child(['a']).exists()", "12: Unexpected array literal."),
        ("data.hasChildren([['a']])", "19: Unexpected array literal."),
        *(
            (f"data.{name}(1) == 1", f"{6 + len(name)}: {name}() expects no arguments.")
            for name in ("val", "exists", "parent")
        ),
        *(
            (f"data.{name}($k)", f"{6 + len(name)}: {name}() expects no arguments.")
            for name in ("isNumber", "isString", "isBoolean")
        ),
        ("data.getPriority(null) == 1", "17: getPriority() expects no arguments."),
        *(
            (f"$k.{name}('a') == 'a'", f"{4 + len(name)}: {name}() expects no arguments.")
            for name in ("toLowerCase", "toUpperCase")
        ),
        *((f"data.{name}() == 1", f"{6 + len(name)}: {name}() expects 1 argument.") for name in ("child", "hasChild")),
        *(
            (f"$k.{name}('a', 'b')", f"{4 + len(name)}: {name}() expects 1 argument.")
            for name in ("contains", "beginsWith", "endsWith")
        ),
        ("$k.replace('a') == ''", "11: replace() expects two arguments."),
        ("auth.a.replace('a', 'b', 'c') == ''", "15: replace() expects two arguments."),
        ("$k.matches()", "11: matches() expects 1 regular expression literal argument."),
        ("$k.matches(/a/, /b/)", "11: matches() expects 1 regular expression literal argument."),
        (
            "data.hasChildren('a', 'b')",
            "17: hasChildren() expects only a single argument (containing an array of child names).",
        ),
        *(
            (f"data.{name}(1) == 1", f"{7 + len(name)}: {name}() expects a string argument.")
            for name in ("child", "hasChild")
        ),
        ("data.child(null).exists()", "12: child() expects a string argument."),
        ("data.child(data).exists()", "12: child() expects a string argument."),
        *(
            (f"auth.a.{name}(7)", f"{9 + len(name)}: {name}() expects a string argument.")
            for name in ("contains", "beginsWith", "endsWith")
        ),
        ("$k.replace(1, 'a') == ''", "12: Argument 1 of replace() must be a string."),
        ("$k.replace('a', true) == ''", "17: Argument 2 of replace() must be a string."),
        *(
            (f"$k.matches({argument})", "12: matches() expects a regular expression literal argument.")
            for argument in ("'a'", VALUE, "auth", "true ? /a/ : /b/", "['a']")
        ),
        ("data.hasChildren('a')", "18: hasChildren() expects an array of child names."),
        ("data.hasChildren(1)", "18: hasChildren() expects an array of child names."),
        ("data.hasChildren(['a', 7])", "24: hasChildren() expects an array of strings."),
        ("data.hasChildren([data])", "19: hasChildren() expects an array of strings."),
        ("$k.matches(/a/g)", "15: regular expressions do not support flags other than i"),
        ("$k.matches(/[a/)", "12: unterminated regular expression literal"),
        ("true > false", "6: Invalid > expression: left operand must be a number or string."),
        ("auth = null", "6: Rule expressions may not contain assignments."),
    ],
)
def test_refuses_in_the_services_words(expression: str, refusal: str) -> None:
    """A wrong member, call, argument or literal is refused at its place, in the service's words."""
    assert upload(expression) == refusal


@pytest.mark.parametrize(
    "expression",
    [
        "auth.uid - 1 > 0",
        "data.child(auth.a).hasChild(data.val())",
        "data.hasChildren(auth.names)",
        "data.hasChildren(data.val())",
        "data.hasChildren()",
        "data.hasChildren([])",
        "data.hasChildren([$k, auth.a, data.val(), 'b'])",
        "data['exists']()",
        "(data.exists)()",
        "'a'['length'] == 1",
        "auth.a['contains']('b')",
        "auth['a'][now][null] == 1",
        "auth.contains == 1",
        "auth.matches(/a/)",
        "$k.replace(auth.a, data.val()).contains(query.orderByChild)",
        "query.limitToFirst <= 10 && query.orderByChild == 'a'",
        "1 < 'a'",
        f"{MIXED}.contains('a')",
        "(true ? data : newData).exists()",
        "root.parent().child($k).val() == now",
        "true == false",
        "null == null",
    ],
)
def test_leaves_to_the_request_what_only_it_can_show(expression: str) -> None:
    """Value and any pass wherever some value would do, and tautologies are fine."""
    assert upload(expression) == ""


@pytest.mark.parametrize(
    ("kind", "refusal"), [(".read", "1: newData is invalid in .read expressions."), (".write", ""), (".validate", "")]
)
def test_new_data_is_for_writes(kind: str, refusal: str) -> None:
    """`newData` is refused in `.read` alone, while `query` is accepted everywhere."""
    assert upload("newData.exists()", kind) == refusal
    assert upload("query.orderByKey", kind) == ""


def test_a_variable_reaches_downwards_only() -> None:
    """`$k` is known at and below its node, and unknown beside and above it."""
    below = '{"rules": {"$k": {".read": "$k == \'a\'", "b": {"$l": {".read": "$k == $l"}}}}}'
    assert Rules.parse(below).source == below
    for source in (
        below.replace("$l == ", "").replace("$k == $l", "$m == $l"),
        '{"rules": {".read": "$k == 1", "$k": {}}}',
    ):
        with pytest.raises(RulesError, match=r"Unknown variable '\$[mk]'\."):
            Rules.parse(source)
