"""What a command imports: no more than it needs, because a command line is mostly starting."""

from __future__ import annotations

import json
from typing import Any

import pytest
import typer

from firecron.cli.commands import COMMANDS, load, take_as_they_are
from rtdb_emulator.pytest_plugin import Rtdb
from rtdb_emulator_tests.helpers.processes import Run

LOADED = """
import atexit, json, sys
from firecron.cli import main
atexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.stderr))
main(sys.argv[1:])
"""
# Foreign packages whose import is felt. The list of a command may have those that are named with it, and no other.
HEAVY = {
    "asyncio",
    "croniter",
    "cryptography",
    "dateutil",
    "django",
    "firebase_admin",
    "flask",
    "google",
    "hashlib",
    "jwt",
    "opentelemetry",
    "pydantic",
    "pydantic_settings",
    "requests",
    "rich",
    "rtdb_emulator",
    "sentry_sdk",
    "starlette",
    "urllib3",
    "uvicorn",
}
SETTINGS = {"asyncio", "pydantic", "pydantic_settings"}
HELP = "cli cli.commands"
NEXT = f"""{HELP} cli.commands.jobs cli.contexts cli.names cli.options cli.output
    base base.clocks base.events base.flag base.instants base.texts
    cron cron.line cron.schedule cron.words cron.zoned_line
    errors scheduler scheduler.startup store"""
STATUS = f"""{NEXT.replace("cli.commands.jobs", "cli.commands.status")} cli.lines cli.watching
    base.identity base.last_values base.threads cron.bounded jobs jobs.about jobs.catalogue jobs.options jobs.run
    lock lock.asks lock.audit_log lock.database lock.fields lock.holds lock.keeper lock.protocol lock.record
    lock.refusal lock.stored lock.waiting
    ops ops.health ops.holds ops.mutes ops.remedies ops.remedy ops.status ops.stored_health ops.views
    rtdb rtdb.failures rtdb.store rtdb.stream rtdb.target rtdb.tokens rtdb.transport
    runs runs.entry runs.policy settings"""


@pytest.mark.parametrize(
    ("command", "has_setting", "own", "foreign"),
    [
        (["--help"], False, HELP, set()),
        (["--version"], False, HELP, set()),
        (["next", "@hourly"], False, NEXT, {"croniter", "dateutil", "rich"}),
        (["status"], False, STATUS, {"hashlib", "requests", "rich", "urllib3"}),
        # A setting that is given is checked, by pydantic-settings, which loads asyncio.
        (["status"], True, STATUS, SETTINGS | {"hashlib", "requests", "rich", "urllib3"}),
    ],
    ids=["--help", "--version", "next", "status", "status with a setting"],
)
def test_a_command_loads_what_it_needs(
    run: Run,
    rtdb: Rtdb,
    command: list[str],
    has_setting: bool,
    own: str,
    foreign: set[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In a process of its own a command loads these modules of firecron and these heavy packages, and no other."""
    if not has_setting:
        monkeypatch.delenv("FIRECRON_DATABASE_URL")  # the variable of the emulator names a database as well
    finished = run("-c", LOADED, *command)
    assert finished.returncode == 0, finished.stderr
    loaded = json.loads(finished.stderr)
    ours = {name.removeprefix("firecron.") for name in loaded if name.startswith("firecron.")}
    assert ours - {*own.split()} == set()
    assert {name.partition(".")[0] for name in loaded} & HEAVY - foreign == set()


def test_a_value_is_what_typer_makes_of_it() -> None:
    """A command gets the same values and refusals, whether typer converts each value or takes some as they are."""
    compared = 0
    for name in COMMANDS:
        ours, typers = load(name), load(name)
        take_as_they_are(ours.params)
        for taken, converted in zip(ours.params, typers.params, strict=True):
            is_many = taken.multiple or taken.nargs == -1
            given = (("a", "Zürich"), ()) if is_many else ("", "text", "Zürich \udcff", "5", "-1")
            for value in (None, taken.default, *given):
                expected = reading(converted, value, typer.Context(typers))
                assert reading(taken, value, typer.Context(ours)) == expected, (name, taken.name, value)
                compared += 1
    assert compared > 1_000


def reading(parameter: Any, value: object, context: typer.Context) -> tuple[type, object]:
    """What the parameter's value becomes, or the words in which it is refused."""
    try:
        found = parameter.process_value(context, value)
    except (typer.BadParameter, typer.Exit) as refused:
        return type(refused), str(refused)
    return type(found), found
