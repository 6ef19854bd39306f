"""The language of rules: its grammar, its tokens, its static types, and the words in which an upload is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rtdb_emulator.rules import Rules, RulesError
from rtdb_emulator.rules.document import Text
from rtdb_emulator.rules.syntax import Expression, Literal, Member, parse_expression
from rtdb_emulator.tree import EMPTY, leaf


def parsed(expression: str) -> Expression:
    return parse_expression(Text.alone(expression))


def refused(expression: str) -> str:
    with pytest.raises(RulesError) as caught:
        parsed(expression)
    return f"{caught.value.column}: {caught.value.message}"


@pytest.mark.parametrize(
    ("written", "grouped"),
    [
        ("!a.b", "!(a.b)"),
        ("!a && b", "(!a) && b"),
        ("!a == b", "(!a) == b"),
        ("!a + b", "(!a) + b"),
        ("-a.b", "-(a.b)"),
        ("-a * b", "(-a) * b"),
        ("-a + b", "(-a) + b"),
        ("- -a", "-(-a)"),
        ("!!a", "!(!a)"),
        ("!-a", "!(-a)"),
        ("a - -b", "a - (-b)"),
        ("a + b * c", "a + (b * c)"),
        ("a * b + c", "(a * b) + c"),
        ("a - b / c % d", "a - (b / c % d)"),
        ("a < b + c", "a < (b + c)"),
        ("a + b >= c", "(a + b) >= c"),
        ("a == b < c", "a == (b < c)"),
        ("a > b != c", "(a > b) != c"),
        ("a && b == c", "a && (b == c)"),
        ("a === b && c", "(a === b) && c"),
        ("a || b && c", "a || (b && c)"),
        ("a && b || c", "(a && b) || c"),
        ("a || b ? c : d", "(a || b) ? c : d"),
        ("a ? b || c : d || e", "a ? (b || c) : (d || e)"),
        ("a ? b : c ? d : e", "a ? b : (c ? d : e)"),
        ("a ? b ? c : d : e", "a ? (b ? c : d) : e"),
        ("a[b + c].d(e)", "((a[(b + c)]).d)(e)"),
        ("((a))", "a"),
        (" a\n.b\t( 'c' ) ", "a.b('c')"),
        ("a['b']", "a.b"),
        ("a[('b')]()", "a.b()"),
    ],
)
def test_groups_as_javascript_does(written: str, grouped: str) -> None:
    """An expression without parentheses is the same as the one with JavaScript's."""
    assert parsed(written) == parsed(grouped)


@pytest.mark.parametrize(
    ("written", "other"),
    [
        ("a + b * c", "(a + b) * c"),
        ("a || b && c", "(a || b) && c"),
        ("!a == b", "!(a == b)"),
        ("-a + b", "-(a + b)"),
        ("a ? b : c ? d : e", "(a ? b : c) ? d : e"),
        ("a == b < c", "(a == b) < c"),
        ("a < b + c", "(a < b) + c"),
        ("a && b == c", "(a && b) == c"),
        ("a - b - c", "a - (b - c)"),
        ("a < b < c", "a < (b < c)"),
    ],
)
def test_parentheses_make_a_difference(written: str, other: str) -> None:
    """Parentheses against the precedence give another expression."""
    assert parsed(written) != parsed(other)


@pytest.mark.parametrize(
    "expression",
    [
        *("10 - 4 - 3 == 3", "16 / 4 / 2 == 2", "100 % 7 * 3 == 6", "7 - 2 + 1 == 6", "1 < 2 == true"),
        "2 + 3 + 'a' == '5a'",
        # Thousands of operators in a row are not nested, and sixty parentheses are not too many.
        " || ".join(["auth.uid == 'a'"] * 2000 + ["true"]),
        " && ".join(["true"] * 2000),
        " + ".join(["1"] * 2000) + " == 2000",
        "(" * 60 + "true" + ")" * 60,
    ],
)
def test_groups_from_the_left(expression: str) -> None:
    """Operators of one precedence apply from left to right, however many there are."""
    assert Rules.parse({"rules": {".read": expression}}).request(EMPTY, None, auth=None, now=0).may_read(())


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("0", 0),
        ("1.50", 1.5),
        ("2e3", 2000),
        ("1E-2", 0.01),
        ("123456789012345678", 123456789012345680),
        ("'a\"b'", 'a"b'),
        ('"a\'b"', "a'b"),
        (r"'\'\"\\\n\t\r\b\f\v\0\q'", "'\"\\\n\t\r\b\f\v\0q"),
        (r"'\x41\u00e9\ud83d\ude00'", "Aé😀"),
        ("true", True),
        ("false", False),
        ("null", None),
    ],
)
def test_reads_literals(written: str, value: object) -> None:
    """Numbers, strings with JavaScript's escapes, and the three constants are literals."""
    found = parsed(written)
    assert isinstance(found, Literal)
    assert (found.value, type(found.value) is bool) == (value, type(value) is bool)


def test_constants_are_names_after_a_dot() -> None:
    """After a dot `null` and `true` are names like any other."""
    found = parsed("auth.null")
    assert isinstance(found, Member)
    assert found.name == "null"


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        ("", "1: Unexpected end of the expression."),
        ("a &&", "5: Unexpected end of the expression."),
        ("(a", "3: Expected ')'."),
        ("a[b", "4: Expected ']'."),
        ("a ? b", "6: Expected ':'."),
        ("a(b c)", "5: Expected ')'."),
        ("a b", "3: Unexpected 'b'."),
        ("a.1", "3: Unexpected '1'."),
        (".5", "1: Unexpected '.'."),
        ("a; b", "2: Unexpected ';'."),
        ("a ** b", "4: Unexpected '*'."),
        ("a & b", "3: Unexpected '&'."),
        ("a | b", "3: Unexpected '|'."),
        ("~a", "1: Unexpected '~'."),
        ("a, b", "2: Unexpected ','."),
        ("a in b", "3: Unexpected 'in'."),
        ("typeof a", "8: Unexpected 'a'."),
        ("{a: b}", "1: Unexpected '{'."),
        ("a >> b", "4: Unexpected '>'."),
        ("+a", "1: Unexpected '+'."),
        ("'a", "1: Unterminated string literal."),
        ("'a\nb'", "1: Unterminated string literal."),
        ("'a\\", "1: Unterminated string literal."),
        (r"'\u12'", r"2: Invalid escape: '\u'"),
        ("root = 5", "6: Rule expressions may not contain assignments."),
        ("a += 5", "4: Rule expressions may not contain assignments."),
        ("(a = b)", "4: Rule expressions may not contain assignments."),
    ],
)
def test_refuses_what_is_no_expression(expression: str, error: str) -> None:
    """A text that is no expression is refused at the character where it stops being one."""
    assert refused(expression) == error


@pytest.mark.parametrize(
    "make",
    [
        lambda many: "(" * many + "true" + ")" * many,
        lambda many: "!" * many + "true",
        lambda many: "- " * many + "1 == 1",
        lambda many: "a[" * many + "b" + "]" * many,
        lambda many: "a(" * many + ")" * many,
        lambda many: "[" * many,
        lambda many: "data" + ".parent()" * many + ".exists()",
        lambda many: "true ? true : " * many + "true",
        lambda many: "true ? " * many + "true" + " : true" * many,
        lambda many: "(1 * 1 + " * many + "1" + ")" * many,
        lambda many: "(" * many + "1" + " * 1 + 1)" * many,
    ],
)
@pytest.mark.parametrize("many", [70, 5000])
def test_refuses_endless_nesting(make: Callable[[int], str], many: int) -> None:
    """An expression nested past the limit is refused, without exhausting the stack."""
    with pytest.raises(RulesError, match="The expression is nested too deeply: no more than 64 levels are supported"):
        parsed(make(many))


def matches(regex: str, text: str) -> bool:
    rules = Rules.parse({"rules": {".read": f"data.val().matches({regex})"}})
    return rules.request(leaf(text), None, auth=None, now=0).may_read(())


@pytest.mark.parametrize(
    ("regex", "yes", "no"),
    [
        ("/b/", ["abc", "b"], ["", "ac", "B"]),
        ("/b/i", ["aBc"], ["ac"]),
        ("/^b/", ["bc"], ["ab", "a\nb"]),
        ("/b$/", ["ab"], ["ba", "b\n"]),
        ("/^$/", [""], ["a", "\n"]),
        ("/^/", ["", "a"], []),
        ("/^a|b$/", ["ax", "xb"], ["xax"]),
        ("/^(a|b)$/", ["a", "b"], ["ab", ""]),
        ("/^a.c$/", ["abc", "a😀c"], ["ac", "a\nc", "a\u2028c"]),
        (r"/^\d+$/", ["09"], ["a", "٣"]),
        (r"/^\D+$/", ["aé٣"], ["0", "a0"]),
        (r"/^\w+$/", ["aZ_9"], ["é", "-"]),
        (r"/^\W+$/", ["é- ^`"], ["a", "_"]),
        (r"/^\s+$/", [" \t\n"], ["a"]),
        (r"/^\S+$/", ["aé!"], [" ", "\t"]),
        (r"/^[\d.]+$/", ["1.5"], ["a"]),
        (r"/^[^\d]$/", ["a"], ["1"]),
        (r"/^[\w.-]+$/", ["a.b-c"], ["a b"]),
        (r"/^[\W\S\D]$/", ["a"], []),
        ("/^[a-c]+$/", ["abc"], ["d", "-"]),
        ("/^[-a]+$/", ["-a"], ["b"]),
        ("/^[^a]$/", ["b", "\n"], ["a"]),
        ("/^[a^]+$/", ["a^"], ["b"]),
        (r"/^[\]\\\/-]+$/", ["]\\/-"], ["a"]),
        ("/^[[&|~]+$/", ["[&|~"], ["]"]),
        ("/^[/]$/", ["/"], ["a"]),
        ("/^(ab)+$/", ["abab"], ["aba"]),
        ("/^a{2}$/", ["aa"], ["a", "aaa"]),
        ("/^a{2,}$/", ["aa", "aaa"], ["a"]),
        ("/^a{1,2}$/", ["a", "aa"], ["", "aaa"]),
        ("/^a?b*c+$/", ["c", "abbcc"], ["ab"]),
        (r"/^\{}$/", ["{}"], ["{"]),
        ("/^]$/", ["]"], ["a"]),
        (r"/^\.\*\$\^$/", [".*$^"], ["a"]),
        (r"/^\t\n$/", ["\t\n"], ["tn"]),
        ("/^#& ~$/", ["#& ~"], ["#&~"]),
        ("/^(a|(b|c)d)$/", ["a", "bd", "cd"], ["b"]),
        (r"/^[A-Z]{2}\d+$/i", ["ab12"], ["a12"]),
        ("/É/i", ["é"], ["e"]),
    ],
)
def test_matches_as_javascript_does(regex: str, yes: list[str], no: list[str]) -> None:
    """A regular expression of the subset finds what JavaScript finds, anywhere unless anchored."""
    assert [text for text in [*yes, *no] if matches(regex, text)] == yes


ANCHOR = "'$' stands for itself only as '\\$'; as an anchor it must come first or last of all"


@pytest.mark.parametrize(
    ("regex", "error"),
    [
        ("/a/g", "4: regular expressions do not support flags other than i"),
        ("/a/ii", "4: regular expressions do not support flags other than i"),
        ("/a", "1: unterminated regular expression literal"),
        ("/[a/", "1: unterminated regular expression literal"),
        ("/a\n/", "1: unterminated regular expression literal"),
        ("//", "1: unterminated regular expression literal"),
        *(
            (f"/{body}/", f"{column}: Invalid regular expression /{body}/: {problem}.")
            for body, column, problem in [
                ("(^foo$|bar)", 3, ANCHOR.replace("$", "^")),
                ("a$b", 3, ANCHOR),
                ("^(foo|)$", 8, "an alternative is empty"),
                ("a||b", 4, "an alternative is empty"),
                ("()", 3, "an alternative is empty"),
                ("(?=a)", 3, "'(?' is not supported"),
                ("(?:a)", 3, "'(?' is not supported"),
                ("(a", 4, "a group is not closed"),
                ("a)", 3, "unexpected ')'"),
                ("*a", 2, "'*' has nothing to repeat"),
                ("a{", 3, "'{' has nothing to repeat"),
                ("{2}", 2, "'{' has nothing to repeat"),
                ("a*?", 4, "'?' after a quantifier is not supported"),
                ("a{2}{3}", 6, "'{' after a quantifier is not supported"),
                ("a{3,2}", 3, "the quantifier '{3,2}' is out of order"),
                ("a{1001}", 3, "no more than 1000 repetitions are supported"),
                ("a{1,99999999999999}", 3, "no more than 1000 repetitions are supported"),
                ("(a)\\1", 6, "'\\1' is not supported"),
                ("\\bfoo", 3, "'\\b' is not supported"),
                ("[]", 3, "a class is empty"),
                ("[^]", 4, "a class is empty"),
                ("[z-a]", 5, "the range 'z-a' is out of order"),
                ("[a-\\d]", 6, "a range ends in a shorthand"),
                ("(" * 21 + "a" + ")" * 21, 23, "no more than 20 groups may be inside each other"),
            ]
        ),
    ],
)
def test_refuses_a_regular_expression(regex: str, error: str) -> None:
    """A regular expression outside the subset is refused, with what is wrong and where."""
    assert refused(regex) == error


def test_regular_expressions_are_limited_in_depth_not_in_length() -> None:
    """Groups side by side are not groups inside each other, and no number of digits is too long to be refused."""
    assert matches(f"/^{'(a)' * 50}$/", "a" * 50)
    assert refused(f"/a{{{'9' * 5000}}}/").endswith("no more than 1000 repetitions are supported.")


def test_divides_after_an_operand() -> None:
    """After an operand a slash divides; where an operand is due it opens a regular expression."""
    assert parsed("a / b / c") != parsed("a.matches(/ b /)")
    assert refused("a / /b/ c") == "9: Unexpected 'c'."
    assert parsed("a[0] / (b) / 2") == parsed("(a[0]) / b / 2")


SNAPSHOT = "data.child('a')"
VALUE = "data.val()"
MIXED = "(true ? 1 : 'a')"
FIELD = "query.startAt"
LOOSE = (VALUE, "auth", "auth.a.b", MIXED, FIELD, "data.getPriority()", "(now + data.val())", "auth[$k]")
STRINGS = (
    *("'a'", "$k", "'a'.replace('b', 'c')", "$k.toLowerCase()", "(1 + 'a')", "(data.val() + 'a')", "(true ? 'a' : $k)"),
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
