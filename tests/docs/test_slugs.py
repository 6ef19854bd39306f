"""The documentation's list of events is the code's, with all fields, and the alerts look for events that there are."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import pytest
from tests.docs.documents import ROOT

import firecron
from firecron.base.events import Slug
from firecron.lock.record import Reason

SOURCE = Path(firecron.__file__).parent
DOCUMENT = Path(__file__).parents[2] / "docs" / "reference" / "logs-and-metrics.md"
ITEM = re.compile(r"^\* `([a-z]+\.[a-z_]+)` [A-Z, ]+: (.*(?:\n  .*)*)", re.MULTILINE)
# What an item ends with.
FIELDS = re.compile(r"\(((?:(?:`\w+`|[A-Z]+)\s*)+)\)$")
# A word above the list that stands for several fields.
GROUP = re.compile(r"\b([A-Z]+)(?: \([^)]*\)\))? (?:stands )?for ((?:`\w+`\s*)+)")


@dataclass(frozen=True)
class Told:
    """An event that the code tells."""

    where: str
    slug: str
    fields: frozenset[str]


def documented() -> dict[str, frozenset[str]]:
    text = DOCUMENT.read_text("utf-8").partition("\n## The events\n")[2].partition("\n## ")[0]
    groups = dict(GROUP.findall(text.partition("\n* ")[0]))
    found = {slug: FIELDS.search(item) for slug, item in ITEM.findall(text)}
    whole = {
        slug: re.sub(r"\b[A-Z]+\b", lambda word: groups[word[0]], fields[1]) if fields else ""
        for slug, fields in found.items()
    }
    return {slug: frozenset(re.findall(r"`(\w+)`", fields)) for slug, fields in whole.items()}


def told() -> Iterator[Told]:
    for path in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        wrappers = dict(found_wrappers(tree))
        mappings = dict(found_mappings(tree))
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                yield from told_by(function, wrappers, mappings, path)
        for node in ast.walk(tree):
            if isinstance(node, ast.Dict):
                for key, value in zip(node.keys, node.values, strict=True):
                    if isinstance(key, ast.Constant) and key.value == "event" and isinstance(value, ast.Constant):
                        yield Told(f"{path.name}:{node.lineno}", str(value.value), frozenset())


def found_wrappers(tree: ast.Module) -> Iterator[tuple[str, tuple[int, frozenset[str]]]]:
    """Functions that hand a slug on: where it is among their arguments, and the fields that they add."""
    yield "emit", (0, frozenset())
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef) and function.name != "emit":
            names = [argument.arg for argument in function.args.args if argument.arg != "self"]
            for call in calls(function, {"emit"}):
                if isinstance(call.args[0], ast.Name) and call.args[0].id in names:
                    yield function.name, (names.index(call.args[0].id), keywords(call))


def found_mappings(tree: ast.Module) -> Iterator[tuple[str, list[ast.expr]]]:
    """The values of the module's mappings, by their names."""
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Dict):
            yield ast.unparse(node.target), node.value.values


def told_by(
    function: ast.FunctionDef | ast.AsyncFunctionDef,
    wrappers: dict[str, tuple[int, frozenset[str]]],
    mappings: dict[str, list[ast.expr]],
    path: Path,
) -> Iterator[Told]:
    parameters = {argument.arg for argument in function.args.args}
    for call in calls(function, set(wrappers)):
        position, added = wrappers[called(call)]
        slug = call.args[position]
        if isinstance(slug, ast.Name) and slug.id in parameters:
            continue  # a wrapper: its own calls are looked at
        for text in texts(slug, function, mappings):
            yield Told(f"{path.name}:{call.lineno}", text, added | keywords(call))


def texts(slug: ast.expr, function: ast.AST, mappings: dict[str, list[ast.expr]]) -> Iterator[str]:
    """What a slug's expression can be."""
    match slug:
        case ast.Constant(value=str(text)):
            yield text
        case ast.Subscript(value=ast.Name(id=name)):
            for value in mappings[name]:
                yield from texts(value, function, mappings)
        case ast.IfExp(body=one, orelse=other):
            yield from texts(one, function, mappings)
            yield from texts(other, function, mappings)
        case ast.Name(id=name):
            values = [node.value for node in ast.walk(function) if isinstance(node, ast.Assign) and is_for(node, name)]
            assert values, f"{name} in line {slug.lineno} can't be followed to its slug"
            for value in values:
                yield from texts(value, function, mappings)
        case _:
            raise AssertionError(f"a slug that can't be read: {ast.unparse(slug)}")


def is_for(node: ast.Assign, name: str) -> bool:
    return any(isinstance(target, ast.Name) and target.id == name for target in node.targets)


def calls(tree: ast.AST, names: set[str]) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and called(node) in names and node.args:
            yield node


def called(call: ast.Call) -> str:
    function = call.func
    return (
        function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    )


def keywords(call: ast.Call) -> frozenset[str]:
    return frozenset(keyword.arg for keyword in call.keywords if keyword.arg)


@pytest.fixture(scope="module")
def events() -> list[Told]:
    """All that the code tells. To read it takes long, so it is not read where the tests are only collected."""
    return list(told())


def test_every_event_is_in_the_documentation(events: list[Told]) -> None:
    """Each slug that the code tells is in the list, with each field that it tells there."""
    rows = documented()
    assert [event for event in events if event.slug not in rows] == [], f"not in {DOCUMENT.name}"
    missing = [(event.where, event.slug, sorted(event.fields - rows[event.slug])) for event in events]
    assert [one for one in missing if one[2]] == [], f"fields that are not in {DOCUMENT.name}"


def test_the_list_has_the_slugs_of_the_type() -> None:
    """Each slug that an event may have is in the list, in its order, and no other is."""
    assert list(get_args(Slug)) == list(documented())


def test_the_documentation_has_no_other_events(events: list[Told]) -> None:
    """Each item is of an event that the code tells, and each of its fields is told somewhere."""
    rows = documented()
    assert len(events) > 30
    for slug, fields in rows.items():
        found = [event for event in events if event.slug == slug]
        assert found, f"{slug} is in {DOCUMENT.name}, and nothing tells it"
        every = frozenset[str]().union(*(event.fields for event in found))
        assert fields <= every | {"listened_to"}, f"{slug}: {sorted(fields - every)} are told by nothing"


def test_every_query_asks_for_events_that_there_are() -> None:
    """Each slug in the queries and commands of the documentation is one of the list's."""
    rows = documented()
    prefixes = {slug.partition(".")[0] for slug in rows}
    quoted = re.findall(r'"([a-z]+\.[a-z_]+)"', DOCUMENT.read_text("utf-8"))
    assert len([slug for slug in quoted if slug.partition(".")[0] in prefixes and slug in rows]) > 10
    assert not [slug for slug in quoted if slug.partition(".")[0] in prefixes and slug not in rows]


FOLDER = ROOT / "docs" / "alerts"
PAGE = (ROOT / "docs" / "how-to" / "alerts-and-monitoring.md").read_text("utf-8")
FILES = sorted(path.name for path in FOLDER.iterdir())
# Seconds: Cloud Monitoring's longest look back for what is absent.
LONGEST_ABSENCE = 23.5 * 3600


def loaded(name: str) -> Any:
    return json.loads((FOLDER / name).read_text("utf-8"))


def policies() -> list[str]:
    return [name for name in FILES if "conditions" in loaded(name)]


@pytest.mark.parametrize("name", FILES)
def test_a_filter_names_events_that_there_are(name: str) -> None:
    """Each event and reason in a filter is one that firecron writes, and the page tells of the file."""
    text = json.dumps(loaded(name)).replace('\\"', "'")
    events = re.findall(r"'([a-z]+\.[a-z_]+)'", text)
    assert set(events) <= {*get_args(Slug)}
    reasons = re.search(r"jsonPayload.reason=\((.*?)\)", text)
    assert reasons is None or set(re.findall(r"'(\w+)'", reasons[1])) <= {*get_args(Reason)}
    assert f"alerts/{name}" in PAGE


@pytest.mark.parametrize("name", policies())
def test_a_policy_is_one_that_cloud_monitoring_takes(name: str) -> None:
    """A policy of a log has the rate limit that such policies need; an absence is one that can be seen."""
    policy = loaded(name)
    (condition,) = policy["conditions"]
    assert policy["combiner"] == "OR"
    if "conditionMatchedLog" in condition:
        assert re.fullmatch(r"\d+s", policy["alertStrategy"]["notificationRateLimit"]["period"])
        assert "job" in condition["conditionMatchedLog"]["labelExtractors"]
    else:
        assert "notificationRateLimit" not in policy["alertStrategy"]
        assert int(condition["conditionAbsent"]["duration"].removesuffix("s")) <= LONGEST_ABSENCE
        assert "/firecron-succeeded" in condition["conditionAbsent"]["filter"]


METRIC_KINDS = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_count", "_sum")}


def test_the_dashboard_asks_for_metrics_that_there_are() -> None:
    """Each metric and label in a query of the dashboard is one of OpenTelemetry's list, as Prometheus spells it."""
    listed = re.findall(
        r"^\* `(firecron\.[\w.]+)` \((\w+), `([^`]+)`; ([^)]+)\):", DOCUMENT.read_text("utf-8"), re.MULTILINE
    )
    metrics = {
        name.replace(".", "_") + ("_seconds" if unit == "s" else "") + suffix
        for name, kind, unit, _ in listed
        for suffix in METRIC_KINDS[kind]
    }
    labels = {label.replace(".", "_") for *_, attributes in listed for label in re.findall(r"`([\w.]+)`", attributes)}
    dashboard = json.loads((ROOT / "docs" / "dashboards" / "grafana.json").read_text("utf-8"))
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    named = {word for query in queries for word in re.findall(r"\bfirecron_\w+", query)}
    assert len(named & metrics) >= len(queries)
    assert named <= metrics | labels
