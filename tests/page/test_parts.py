"""Parts of the page by themselves: shared values, links to logs, who is on this machine."""

from __future__ import annotations

import re
import threading
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import get_args
from urllib.parse import unquote

import pytest
from tests.triggers.triggering import aside

from firecron.base.instants import to_text
from firecron.errors import StoreError, Unavailable
from firecron.ops.board import Shared
from firecron.ops.health import ALARMS, VerdictWord
from firecron.ops.remedies import TABLE, State
from firecron.ops.remedy import ActWord
from firecron.page.fleet import instance_link, log_link, project_of
from firecron.runs.entry import Entry
from firecron.testing.clocks import FakeTiming

AT = 1_795_000_000_000
GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "the-page.md"
# How the guide's items begin.
STATES: dict[str, State] = {
    "stuck, held": "stuck",
    "stuck, because its lock": "blocked",
    "stuck, because nobody": "unreadable",
    "not known": "unknown",
    "a leader": "leader",
    "any other lock": "lock",
    **{word: word for word in ("running", "paused", "late", "failing", "unattended", "retired", "disabled", "ok")},
}
RUN = Entry("2026-11-18T09:00:00Z", "succeeded", slot="2026-11-18T09:00:00Z", started_at=AT, ended_at=AT + 5_000)


# --- the words of the verdict


def test_the_script_knows_the_words_of_the_verdict() -> None:
    """The page has a mark for each word that a job of the catalogue can have, and those that need a hand are alarms."""
    static = files("firecron.page") / "static"
    words, shapes = (static.joinpath(name).read_text("utf-8") for name in ("words.js", "strip.js"))
    (needs,) = re.findall(r"^export const needsHand = .*\[(.*)\]", words, re.MULTILINE)
    (marks,) = re.findall(r"^export const MARKS = \{\n(.*?)^\};", shapes, re.MULTILINE | re.DOTALL)
    # A job that nobody has declared has no row.
    assert {*re.findall(r'"(\w+)"', needs)} == ALARMS - {"undeclared"}
    assert {*re.findall(r"^  (\w+): ", marks, re.MULTILINE)} == {*get_args(VerdictWord)} - {"undeclared"}


# --- shared values


def test_a_value_is_read_once_and_kept_for_its_age() -> None:
    """Whoever asks within the age gets the value that was read; each name has its own."""
    clock, read = FakeTiming(), list[str]()

    def count(name: str) -> int:
        read.append(name)
        return len(read)

    shared = Shared(count, clock, 3)
    assert [shared.get("a"), shared.get("a"), shared.get("b")] == [1, 1, 2]
    clock.advance(2.9)
    assert shared.get("a") == 1
    clock.advance(0.1)
    assert [shared.get("a"), shared.get("a")] == [3, 3]
    assert read == ["a", "b", "a"]


@pytest.mark.parametrize("age", [3, 300])
def test_an_error_is_shared_as_well(age: int) -> None:
    """A database that is away is asked once for all; after three seconds again, also for what is kept for minutes."""
    clock, tries = FakeTiming(), list[int]()

    def read(name: str) -> str:
        tries.append(1)
        if len(tries) == 1:
            raise Unavailable("it is away")
        return "back"

    shared = Shared(read, clock, age)
    for seconds in (0, 0, 2.9):
        clock.advance(seconds)
        with pytest.raises(StoreError, match="it is away"):
            shared.get()
    clock.advance(0.1)
    assert (shared.get(), len(tries)) == ("back", 2)


def test_an_error_keeps_nothing_of_those_who_got_it() -> None:
    """However many callers a shared error is raised to, its traceback is that of one."""

    def read(name: str) -> str:
        raise Unavailable("it is away")

    shared, depths = Shared(read, FakeTiming(), 3), list[int]()
    for _ in range(3):
        with pytest.raises(StoreError) as raised:
            shared.get()
        depths.append(len(raised.traceback))
    assert depths[1] == depths[2] <= depths[0]


def test_others_wait_for_the_one_who_reads() -> None:
    """Of many who ask at once, one reads."""
    begun, opened, read = threading.Event(), threading.Event(), list[int]()

    def slow(name: str) -> int:
        read.append(1)
        begun.set()
        assert opened.wait(20)
        return len(read)

    shared = Shared(slow, FakeTiming(), 3)
    with aside(shared.get) as one, aside(shared.get) as two, aside(shared.get) as three:
        assert begun.wait(20)
        opened.set()
    assert (one, two, three, read) == ([1], [1], [1], [1])


def test_a_change_during_a_read_is_not_lost() -> None:
    """What changed while a value was read may not be in it: it is read once more, and then kept."""
    shared: Shared[int]
    read = list[int]()

    def change_and_read(name: str) -> int:
        read.append(1)
        if len(read) == 1:
            shared.changed()
        return len(read)

    shared = Shared(change_and_read, FakeTiming(), 1_000)
    assert [shared.get(), shared.get(), shared.get()] == [1, 2, 2]
    shared.changed("never asked for")
    shared.changed()
    shared.changed()
    assert [shared.get(), shared.get()] == [3, 3]


def test_of_many_values_the_last_are_kept() -> None:
    """What nobody has asked for a while is forgotten, so that a page of many jobs stays small."""
    read = list[str]()
    shared = Shared(read.append, FakeTiming(), 3, most=2)
    for name in ("a", "b", "c", "c", "b", "a"):
        shared.get(name)
    assert read == ["a", "b", "c", "a"]


# --- links to logs


@pytest.mark.parametrize(
    ("entry", "key"),
    [
        (RUN, "digest:2026-11-18T09:00:00Z"),
        (replace(RUN, key="2026-11-18T09:00:00Z-manual-ab12", slot=None), "digest:manual:ab12"),
        (replace(RUN, key='a"b\\c'), 'digest:a\\"b\\\\c'),
        (replace(RUN, ended_at=None), "digest:2026-11-18T09:00:00Z"),
    ],
)
def test_a_runs_log_lines_have_a_link(entry: Entry, key: str) -> None:
    """The link asks for the lines with the run's key, around the run, in the project."""
    link = log_link("digest", entry, "shop", "my-project")
    assert link is not None
    assert link.startswith("https://console.cloud.google.com/logs/query;query=")
    query, start, _ = unquote(link).removeprefix("https://console.cloud.google.com/logs/query;").split(";")
    assert query == f'query=labels.firecron_run="{key}"'
    assert start.startswith("startTime=2026-11-18T")
    assert link.endswith("?project=my-project")
    assert not {" ", '"', "<", "\\"} & set(link)


@pytest.mark.parametrize(
    ("entry", "service"),
    [
        (RUN, None),
        (RUN, "local"),
        (replace(RUN, started_at=None), "shop"),
        (replace(RUN, recorded_by="bookkeeper"), "shop"),
    ],
)
def test_what_has_no_log_on_cloud_run_has_no_link(entry: Entry, service: str | None) -> None:
    """A run elsewhere, or a tick that did not run, has no lines in Cloud Logging."""
    assert log_link("digest", entry, service, "my-project") is None


def test_an_instance_has_a_link_to_its_last_hour() -> None:
    """On Cloud Run, by the id that its log lines have."""
    link = instance_link("00bf4bd1c2aa", "shop", "my-project", AT)
    assert link is not None
    query, start, end = unquote(link).removeprefix("https://console.cloud.google.com/logs/query;").split(";")
    assert query == 'query=labels.instanceId:"00bf4bd1c2aa"'
    assert (start, end) == (f"startTime={to_text(AT - 3_600_000)}", f"endTime={to_text(AT)}?project=my-project")
    assert instance_link("00bf4bd1c2aa", "local", "my-project", AT) is None


def test_a_run_at_the_end_of_time_has_a_link() -> None:
    """An instant that somebody has written by hand may be the last that there is, or later."""
    link = log_link("digest", replace(RUN, started_at=0, ended_at=10**18), "shop", None)
    assert link is not None
    assert link.endswith("startTime=1970-01-01T00:00:00Z;endTime=9999-12-31T23:59:59Z")


def test_the_project_is_the_environments() -> None:
    """Outside Cloud Run nobody is asked for the project."""
    assert project_of({"GOOGLE_CLOUD_PROJECT": "mine"}) == "mine"
    assert project_of({}) is None
    link = log_link("digest", RUN, "shop", None)
    assert link is not None
    assert "project" not in link


# --- what is offered


def test_the_guide_lists_what_is_offered_in_each_state() -> None:
    """Its list has the acts of each state in their order, by the labels of their buttons."""
    script = files("firecron.page").joinpath("static", "words.js").read_text("utf-8")
    (labels,) = re.findall(r"^const ACT_WORDS = \{\n(.*?)^\};", script, re.MULTILINE | re.DOTALL)
    words = {act: label.rstrip("…") for act, label in re.findall(r'^  (\w+): "(.*)"', labels, re.MULTILINE)}
    assert {*words} == {*get_args(ActWord)}
    text = GUIDE.read_text("utf-8").partition("\n## What is offered\n")[2].partition("\n\nOf these")[0]
    items = re.findall(r"^\* (.+): (.+)$", text, re.MULTILINE)
    offered = {state: acts.replace("**", "").split(", ") for state, acts in items}
    said = {
        next(state for word, state in STATES.items() if name.startswith(word)): acts for name, acts in offered.items()
    }
    assert said == {state: [words[act] for act in acts] for state, acts in TABLE.items()}
    assert {*re.findall(r'"(\w+)"', re.findall(r"^export const DESTROYING = (.*)", script, re.MULTILINE)[0])} <= {
        *words
    }
