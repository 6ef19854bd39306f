"""The documentation, taken apart: its pages, their blocks, and the commands in those.

What a shell block says is either run or left out for a reason (`why_left_out`), and a reason can be checked.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rtdb_emulator_tests.helpers.markdown import FENCE, Block, blocks

ROOT = Path(__file__).parents[2]


def _texts() -> Iterator[Path]:
    for folder, folders, files in os.walk(ROOT):
        # Not to be looked through: there are tens of thousands of files in them.
        folders[:] = [name for name in folders if not name.startswith(".") and name not in ("build", "node_modules")]
        yield from (Path(folder, name) for name in files if name.endswith(".md") and not name.startswith("."))


PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    *sorted(page for page in ROOT.glob("docs/**/*.md") if page.parent.name not in ("api", "decisions")),
    ROOT / "emulator" / "README.md",
    ROOT / "examples" / "README.md",
    *sorted(ROOT.glob("examples/*/README.md")),
]
# All that there is of it, but what a build has copied and what npm has installed.
TEXTS = sorted(_texts())
# Sessions, and what is for other programs: nothing here could run it. JavaScript in the emulator's README runs in
# the emulator's tests.
SHOWN_ONLY = {
    "",
    "console",
    "crontab",
    "ini",
    "java",
    "javascript",
    "json",
    "sql",
    "text",
    "toml",
    "typescript",
    "yaml",
}
SHELL = {"sh", "bash", "shell"}
PYTHON = {"python"}

_EXIT = re.compile(r"\s+# exit code (\d+)\b.*$")
_CLOUD = {"firebase", "gcloud", "kubectl"}
_ASSIGNED = re.compile(r"[A-Z_]+=")


@dataclass(frozen=True)
class Command:
    """A command of a shell block, and the exit code that the page says it ends with."""

    page: Path
    line: int
    text: str
    code: int

    @property
    def words(self) -> list[str]:
        return shlex.split(self.text, comments=True)

    @property
    def tool(self) -> str:
        """The program that does the work: the one in `$(…)`, where a variable is set to what that says."""
        inner = re.match(r"[A-Z_]+=\$\((\w+) ", self.text)
        return inner[1] if inner else self.program[0] if self.program else ""

    @property
    def program(self) -> list[str]:
        """Its words, without the variables that are set for it."""
        words = self.words
        while words and _ASSIGNED.match(words[0]):
            words = words[1:]
        return words


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def prose(page: Path) -> str:
    """A page without its blocks."""
    return FENCE.sub("", page.read_text("utf-8"))


def code_spans(page: Path) -> Iterator[str]:
    """What the prose has between backticks."""
    for found in re.finditer(r"`([^`]+)`", prose(page)):
        yield " ".join(found[1].split())


def commands(block: Block) -> Iterator[Command]:
    """The commands of a shell block: a line each, unless it goes on."""
    started, gathered = block.line, ""
    for number, line in enumerate(block.text.splitlines(), block.line):
        if not gathered:
            started = number
        gathered = f"{gathered}\n{line}" if gathered else line
        if not gathered.strip() or gathered.lstrip().startswith("#"):
            gathered = ""
        elif not _goes_on(gathered):
            code = _EXIT.search(gathered)
            yield Command(block.page, started, _EXIT.sub("", gathered), int(code[1]) if code else 0)
            gathered = ""
    assert not gathered, f"{name(block.page)}, line {started}: this command has no end: {gathered}"


def all_commands() -> Iterator[Command]:
    for page in PAGES:
        for block in blocks(page):
            if block.language in SHELL:
                yield from commands(block)


def why_left_out(command: Command) -> str | None:
    """Why a command isn't run here; None if it is."""
    if command.tool in _CLOUD:
        return "needs the cloud"
    words = command.program
    served = words[words.index("--") + 1 :] if "--" in words else []
    match words[:2]:
        case ["git", "clone"]:
            return "fetches the repository"
        case ["docker", *_]:
            return "needs Docker"
        case ["npm", "install"]:
            return "installs; the emulator's tests have the same packages"
        case ["pip", "install"]:
            return "installs; its extras are checked"
        case ["make", "demo"]:
            return "runs in tests/process/test_demo.py"
        case ["make", *_]:
            return "makes an environment; its target is checked"
        case ["python3", "-m", "venv", *_]:
            return "makes an environment"
        case ["uvicorn", *_]:
            return "runs in tests/docs/test_walk.py"
        case ["firecron", "emulator"] if served[:2] == ["firecron", "work"]:
            return "goes on until Ctrl-C"
        case ["firecron", "emulator"] if served[:1] == ["uvicorn"] and command.page.parent != ROOT:
            return "serves until Ctrl-C"
        case ["source", ".venv/bin/activate"]:
            return "is the environment that the tests run in"
        case ["firecron", "emulator"] if served[:1] == ["python"]:
            return "runs in tests/process/test_examples.py"
        case ["firecron", "emulator"] if served[:1] == ["uvicorn"]:
            return "runs in tests/docs/test_walk.py"
        case ["firecron", "emulator"] if not served:
            return "serves until Ctrl-C"
        case ["rtdb-emulator", "exec"]:
            return "needs the Firebase CLI; the emulator's tests run it"
        case ["rtdb-emulator", *_]:
            return "serves until Ctrl-C"
        case ["firecron", _] if {"--watch", "-w"} & {*words}:
            return "goes on until Ctrl-C"
        case _:
            return None


def _goes_on(text: str) -> bool:
    if text.endswith("\\"):
        return True
    try:
        shlex.split(text, comments=True)
    except ValueError:
        return True  # a quotation that is still open
    return False
