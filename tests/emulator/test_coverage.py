"""The coverage of rules: counts, the percentage, and the two forms in which they are shown."""

from __future__ import annotations

import json
import re
from html import unescape

import pytest
from tests.emulator.test_rest_wire import OWNER, call

from rtdb_emulator import Emulator
from rtdb_emulator.pytest_plugin import Rtdb
from rtdb_emulator.rules import Rules
from rtdb_emulator.rules.coverage import Coverage, percent

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
