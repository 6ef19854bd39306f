"""What the documentation says by the way is true as well: links, options, settings, fields, events, ticks."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable
from dataclasses import fields
from datetime import datetime, time, timedelta
from inspect import signature
from itertools import pairwise
from pathlib import Path
from typing import cast, get_args
from zoneinfo import ZoneInfo

import pytest
from tests.docs.documents import PAGES, ROOT, TEXTS, all_commands, code_spans, name, prose

from firecron import Event, FireCron, Result, Run, Schedule, State, distributed_cron, leader
from firecron.base.instants import to_datetime
from firecron.cli import commands
from firecron.jobs.catalogue import group_fields, probe
from firecron.jobs.run import Trigger
from firecron.lock.asks import AskedRun
from firecron.lock.audit_log import Deed, make_act
from firecron.lock.fields import PAUSE_FIELDS
from firecron.lock.holds import JobHold
from firecron.lock.record import FIELDS
from firecron.lock.refusal import LEVELS
from firecron.ops.mutes import Mutes
from firecron.ops.told import Told, ToldWord
from firecron.runs.entry import Entry
from firecron.settings import DEFAULTS, FACTS, Settings
from firecron.steps.protocol import StepRecord
from rtdb_emulator.pytest_plugin import Rtdb
from rtdb_emulator_tests.helpers.processes import Run as RunProcess

NODES = ROOT / "docs" / "reference" / "nodes.md"
EVENTS = ROOT / "docs" / "reference" / "logs-and-metrics.md"


def rows(page: Path, heading: str, number: int = 0) -> list[list[str]]:
    """The rows of a table below a heading, the first one unless there is a number."""
    lines = re.findall(r"(?:^\|.*\n)+", below(page, heading), re.MULTILINE)[number].splitlines()
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines[2:]]


def items(page: Path, heading: str) -> list[tuple[str, str]]:
    """The items of a list below a heading that begin with names in backticks and a colon: the names, and the rest."""
    return re.findall(r"^\* ((?:`[^`\n]+`,\s+)*`[^`\n]+`): (.*(?:\n  .*)*)", below(page, heading), re.MULTILINE)


def below(page: Path, heading: str) -> str:
    """What stands between a heading and the next one."""
    rest = f"\n{page.read_text('utf-8')}".partition(f"\n{heading}")[2]
    return re.split(r"^#+ ", rest, maxsplit=1, flags=re.MULTILINE)[0]


def named(cell: str) -> list[str]:
    return re.findall(r"`(\w+(?:\(\))?)`", cell)


# --- links


def slug(heading: str) -> str:
    """A heading's anchor, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def test_every_link_leads_somewhere() -> None:
    """Each relative link is to a file or a folder that there is, and to a heading that it has."""
    link = re.compile(r"\[[^\]]*\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
    links = [(page, *found) for page in TEXTS for found in link.findall(prose(page))]
    for page, target, anchor in links:
        if re.match(r"[a-z]+:", target):
            continue
        found = page.parent / target if target else page
        assert found.exists(), f"{name(page)} links to {target}"
        if anchor:
            headings = re.findall(r"^#+ (.*)$", found.read_text("utf-8"), re.MULTILINE)
            assert anchor in map(slug, headings), f"{name(page)} links to {target}#{anchor}"


def test_every_page_that_is_named_exists() -> None:
    """What looks like the path of a page is one; but decisions are not rewritten, nor are changes."""
    pages = [page for page in TEXTS if page.parent.name != "decisions" and page.name != "CHANGELOG.md"]
    for page in pages:
        named = re.findall(r"`(docs/[\w/-]+\.md)`", page.read_text("utf-8"))
        assert [path for path in named if not (ROOT / path).exists()] == [], name(page)


# --- commands


def mentioned() -> list[tuple[Path, str]]:
    """What looks like a call of `firecron` in the text."""
    spans = [(page, span) for page in PAGES for span in code_spans(page)]
    return [(page, text) for page, text in spans if re.match(r"firecron [a-z]", text)]


def options_of(command_name: str) -> set[str]:
    parameters = commands.load(command_name).params
    return {option for parameter in parameters for option in (*parameter.opts, *parameter.secondary_opts)}


def test_every_command_in_a_block_is_understood() -> None:
    """Each `firecron …` in a shell block is parsed, with all of its arguments."""
    calls = [command for command in all_commands() if command.program[:1] == ["firecron"]]
    assert calls
    for call in calls:
        _, command_name, *arguments = call.program
        command = commands.load(command_name)
        arguments = [
            argument
            for before, argument in pairwise(["", *arguments])
            if not re.match(r"[|<>&]", argument) and before not in ("<", ">")
        ]
        with command.make_context(command_name, arguments):
            pass  # a usage error is raised by now


def test_every_command_in_the_text_exists() -> None:
    """Each `firecron …` in the text is a command, with the options that are shown."""
    found = mentioned()
    assert found
    for page, text in found:
        _, command_name, *_ = text.split()
        assert command_name in commands.COMMANDS, f"{name(page)}: {text}"
        own = text.partition(" -- ")[0]
        shown = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", own)) - {"--help", "--"}
        assert shown <= options_of(command_name), f"{name(page)}: {text}"


def test_the_emulators_command_has_the_options_shown(run: RunProcess) -> None:
    """Each option of `rtdb-emulator`, or of its pytest plugin, that its README shows is one that the help lists."""
    page = ROOT / "emulator" / "README.md"
    text = page.read_text("utf-8")
    for command in all_commands():
        if command.page == page and (command.tool in ("docker", "firebase") or "exec" in command.program[:2]):
            text = text.replace(command.text, "")
    text = text.replace("node --test", "")
    shown = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text))
    assert {"--port", "--rules", "--import", "--export-on-exit", "--project", "--rtdb-coverage-fail-under"} <= shown
    helps = run("-m", "rtdb_emulator", "--help").stdout + run("-m", "pytest", "--help").stdout
    assert shown <= set(re.findall(r"--[a-z][a-z-]*", helps))


# --- names


def test_every_setting_is_on_its_page_with_its_default() -> None:
    """The table of settings is the settings, with their defaults and descriptions, and no other."""
    table = rows(ROOT / "docs" / "reference" / "settings.md", "# Settings")
    assert [row[0] for row in table] == [f"`FIRECRON_{setting.name.upper()}`" for setting in fields(Settings)]
    for (_, default, description), setting in zip(table, fields(Settings), strict=True):
        value = setting.default
        text = f"{value:g}" if isinstance(value, float) else str(value)
        assert default == ("" if value in (None, "", ()) else f"`{text}`")
        assert description == setting.metadata["description"]


def test_every_setting_that_is_mentioned_exists() -> None:
    """A variable `FIRECRON_…` is a setting's, or one that `firecron exec` tells its command."""
    known = {*FACTS, *(f"FIRECRON_{name.upper()}" for name in DEFAULTS)}
    for page in TEXTS:
        found = re.findall(r"\bFIRECRON_[A-Z]+(?:_[A-Z]+)*\b", page.read_text("utf-8"))
        assert set(found) <= known, name(page)


def test_a_number_behind_a_setting_is_its_default() -> None:
    """As in "`FIRECRON_WORKERS` (50)", in every text."""
    said = {
        (path.name, setting, float(number))
        for path in TEXTS
        for setting, number in re.findall(r"`FIRECRON_([A-Z_]+)`(?: jobs)? \(([0-9.]+)\)", path.read_text("utf-8"))
    }
    assert said
    assert [one for one in said if DEFAULTS[one[1].lower()] != one[2]] == []


@pytest.mark.parametrize(("heading", "function"), [("# Job options", distributed_cron), ("## Leaders", leader)])
def test_every_option_is_on_its_page_with_its_default(heading: str, function: Callable[..., object]) -> None:
    """The page on job options has a row for each parameter, with its default and its line of the docstring first; those
    of a leader that are as a job's share a row.
    """
    described = inspect.cleandoc(function.__doc__ or "").partition("Args:\n")[2]
    lines = dict(re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", described, re.MULTILINE))
    table = rows(ROOT / "docs" / "reference" / "job-options.md", heading)
    parameters, of_a_job = signature(function).parameters, signature(distributed_cron).parameters
    assert [option for row in table for option in named(row[0])] == [*parameters]
    for options, default, text in table:
        if text == "As a job's.":
            assert all(parameters[option].default == of_a_job[option].default for option in named(options))
            continue
        (option,) = named(options)
        value = parameters[option].default
        shown = f'"{value}"' if isinstance(value, str) else str(value)
        assert default == ("" if value in (None, inspect.Parameter.empty) else f"`{shown}`")
        assert f"{text} ".startswith(f"{' '.join(lines[option].split())} ")


def test_every_event_that_is_mentioned_exists() -> None:
    """What looks like an event's slug is in the list of events, or names a part of a run or a FireCron."""
    listed = re.findall(r"^\* `(\w+\.\w+)` ", below(EVENTS, "## The events"), re.MULTILINE)
    places = {event.partition(".")[0] for event in listed}
    run = Run("x", slot=None, attempt=1, fence=None, idempotency_key="x", trigger="manual")
    parts = {"run": run, "crons": FireCron(enabled=False)}
    for page in PAGES:
        for span in code_spans(page):
            place, dot, rest = span.partition(".")
            is_file = rest in ("py", "yaml")
            if dot and place in places and re.fullmatch(r"[a-z_]+", rest) and not is_file:
                assert span in listed or hasattr(parts.get(place), rest), f"{name(page)}: {span}"


def test_a_run_a_result_and_an_event_are_listed_whole() -> None:
    """The page on jobs and runs has each attribute of a run, of a result and of an event, and each state of a job."""
    page = ROOT / "docs" / "reference" / "jobs-and-runs.md"
    run = Run("x", slot=None, attempt=1, fence=None, idempotency_key="x", trigger="manual")
    attributes = {name for name in vars(run) if not name.startswith("_")} | {"lost", "previous_slot"}
    attributes |= {"check()", "step()", "key()", "settle()", "retry()"}
    for heading, expected in (
        ("## The run", attributes),
        ("## The result", {field.name for field in fields(Result)}),
        ("## What happens", {field.name for field in fields(Event)}),
    ):
        assert {name for names, _ in items(page, heading) for name in named(names)} == expected
    assert {*get_args(State), *get_args(Trigger)} <= {*code_spans(page)}


def test_every_reason_of_a_refusal_is_explained() -> None:
    """The page on the lock has each reason that a refusal can have."""
    assert {*LEVELS} <= {*code_spans(ROOT / "docs" / "how-to" / "locks.md")}


def test_every_message_that_is_quoted_is_one() -> None:
    """What the page on jobs that don't run has in italics is a part of a text in the sources."""
    quoted = re.findall(r"(?<!\*)\*([^*|`\n]+)\*(?!\*)", prose(ROOT / "docs" / "how-to" / "my-job-doesnt-run.md"))
    assert len(quoted) > 10
    sources = [path.read_text("utf-8") for path in ROOT.glob("src/firecron/**/*.py")]
    texts = [node.value for source in sources for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)]
    said = "\n".join(text for text in texts if isinstance(text, str))
    parts = [part.strip(" ,") for quotation in quoted for part in quotation.split("…")]
    assert [part for part in parts if part not in said] == []


# --- nodes


def fields_of(heading: str) -> list[str]:
    """The fields of a node, as the page on nodes has them below a heading."""
    return [field for names, _ in items(NODES, heading) for field in named(names)]


BESIDE_PAUSE = ("pausedBefore", "resumedAt")


def test_the_locks_node_is_listed_as_the_console_does() -> None:
    """The list of the node has each field of a record, by the alphabet, and no other."""
    listed = fields_of("## The node of a lock")
    assert listed == sorted({*FIELDS, *PAUSE_FIELDS, *BESIDE_PAUSE})


def test_the_history_is_listed_field_by_field(rtdb: Rtdb) -> None:
    """The list of the history has each field that a run and the bookkeeper write, and no other."""
    crons = FireCron(enabled=False)
    words = ("bookkeeper", "instanceId", "instance", "error", "note")
    crons.history.record("job", Entry("key", "failed", "slot", "schedule", 1, 2, 1, 1, 1, 60, True, *words))
    written = {field for entry in crons.history.read("job").values() for field in cast("dict[str, object]", entry)}
    listed = fields_of("## The history")
    assert sorted(listed) == sorted(written)


def test_an_act_is_listed_field_by_field() -> None:
    """The list of the acts has each field of one, and each word for what was done."""
    listed = fields_of("## The acts")
    written = make_act("pause", "job", "ann", 1, "why", "a1b2c3").to_node()
    assert listed == sorted(written)
    assert set(named(items(NODES, "## The acts")[0][1])) == set(get_args(Deed))


def test_a_hold_and_a_mute_are_listed_field_by_field() -> None:
    """The list of each has each field that an operator writes, and no other."""
    hold = JobHold("name", "ann", 1, 2, "why", "api", "mail-*", leaders=True).to_node()
    with FireCron(enabled=False).testing() as test:
        Mutes(test.locks.database).mute("job", to_datetime(test.clock.now() + 1000), "why")
        mute = cast("dict[str, object]", test.store.get("cron-mutes/job"))
    for heading, written in (("## The holds", hold), ("## The mutes", mute)):
        assert sorted(fields_of(heading)) == sorted(written)


def test_an_ask_is_listed_field_by_field() -> None:
    """The list has each field of an ask, and no other."""
    ask = AskedRun("job", "00ffa1", 1, "ann", "x", "slot", "2026-11-18T09:00:00Z", "t").to_node()
    assert sorted(fields_of("## The asks")) == sorted(ask)


def test_what_people_were_told_is_listed_field_by_field() -> None:
    """The list has each field of what was told of a job, and no other."""
    told = Told("late", 1, "t", 2, 3, frozenset({"slack"}), "i", 9, "ok", 4, dict.fromkeys(get_args(ToldWord), 5))
    listed = fields_of("## What people were told")
    assert sorted(listed) == sorted(told.to_node())


def test_a_steps_node_is_listed_field_by_field() -> None:
    """The list of the steps has each field of a record, and no other."""
    listed = fields_of("## The steps")
    written = StepRecord(1, 1, 1, "instance", 1, "1").to_node()
    assert listed == sorted(written)


def test_an_instances_node_is_listed_field_by_field() -> None:
    """The list of an instance's node has each field of a heartbeat, and no other."""
    with FireCron(enabled=False).testing() as test:
        [node] = [
            node for key, node in cast("dict[str, object]", test.store.get("cron-instances")).items() if key != "clock"
        ]
    listed = fields_of("## The instances")
    assert listed == sorted(cast("dict[str, object]", node))


def test_the_catalogue_is_listed_field_by_field() -> None:
    """The list of an entry has each field that a program declares, and no other."""
    listed = fields_of("## What programs declare")
    written = {*probe("job").fields(), "every", "starting", "until", "exceptDigest"}
    assert sorted(listed) == sorted(written)


def test_a_groups_node_is_listed_field_by_field() -> None:
    """The list of a group's node has each field that beats write, and no other."""
    listed = fields_of("## Who would run what")
    written = {*group_fields({}, "api", 30), "beats", "seenAt", "firstSeenAt"}
    assert sorted(listed) == sorted(written)


def test_every_field_that_is_mentioned_exists() -> None:
    """What looks like a node's field, on a page about firecron, is in one of the lists."""
    headings = (
        "## The node of a lock",
        "## The history",
        "## The steps",
        "## The instances",
        "## What programs declare",
        "## Who would run what",
        "## The acts",
        "## The holds",
        "## The mutes",
        "## The asks",
        "## What people were told",
        "## Stored schedules",
    )
    fields = {field for heading in headings for field in fields_of(heading)}
    for page in PAGES:
        if page.parent.name != "emulator":
            looks_so = {span for span in code_spans(page) if re.fullmatch(r"[a-z]+(At|After|By|Id|Ms)", span)}
            assert looks_so <= fields, f"{name(page)}: {looks_so - fields}"


# --- ticks

NIGHTS = [
    pytest.param(row, id=f"{row[0]}-{row[1]}")
    for row in rows(ROOT / "docs" / "explanation" / "time-zones.md", "## When the clocks")
]


@pytest.mark.parametrize("night", NIGHTS)
def test_on_the_nights_of_the_table_a_line_ticks_as_it_says(night: list[str]) -> None:
    """Between midnight and four, a line ticks at the times in its row and at no other."""
    where, line, said = night
    zone, date = where.split(", ")
    midnight = datetime.combine(datetime.fromisoformat(date), time(), ZoneInfo(zone))
    schedule = Schedule(line.strip("`"), zone)
    ticks = schedule.between(midnight - timedelta(seconds=1), midnight.replace(hour=4))
    shown = [local(tick, zone) for tick in ticks]
    assert ", ".join(shown) == said


def local(tick: datetime, zone: str) -> str:
    text = tick.astimezone(ZoneInfo(zone)).isoformat()
    return text[11:16] + text[19:]
