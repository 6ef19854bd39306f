"""The grammar of rule expressions: what binds tighter, what is a token, which regular expressions there are."""

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
        "10 - 4 - 3 == 3",
        "16 / 4 / 2 == 2",
        "100 % 7 * 3 == 6",
        "7 - 2 + 1 == 6",
        "1 < 2 == true",
        "2 + 3 + 'a' == '5a'",
    ],
)
def test_groups_from_the_left(expression: str) -> None:
    """Operators of one precedence apply from left to right."""
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


@pytest.mark.parametrize(
    "expression",
    [
        " || ".join(["auth.uid == 'a'"] * 2000 + ["true"]),
        " && ".join(["true"] * 2000),
        " + ".join(["1"] * 2000) + " == 2000",
        "(" * 60 + "true" + ")" * 60,
    ],
)
def test_length_is_not_depth(expression: str) -> None:
    """A rule of thousands of operators in a row works, and so does one of sixty parentheses."""
    assert Rules.parse({"rules": {".read": expression}}).request(EMPTY, None, auth=None, now=0).may_read(())


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
                (
                    "(^foo$|bar)",
                    3,
                    "'^' stands for itself only as '\\^'; as an anchor it must come first or last of all",
                ),
                ("a$b", 3, "'$' stands for itself only as '\\$'; as an anchor it must come first or last of all"),
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
