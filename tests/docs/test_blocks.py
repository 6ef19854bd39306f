"""What the documentation shows is true: its blocks run, and what can't run here is left out for a reason that holds."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from tests.docs.documents import (
    PAGES,
    PYTHON,
    ROOT,
    SHELL,
    SHOWN_ONLY,
    Command,
    all_commands,
    commands,
    name,
    why_left_out,
)
from tests.docs.forking import forked_firecron
from tests.docs.test_walk import begun

from firecron import FireCron, LockService
from rtdb_emulator.pytest_plugin import Rtdb
from rtdb_emulator_tests.helpers.markdown import Block, blocks
from rtdb_emulator_tests.helpers.processes import INSTALLED, PLUGIN, Run

COMMANDS = list(all_commands())
LEFT_OUT = [command for command in COMMANDS if why_left_out(command)]


def is_a_test(block: Block) -> bool:
    return "\ndef test_" in block.text


def scripts(page: Path) -> list[Block]:
    return [block for block in blocks(page) if block.language in PYTHON and not is_a_test(block)]


def to_run(page: Path) -> dict[str, list[Command]]:
    """The commands of each section that has any, in their order."""
    found: dict[str, list[Command]] = {}
    for block in blocks(page):
        for command in commands(block) if block.language in SHELL else ():
            if why_left_out(command) is None:
                found.setdefault(block.section, []).append(command)
    return found


SECTIONS = [pytest.param(page, section, id=f"{name(page)}#{section}") for page in PAGES for section in to_run(page)]


@pytest.mark.usefixtures("rtdb", "logging_as_before")
@pytest.mark.parametrize("page", [page for page in PAGES if scripts(page)], ids=name)
def test_the_python_of_a_page_runs(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each Python block runs without a warning, after those above it on the page, and all that it asserts holds."""
    module = ModuleType("documentation")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    try:
        for block in scripts(page):
            # As many lines above it as on the page, so that a traceback names the page's own.
            exec(compile("\n" * (block.line - 1) + block.text, str(page), "exec"), vars(module))
    finally:
        leave_no_thread(module)


def leave_no_thread(module: ModuleType) -> None:
    """A page needn't close what it has made: a program's threads end with the program."""
    for made in vars(module).values():
        if isinstance(made, FireCron):
            made.stop()
        elif isinstance(made, LockService):
            made.close()


@pytest.mark.usefixtures("rtdb")
def test_the_tests_on_the_pages_pass(run: Run, tmp_path: Path) -> None:
    """Each Python block with tests in it passes under pytest, with the plugin and nothing else."""
    found = [block for page in PAGES for block in blocks(page) if block.language in PYTHON and is_a_test(block)]
    for number, block in enumerate(found):
        stem = re.sub(r"\W", "_", f"{name(block.page)}_{block.line}")
        Path(tmp_path, f"test_{number}_{stem}.py").write_text(block.text, "utf-8")
    plugin = [] if INSTALLED else ["-p", PLUGIN]
    finished = run("-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", *plugin)
    assert (finished.returncode, finished.stderr) == (0, ""), finished.stdout
    assert f"{sum(block.text.count('def test_') for block in found)} passed" in finished.stdout


@pytest.fixture(scope="module")
def firecron(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the command."""
    with forked_firecron(tmp_path_factory.mktemp("firecron")) as folder:
        yield folder


@pytest.mark.parametrize(("page", "section"), SECTIONS)
def test_the_commands_of_a_page_run(page: Path, section: str, rtdb: Rtdb, tmp_path: Path, firecron: Path) -> None:
    """The shell blocks of a section run one after the other in one shell, each command to the exit code that it should
    have.
    """
    to_type = to_run(page)[section]
    for command in to_type:
        if command.program[:2] in (["firecron", "pause"], ["firecron", "acts"], ["firecron", "runs"]):
            # It has run before: a command takes no name that nobody has used.
            rtdb.set(f"/cron-locks/{command.program[2]}", {"expiresAt": 1, "releasedAt": 1})
        if command.program[:2] in (["firecron", "forget"], ["firecron", "mute"], ["firecron", "ask"]):
            # A program has declared it.
            rtdb.set(f"/cron-jobs/{command.program[2]}", {"line": "0 9 * * *"})
        if command.program[:2] == ["firecron", "hold"]:
            rtdb.set("/cron-jobs/send-daily-digest", {"line": "0 9 * * *"})
    for command in to_type:
        if command.program[:2] == ["firecron", "cancel"]:
            # It is running: `cancel` takes no lock that nobody holds.
            now = round(time.time() * 1000)
            running = {"acquiredAt": now, "expiresAt": now + 600_000, "fence": now, "holder": "h"}
            rtdb.set(f"/cron-locks/{command.program[2]}", running)
    script = "\n".join(map(checked, to_type))
    with begun(["bash", "-c", script], folder_of(page, tmp_path), environment(rtdb, firecron), bound=50) as shell:
        said, _ = shell.communicate()
    assert shell.returncode == 0, said
    assert "Traceback" not in said


def checked(command: Command) -> str:
    """The command, and an end to all of it if its exit code is another."""
    where = shlex.quote(f"{name(command.page)}, line {command.line}: exit code")
    return f"{command.text}\nended=$?; [ $ended -eq {command.code} ] || {{ echo {where} $ended >&2; exit 1; }}"


def folder_of(page: Path, tmp_path: Path) -> Path:
    """Where the page's commands are at home: a copy, with the files in it that the page says to save."""
    made = shutil.ignore_patterns("__pycache__", "node_modules")
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=made)
    folder = tmp_path / page.parent.relative_to(ROOT) if page.parent.parent == ROOT / "examples" else tmp_path
    for block in blocks(page):
        if block.file is not None:
            Path(folder, block.file).write_text(block.text, "utf-8")
    return folder


def environment(rtdb: Rtdb, firecron: Path) -> dict[str, str]:
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "COV_"))}
    bin_folder = str(Path(sys.executable).parent)
    # The emulator of these tests, also for a page that names one of its own.
    return inherited | {
        "PATH": os.pathsep.join([str(firecron), bin_folder, os.environ.get("PATH", os.defpath)]),
        "FIRECRON_DATABASE_URL": f"{rtdb.emulator.url}?ns={rtdb.namespace}",
        # A command that compiles the sources costs twice as much.
        "PYTHONDONTWRITEBYTECODE": "",
    }


def test_no_block_is_overlooked() -> None:
    """Each block is in a language that is run here, or in one that is only shown."""
    known = PYTHON | SHELL | SHOWN_ONLY
    odd = [(name(page), block.line, block.language) for page in PAGES for block in blocks(page)]
    assert [where for where in odd if where[-1] not in known] == []


def test_nothing_but_this_is_left_out() -> None:
    """What isn't run needs the cloud or Docker, goes on until Ctrl-C, fetches or installs, or runs in another test."""
    tools = {
        "docker",
        "firebase",
        "firecron",
        "gcloud",
        "git",
        "kubectl",
        "make",
        "npm",
        "pip",
        "python3",
        "rtdb-emulator",
        "source",
        "uvicorn",
    }
    assert {command.tool for command in LEFT_OUT} <= tools | {"source"}
    assert "firecron" in {command.tool for command in COMMANDS if command not in LEFT_OUT}


@pytest.mark.parametrize("tests", ["tests/process/test_demo.py", "tests/process/test_examples.py"])
def test_what_runs_elsewhere_does(tests: str) -> None:
    """A command that is left to another test is there, with the same script in the same folder."""
    text = Path(ROOT, tests).read_text("utf-8")
    elsewhere = [command for command in LEFT_OUT if why_left_out(command) == f"runs in {tests}"]
    assert elsewhere
    for command in elsewhere:
        if command.program[1] == "demo":
            assert '"firecron.demo"' in text
            continue
        folders = [command.page.parent] if command.page.parent.name != "examples" else []
        assert f'"{command.program[-1]}"' in text
        assert all(f'"{folder.name}", "{command.program[-1]}"' in text for folder in folders)


def test_every_target_of_make_exists() -> None:
    """Each target that a page names is one of the Makefile's."""
    targets = set(re.findall(r"^([a-z-]+):", Path(ROOT, "Makefile").read_text("utf-8"), re.MULTILINE))
    named = {word for command in COMMANDS if command.program[:1] == ["make"] for word in command.program[1:]}
    named |= {target for page in PAGES for target in re.findall(r"`make ([a-z-]+)", page.read_text("utf-8"))}
    assert {"demo", "test"} <= named
    assert {target for target in named if "=" not in target} <= targets


def test_every_extra_exists() -> None:
    """Each extra in a `pip install` is one of the package's."""
    extras = tomllib.loads(Path(ROOT, "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    for page in PAGES:
        for found in re.findall(r"firecron\[([\w,]+)\]", page.read_text("utf-8")):
            assert set(found.split(",")) <= set(extras), f"{name(page)}: {found}"


def test_json_on_the_pages_is_json() -> None:
    """Each block of JSON can be read."""
    for page in PAGES:
        for block in blocks(page):
            if block.language == "json":
                json.loads(block.text)
