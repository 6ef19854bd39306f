"""The rules document: its dialect, its structure, and where its errors are said to be."""

import json
import pickle
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtdb_emulator.rules import OPEN, Rules, RulesError
from rtdb_emulator.tree import EMPTY

BAD_KEY = 'String can\'t contain ".", "#", "$", "/", "[", or "]"'
BAD_RULE = "Invalid rule expression.  Expected 'true', 'false', or an expression string."
BAD_INDEX = "Invalid indexOn expression. Must be either a string or an array of strings"


def refused(source: str) -> str:
    with pytest.raises(RulesError) as caught:
        Rules.parse(source)
    return str(caught.value)


@pytest.mark.parametrize(
    ("source", "meaning"),
    [
        ('// top\n{"rules": {/* in */".read": true} // end\n} // last', {".read": True}),
        ('{"rules": {".read": true /* a // b */, /**/ }}', {".read": True}),
        ('{"rules": {"a": {".indexOn": ["x", "y",],},},}', {"a": {".indexOn": ["x", "y"]}}),
        ('{"rules": {".read": "true ||\n\tfalse"}}', {".read": "true ||\n\tfalse"}),
        ('{"rules": {".read": "true ||\r\nfalse"}}', {".read": "true ||\r\nfalse"}),
        ('\n\t{\r\n"rules" : { } }', {}),
        ('{"rules": {".read": "\'// /*\' == \'\'"}}', {".read": "'// /*' == ''"}),
        (r'{"rules": {"\u00e9\ud83d\ude00\t\\": {}}}', {"é😀\t\\": {}}),
        (r'{"rules": {".indexOn": "\"\/\b\f\n\r"}}', {".indexOn": '"/\b\f\n\r'}),
    ],
)
def test_reads_the_dialect(source: str, meaning: object) -> None:
    """Comments, trailing commas and raw line breaks in strings are read, and the meaning is plain JSON's."""
    assert Rules.parse(source).as_json() == {"rules": meaning}


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ('{"rules": {".read": "true \\\n"}}', "1:27: Invalid escape: '\\\n'"),
        ('{"rules": {".read": "\\q"}}', "1:22: Invalid escape: '\\q'"),
        ('{"rules": {".read": "\\u12g4"}}', "1:22: Invalid escape: '\\u'"),
        ('{"rules": {".read": true,,}}', "1:26: Expected '\"'."),
        ('{"rules": {".indexOn": ["a",,]}}', "1:29: Expected '\"'."),
        ('{"rules": {,".read": true}}', "1:12: Unexpected ','."),
        ('{"rules": {".indexOn": [,"a"]}}', "1:25: Unexpected ','."),
        ('{"rules": {".read" true}}', "1:20: Expected ':'."),
        ('{"rules": {".read": true ".write": true}}', "1:26: Expected ',' or '}'."),
        ('{"rules": {".indexOn": ["a" "b"]}}', "1:29: Expected ',' or ']'."),
        ('{"rules": {".read": yes}}', "1:21: Unexpected 'y'."),
        (
            '{"rules": {".read": "tr\x00ue"}}',
            "1:24: Unexpected control character U+0000 in a string; write it as an escape.",
        ),
        ('{"rules": {}}\n x', "2:2: Unexpected 'x'."),
        ('{"rules": {', "1:12: Unexpected end of the rules."),
        ('{"rules": {".read": "true', "1:21: Unterminated string."),
        ('{"rules": {} /* }', "1:14: Unterminated comment."),
        ("", "1:1: Expected '{'."),
        ("[]", "1:1: Expected '{'."),
        ('{"rules": {\n  "a": {},\n  "a": {}\n}}', "3:3: Duplicate key 'a'; keep one of the two."),
        ("{}", '1:1: Expected an object whose only member is "rules".'),
        ('\n{"rules": {}, "more": {}}', '2:1: Expected an object whose only member is "rules".'),
        ('{"rules": true}', "1:11: Expected '{'."),
        ('{"rules": {"a": true}}', "1:17: Expected '{'."),
        ('{"rules": {".reed": "true"}}', "1:21: Expected '{'."),
        ('{"rules": {".reed": {}}}', f"1:12: {BAD_KEY}"),
        *((f'{{"rules": {{"a{char}b": {{}}}}}}', f"1:12: {BAD_KEY}") for char in ".#$/[]"),
        ('{"rules": {"$": {}}}', f"1:12: {BAD_KEY}"),
        ('{"rules": {"$a-b": {}}}', None),
        ('{"rules": {"$x": {}, "$y": {}}}', "1:22: Cannot have multiple default rules ('$x' and '$y')."),
        (
            '{"rules": {"$x": {"a": {"$x": {}}}}}',
            "1:25: '$x' is already the name of a key further up; choose another name.",
        ),
        *(
            (f'{{"rules": {{".validate": {value}}}}}', f"1:25: {BAD_RULE}")
            for value in ("5", "{}", "null", "[]", "-1e3")
        ),
        *((f'{{"rules": {{".indexOn": {value}}}}}', f"1:24: {BAD_INDEX}") for value in ("5", "{}", '["a", 1]', "true")),
    ],
)
def test_refuses_a_document(source: str, error: str | None) -> None:
    """What is not a rules document is refused with the place and the service's text, where that is known."""
    assert refused(source) == (error or f"1:12: {BAD_KEY}")


@pytest.mark.parametrize(
    ("source", "place"),
    [
        ('{"rules": {".read": "true && foo"}}', (1, 30)),
        ('{"rules": {\n  ".read": "true &&\n    foo"}}', (3, 5)),
        ('{"rules": {".read": "\'\\t\\u00e9\\\\n\' == foo"}}', (1, 39)),
        ('{"rules": {".read": "\'\\ud83d\\ude00\' == foo"}}', (1, 40)),
        ('{"rules": {".read": "true &&"}}', (1, 29)),
        ('{"rules": {".read": ""}}', (1, 22)),
    ],
)
def test_places_an_error_inside_an_expression(source: str, place: tuple[int, int]) -> None:
    """An error in an expression has the line and column of its own character, past escapes and line breaks."""
    with pytest.raises(RulesError) as caught:
        Rules.parse(source)
    assert (caught.value.line, caught.value.column) == place


def test_an_error_says_where_and_what() -> None:
    """An error is a ValueError whose text is line, column and message, and it survives pickling."""
    assert issubclass(RulesError, ValueError)
    error = RulesError(3, 14, "Expected '{'.")
    for same in (error, pickle.loads(pickle.dumps(error))):
        assert isinstance(same, RulesError)
        assert (same.line, same.column, same.message) == (3, 14, "Expected '{'.")
        assert str(same) == "3:14: Expected '{'."


def test_keeps_the_source_verbatim() -> None:
    """The source is the text as given, comments included, while the JSON is without, and its own each time."""
    source = '{ // note\n "rules": {".read": false,}, }'
    rules = Rules.parse(source)
    rules.as_json().clear()
    assert rules.source == source
    assert rules.as_json() == {"rules": {".read": False}}


def test_reads_a_mapping() -> None:
    """A mapping is written as JSON, which then is the source."""
    mapping = {"rules": {".read": "'é' == 'é'", "a": {".indexOn": ["x"]}}}
    rules = Rules.parse(MappingProxyType(mapping))
    assert rules.as_json() == json.loads(rules.source) == mapping
    assert rules.request(EMPTY, None, auth=None, now=0).may_read(())


def endless() -> dict[str, object]:
    rules: dict[str, object] = {}
    rules["a"] = rules
    return rules


@pytest.mark.parametrize("rules", [{".read": object()}, {("a",): {}}, endless()], ids=["value", "key", "endless"])
def test_refuses_a_mapping_that_is_not_json(rules: object) -> None:
    """A mapping that can't be written as JSON is a RulesError like any other."""
    with pytest.raises(RulesError, match=r"^1:1: The mapping can't be written as JSON"):
        Rules.parse({"rules": rules})


@pytest.mark.parametrize("levels", [63, 64, 5000])
def test_refuses_endless_nesting(levels: int) -> None:
    """Rules nested past the limit are refused, without exhausting the stack; up to it they work."""
    source = '{"rules": ' + '{"a": ' * (levels - 2) + '{".read": true}' + "}" * (levels - 2) + "}"
    if levels <= 64:
        assert Rules.parse(source).request(EMPTY, None, auth=None, now=0).may_read(("a",) * (levels - 2))
    else:
        assert "The rules are nested too deeply: no more than 64 levels are supported." in refused(source)
        assert "nested too deeply" in refused('{"rules": ' + "[" * levels)


def test_breadth_is_not_depth() -> None:
    """Any number of nodes may stand side by side."""
    rules: dict[str, object] = {f"k{number}": {".indexOn": ["x"]} for number in range(200)}
    assert Rules.parse({"rules": rules}).as_json() == {"rules": rules}


def test_open_allows_everything() -> None:
    """The default of a new namespace allows everybody to read."""
    assert OPEN.source == '{"rules": {".read": true, ".write": true}}'
    assert OPEN.request(EMPTY, None, auth=None, now=0).may_read(("a",))


@pytest.mark.parametrize(
    ("path", "indexes"),
    [("", {"root"}), ("a", {"x", "y/z", ".value"}), ("b", {"any"}), ("bc", set()), ("ac", set()), ("bcd", set())],
)
def test_finds_the_indexes_of_a_path(path: str, indexes: set[str]) -> None:
    """The indexes are those at exactly the path, those of the `$` child where no literal one stands."""
    rules = Rules.parse(
        {"rules": {".indexOn": "root", "a": {".indexOn": ["x", "y/z", ".value"]}, "$k": {".indexOn": "any", "c": {}}}}
    )
    assert rules.index_on(tuple(path)) == indexes


EXPRESSIONS = st.sampled_from(["true", "auth != null", "data.exists() // x", "newData.isString()", "1", "$a == 'x'"])
NODES = st.recursive(
    st.dictionaries(st.sampled_from([".read", ".write", ".validate"]), st.booleans() | EXPRESSIONS),
    lambda nodes: st.dictionaries(st.sampled_from(["a", "b", "$a", "é 😀"]), nodes, max_size=3),
    max_leaves=8,
)


@given(NODES)
def test_its_json_means_the_same(rules: dict[str, object]) -> None:
    """Rules and the rules made of their JSON are refused alike, or have the same JSON and the same effect."""
    source = "// noise\n" + json.dumps({"rules": rules}, indent=1).replace("}", ",}").replace("{,}", "{/**/}")
    try:
        parsed = Rules.parse(source.replace("{/**/}", "{}").replace("{\n,}", "{}"))
    except RulesError:
        with pytest.raises(RulesError):
            Rules.parse({"rules": rules})
        return
    again = Rules.parse(parsed.as_json())
    assert again.as_json() == parsed.as_json() == {"rules": rules}
    for path in ((), ("a",), ("b", "a"), ("é 😀",)):
        asked = [each.request(EMPTY, None, auth={"uid": "u"}, now=1).may_read(path) for each in (parsed, again)]
        assert asked[0] == asked[1]


FRAGMENTS = st.sampled_from(
    [
        '{"rules":', "{", "}", '".read":', '"$x":', '"', "'", "true", "auth", "==", "(", ")", "[", "]", ",", "\\", "/",
        "\n", "/*", "*/", "//", "!", "-", "1e9", ".val()", "newData", "matches(/", "?", ":", "&&", "+", "=", "\ud800",
        "\x00",
    ]
)  # fmt: skip


@given(
    st.lists(FRAGMENTS | st.text(max_size=3), max_size=30).map("".join),
    st.sampled_from(["{}", '{"rules":{".write":"%s"}}']),
)
def test_any_text_is_rules_or_an_error(text: str, frame: str) -> None:
    """Whatever the text, parsing gives rules or a RulesError with a place inside the text."""
    source = frame.replace("%s", text) if "%s" in frame else text
    try:
        rules = Rules.parse(source)
    except RulesError as error:
        lines = source.split("\n")
        assert 1 <= error.line <= len(lines)
        assert 1 <= error.column <= len(lines[error.line - 1]) + 1
    else:
        assert rules.source == source
