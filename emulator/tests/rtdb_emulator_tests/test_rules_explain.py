"""What is said of rules: why an operation was denied, with the values, and which rules tests have seen."""

from __future__ import annotations

import json
import logging
import re
from html import unescape
from urllib.parse import quote

import pytest

from rtdb_emulator import Emulator, store
from rtdb_emulator.database import Access, Database
from rtdb_emulator.errors import Denied
from rtdb_emulator.http.sse import CANCEL
from rtdb_emulator.paths import split_path
from rtdb_emulator.pytest_plugin import Rtdb
from rtdb_emulator.rules import Rules
from rtdb_emulator.rules.coverage import Coverage, percent
from rtdb_emulator.rules.explain import Refused, explain
from rtdb_emulator.tree import EMPTY, Path
from rtdb_emulator_tests.helpers.sockets import SocketClient
from rtdb_emulator_tests.helpers.wire import OWNER, call, stream

ALICE = {"uid": "alice"}


def attempt(database: Database, operation: str, path: Path, body: object, access: Access) -> None:
    match operation, body:
        case "read", _:
            database.read(path, access)
        case "update", dict():
            database.update(path, body, access)
        case _:
            database.write(path, body, access)


def why(rules: object, data: object, operation: str, path: str, body: object = None, auth: object = ALICE) -> list[str]:
    """The lines about an operation that is denied by these rules, after the first."""
    database = Database("x", lambda: 1000, Rules.parse({"rules": rules}))
    database.write((), data, Access(admin=True))
    with pytest.raises(Denied) as caught:
        attempt(database, operation, split_path(path), body, Access(admin=False, auth=auth))
    assert caught.value.refused is not None
    first, *lines = explain(caught.value.refused)
    assert first.startswith(f"{'read' if operation == 'read' else 'write'} of {path} denied to ")
    return [line[2:] for line in lines]


def write_of(rule: str, *lines: str) -> list[str]:
    # The text that `Rules.parse` makes of a mapping has the rule on its fourth line.
    return [f".write of /c (4:17) is {lines[0]}: {rule}", *(f"  {line}" for line in lines[1:])]


@pytest.mark.parametrize(
    ("rule", "data", "body", "lines"),
    [
        ("false", None, 1, ("false",)),
        ("auth == null", None, 1, ("false", "auth == null is false", '  auth = {"uid": "alice"}')),
        ("newData.val() > 5", None, 3, ("false", "newData.val() > 5 is false", "  newData.val() = 3", "  newData = 3")),
        ("!data.exists()", {"c": 7}, 1, ("false", "data.exists() is true", "  data = 7")),
        (
            "now > 5 && auth.uid == newData.val()",
            None,
            "bob",
            (
                "false",
                "auth.uid == newData.val() is false",
                *('  auth.uid = "alice"', '  newData.val() = "bob"', '  newData = "bob"'),
            ),
        ),
        (
            "now < 5 || data.exists()",
            None,
            1,
            ("false", "now < 5 is false", "  now = 1000", "data.exists() is false", "  data = null"),
        ),
        (
            "data.val() > 1 || true",
            None,
            1,
            ("broken by its values", "data.val() > 1 is broken by its values", "  data.val() = null", "  data = null"),
        ),
        (
            "newData.isString() ? newData.val().matches(/^a$/i) : false",
            None,
            "b",
            (
                "false",
                *("newData.isString() is true", '  newData = "b"', "newData.val().matches(/^a$/i) is false"),
                *('  newData.val() = "b"', '  newData = "b"'),
            ),
        ),
        (
            'newData.hasChildren(["a", auth.uid])',
            None,
            {"a": 1},
            ("false", 'newData.hasChildren(["a", auth.uid]) is false', '  newData = {"a": 1}', '  auth.uid = "alice"'),
        ),
        (
            "!(now > 5 && (true || data.exists()))",
            None,
            1,
            ("false", "now > 5 is true", "  now = 1000", "true is true"),
        ),
        (
            "root.child(auth.uid).val() == (1 + 1)",
            {"alice": {"x": 1}},
            1,
            (
                "false",
                "root.child(auth.uid).val() == (1 + 1) is false",
                *("  root.child(auth.uid).val() = an object", "  1 + 1 = 2", '  root.child(auth.uid) = {"x": 1}'),
                '  auth.uid = "alice"',
            ),
        ),
    ],
)
def test_a_denied_write_names_the_decisive_part(rule: str, data: object, body: object, lines: tuple[str, ...]) -> None:
    """The rule is shown with its place, then those parts that made it false, or broke it, each with its values."""
    assert why({"c": {".write": rule}}, data, "write", "/c", body) == write_of(rule, *lines)


def test_every_rule_on_the_way_is_named() -> None:
    """A denied read names all the `.read` rules that could have granted it, with the keys that variables stand for."""
    rules = {".read": False, "u": {"$id": {".read": "$id === auth.uid", "x": {".read": "query.limitToFirst <= 2"}}}}
    assert why(rules, None, "read", "/u/bob/x") == [
        ".read of / (3:14) is false: false",
        ".read of /u/$id (6:18) is false: $id === auth.uid",
        "  $id === auth.uid is false",
        '    $id = "bob"',
        '    auth.uid = "alice"',
        ".read of /u/$id/x (8:20) is broken by its values: query.limitToFirst <= 2",
        "  query.limitToFirst <= 2 is broken by its values",
        "    query.limitToFirst = null",
    ]


def test_where_no_rule_stands_that_is_said() -> None:
    """Where nothing on the way could grant it, the explanation says so."""
    rules = {"a": {".read": True, ".validate": False}}
    assert why(rules, None, "read", "/b") == ["no .read rule stands on the way to /b"]
    assert why(rules, None, "write", "/a/c", 1, auth=None) == ["no .write rule stands on the way to /a/c"]


def test_a_failed_validation_names_its_place() -> None:
    """Of `.validate` rules the first that failed is shown, on the way or below, and none that holds."""
    rules = {".write": True, "n": {".validate": "newData.hasChildren()", "$k": {".validate": "newData.isNumber()"}}}
    assert why(rules, None, "write", "/n", {"a": 1, "b": "x"}) == [
        ".validate of /n/$k (7:22) is false: newData.isNumber()",
        "  newData.isNumber() is false",
        '    newData = "x"',
    ]
    assert why(rules, None, "write", "/n", 5)[0].startswith(".validate of /n (5:20) is false")


def test_of_several_paths_the_denied_one_is_named() -> None:
    """A denied update says which of its paths was the first to be denied."""
    rules = {"a": {".write": True}, "b": {".write": False}}
    assert why(rules, None, "update", "/", {"a": 1, "b/c": 2}) == [
        "of its 2 paths this is the first that is denied: /b/c",
        ".write of /b (7:17) is false: false",
    ]


def test_long_values_are_cut() -> None:
    """A long text is cut, and of many children only their number is shown."""
    rules = {"c": {".write": "newData.val() == 1"}}
    _, _, value, node = why(rules, None, "write", "/c", "x" * 500)
    assert len(value) < 140
    assert value.endswith("…")
    assert node.endswith("…")
    assert why(rules, None, "write", "/c", dict.fromkeys("abcdefgh" * 9, 1) | {f"k{n}": 1 for n in range(60)})[-1] == (
        "    newData = an object of 68 children"
    )


def as_alice(target: str) -> str:
    return f"{target}{'&' if '?' in target else '?'}auth_variable_override={quote(json.dumps(ALICE))}"


def test_the_log_says_why(rtdb: Rtdb, caplog: pytest.LogCaptureFixture) -> None:
    """Each refusal is a record of the log at INFO: a read, a write, and a stream that new rules end."""
    caplog.set_level(logging.INFO, "rtdb_emulator")
    rtdb.set_rules({"rules": {"n": {".read": "auth.uid == 'alice'"}}})
    assert call(rtdb, "GET", "/n.json").status_code == 401
    assert call(rtdb, "PUT", as_alice("/n.json"), "1", OWNER).status_code == 401
    with stream(rtdb.emulator, rtdb.namespace, as_alice("/n.json"), "Authorization: Bearer owner") as opened:
        opened.event()
        rtdb.set_rules({"rules": {}})
        assert opened.frame() == CANCEL
    said = [record.getMessage() for record in caplog.records if record.name == "rtdb_emulator"]
    assert [line.splitlines()[0] for line in said] == [
        f"{rtdb.namespace}: read of /n denied to a client not signed in",
        f'{rtdb.namespace}: write of /n denied to auth = {{"uid": "alice"}}',
        f'{rtdb.namespace}: read of /n denied to auth = {{"uid": "alice"}}',
    ]
    assert "no .write rule stands on the way to /n" in said[1]
    assert [refusal.lines[0] for refusal in rtdb.emulator.refusals.of(rtdb.namespace)] == [
        line.splitlines()[0].partition(": ")[2] for line in said
    ]


def test_a_stale_write_without_the_right_to_read_says_so(rtdb: Rtdb) -> None:
    """Where a 412 would have shown too much, the explanation says that it was the read that was denied."""
    rtdb.set_rules({"rules": {".write": True}})
    rtdb.set("/n", 1)
    assert call(rtdb, "PUT", "/n.json", "2", {"if-match": "null_etag"}).status_code == 401
    (refusal,) = rtdb.emulator.refusals.of(rtdb.namespace)
    assert refusal.lines == [
        "read of /n denied to a client not signed in",
        "  its if-match is stale, and the answer would show the node",
        "  no .read rule stands on the way to /n",
    ]


def test_nobody_is_explained_to_who_does_not_ask(
    rtdb: Rtdb, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a log at INFO a refusal is only kept: nothing is evaluated again, and what is allowed keeps nothing."""
    caplog.set_level(logging.WARNING, "rtdb_emulator")
    asked: list[object] = []
    monkeypatch.setattr(store, "explain", asked.append)
    rtdb.set_rules({"rules": {"open": {".read": True}}})
    assert call(rtdb, "GET", "/open.json").status_code == 200
    assert call(rtdb, "GET", "/n.json").status_code == 401
    assert len(rtdb.emulator.refusals.of(rtdb.namespace)) == 1
    assert asked == []


@pytest.mark.parametrize(
    "body",
    [
        "x" * 70_000,
        {f"k{number}": number for number in range(9_000)},
        {"a": {"b": {"y" * 700 + str(number): True for number in range(100)}}},
        {".value": 1, ".priority": "p" * 70_000},
    ],
)
def test_the_reason_of_a_large_write_is_kept_in_place_of_its_value(rtdb: Rtdb, body: object) -> None:
    """A refused write may have 256 MiB, and the newest 100 are kept: of a large one only its reason."""
    rtdb.set("/n", 5)
    rtdb.set_rules({"rules": {"n": {".write": "newData.val() == data.val()"}}})
    assert call(rtdb, "PUT", "/n.json", json.dumps(body)).status_code == 401
    [kept] = rtdb.emulator.refusals.of(rtdb.namespace)
    assert (kept.refused.before, kept.refused.after, kept.refused.writes) == (EMPTY, None, ())
    assert kept.lines[0] == "write of /n denied to a client not signed in"
    assert "    newData.val() == data.val() is false" in kept.lines
    assert "      data.val() = 5" in kept.lines
    assert sum(map(len, kept.lines)) < 1_000
    [shown] = [shown for _, shown in rtdb.emulator.operations.since(0) if shown.namespace == rtdb.namespace]
    assert shown.as_json()["why"] == kept.lines


def test_the_reason_of_a_large_query_is_kept_in_place_of_its_bounds(rtdb: Rtdb, client: SocketClient) -> None:
    """A query may have a message's size too."""
    rtdb.set_rules({"rules": {"n": {".read": "query.startAt == 'a'", ".indexOn": ".value"}}})
    assert client.ask("g", p="/n", q={"i": ".value", "sp": "x" * 70_000})[0] == "permission_denied"
    [kept] = rtdb.emulator.refusals.of(rtdb.namespace)
    assert kept.refused.query is None
    assert f'      query.startAt = "{"x" * 50}' in "\n".join(kept.lines)
    assert sum(map(len, kept.lines)) < 1_000


def test_only_the_newest_refusals_are_kept() -> None:
    """The emulator keeps so many refusals, and `clear` forgets them."""
    kept = store.Refusals(2)
    rules = Rules.parse({"rules": {}})
    for name in "abc":
        kept.add(store.RefusedRequest(name, Refused("read", (name,), rules, EMPTY, None, (), None, 0)))
    assert [refusal.namespace for refusal in kept] == ["b", "c"]
    assert (
        str(next(iter(kept))) == "read of /b denied to a client not signed in\n  no .read rule stands on the way to /b"
    )
    kept.clear()
    assert len(kept) == 0


RULES = {
    "rules": {
        ".read": True,
        "n": {".write": "newData.val() > data.val()", ".validate": "newData.isNumber()"},
        "$other": {".write": "auth != null && '<b>' != ''"},
    }
}


def report(rtdb: Rtdb) -> dict[str, list[int]]:
    """Each rule's counts of true, false and broken."""
    answer = call(rtdb, "GET", "/.inspect/coverage.json")
    assert answer.status_code == 200
    return {f"{row['path']} {row['rule']}": [row["true"], row["false"], row["error"]] for row in answer.json()["rules"]}


def test_each_outcome_is_counted(rtdb: Rtdb) -> None:
    """Of each rule the report has how often it was true, false and broken; an admin's requests ask none."""
    rtdb.set_rules(RULES)
    nothing = [0, 0, 0]
    assert report(rtdb) == {
        "/ .read": nothing,
        "/n .write": nothing,
        "/n .validate": nothing,
        "/$other .write": nothing,
    }
    rtdb.set("/n", 5)
    assert call(rtdb, "PUT", "/n.json", "1", OWNER).status_code == 200
    for body, status in (("6", 200), ("2", 401), ('"x"', 401)):
        assert call(rtdb, "PUT", "/n.json", body).status_code == status
    assert call(rtdb, "GET", "/n.json").status_code == 200
    assert report(rtdb) == {
        "/ .read": [1, 0, 0],
        "/n .write": [1, 1, 1],
        "/n .validate": [1, 0, 0],
        "/$other .write": nothing,
    }


def test_the_report_shows_the_rule_and_its_place(rtdb: Rtdb) -> None:
    """A rule is reported with its path, kind, expression, line and column, and all of them with the percentage."""
    rtdb.set_rules('{"rules": {\n  "n": {".write":\n    "auth.uid==\'a\'||!data.exists()"}}}')
    call(rtdb, "PUT", "/n.json", "1")
    expected = {
        **{"path": "/n", "rule": ".write", "line": 3, "column": 5},
        "expression": 'auth.uid == "a" || !data.exists()',
        **{"true": 1, "false": 0, "error": 0},
    }
    assert call(rtdb, "GET", "/.inspect/coverage.json").json() == {"percent": 50.0, "rules": [expected]}


def test_the_page_shows_what_was_missed_first(rtdb: Rtdb) -> None:
    """`/.inspect/coverage` is a page with all rules, those that need a test on top, and nothing of theirs as HTML."""
    rtdb.set_rules(RULES)
    call(rtdb, "GET", "/n.json")
    answer = call(rtdb, "GET", "/.inspect/coverage")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    places = [answer.text.index(f"{where} (") for where in ("/n .write", "/n .validate", "/$other .write", "/ .read")]
    assert places == sorted(places)
    assert "14.3 %" in answer.text
    assert "auth != null &amp;&amp; &quot;&lt;b&gt;&quot; != &quot;&quot;" in answer.text


def test_the_page_marks_the_rules_in_their_text(rtdb: Rtdb) -> None:
    """Each rule is marked where it stands, in lines and comments as they were written, with its counts beside it."""
    text = """{"rules": { // <all>
  ".read": true,
  "n": {".write": "newData.val() == \\"\\u003c\\" ||
      data.exists()", ".validate": "newData.isNumber()"},
  "m": {".write": "auth != null"}
}}"""
    rtdb.set_rules(text)
    call(rtdb, "PUT", "/n.json", "1")
    call(rtdb, "GET", "/n.json")
    page = call(rtdb, "GET", "/.inspect/coverage").text
    shown = page.partition("<pre>")[2].partition("</pre>")[0]
    assert unescape(re.sub(r'<span class="(number|counts)">[^<]*</span>|<[^>]*>', "", shown)) == text + "\n"
    marks = re.findall(r'<mark class="(\w+)" title="([^"]*)">([^<]*)</mark>', shown)
    once_false = "1 false"
    assert [(kind, counts, unescape(part)) for kind, counts, part in marks] == [
        ("seen", "1 true", "true"),
        ("half", once_false, r'"newData.val() == \"\u003c\" ||'),
        ("half", once_false, 'data.exists()"'),
        ("missed", "never", '"newData.isNumber()"'),
        ("missed", "never", '"auth != null"'),
    ]
    assert f'<a href="/?ns={rtdb.namespace}">' in page


def test_new_rules_begin_at_nothing(rtdb: Rtdb) -> None:
    """A database's own counts are of its present rules; the emulator's go on, over all databases with the same text."""
    with Emulator(rules=RULES) as emulator:
        shop, bank = Rtdb(emulator, "shop"), Rtdb(emulator, "bank")
        for rtdb_ in (shop, bank, shop):
            assert call(rtdb_, "GET", "/n.json").status_code == 200
            rtdb_.set_rules(RULES)
        assert report(shop)["/ .read"] == [0, 0, 0]
        ((rules, coverage),) = emulator.coverage()
        assert rules.as_json() == RULES
        assert coverage.counts[0] == [3, 0, 0]


@pytest.mark.parametrize("target", ["/.inspect/coverage", "/.inspect/coverage.json"])
def test_a_report_is_only_read(rtdb: Rtdb, target: str) -> None:
    """There is nothing to write at the reports, and asking makes no database."""
    for method in ("PUT", "POST", "DELETE"):
        assert call(rtdb, method, target, "1").status_code == 405
    with Emulator() as emulator:
        assert call(Rtdb(emulator, "x"), "GET", target).status_code == 200
        assert emulator.namespaces() == []


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        ([], 0.0),
        ([(0, True)], 20.0),
        ([(1, True), (1, True)], 20.0),
        ([(1, True), (1, None)], 40.0),
        ([(1, False), (1, None)], 20.0),
        ([(0, True), (1, True), (1, False), (2, True), (2, None)], 100.0),
    ],
)
def test_the_percentage_is_of_outcomes(seen: list[tuple[int, bool | None]], expected: float) -> None:
    """A constant rule has one outcome, another two: true, and not true, be it false or broken."""
    rules = Rules.parse(json.dumps({"rules": {".read": True, ".write": "auth != null", "a": {".read": "now > 5"}}}))
    coverage = Coverage(rules.all)
    for number, outcome in seen:
        coverage.count(rules.all[number], outcome)
    assert percent(coverage.rows) == expected


def test_counts_of_several_processes_are_one() -> None:
    """What another process has counted is added; without rules nothing is missing."""
    rules = Rules.parse(json.dumps({"rules": {".read": "auth != null"}}))
    coverage = Coverage(rules.all)
    coverage.count(rules.all[0], True)
    coverage.add([[1, 2, 3]])
    assert coverage.counts == [[2, 2, 3]]
    assert percent(Coverage(()).rows) == 100.0
