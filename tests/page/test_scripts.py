"""The page's scripts: their types by TypeScript's compiler, and their pure parts by Node's own test runner."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import firecron.page
from firecron.page.messages import FILES
from rtdb_emulator_tests.helpers.nodejs import needed

SCRIPTS = Path(__file__).parent / "scripts"
STATIC = Path(firecron.page.__file__).parent / "static"
PACKAGES = Path(__file__).parents[1] / "node"
COMPILER = PACKAGES / "node_modules" / "typescript" / "bin" / "tsc"
# They know no element and no window: Node.js has neither.
PURE = ("axis.js", "deeds.js", "legend.js", "list.js", "runs.js", "strip.js", "time.js", "words.js")


@pytest.fixture(scope="module")
def node() -> str:
    """The Node.js of `make node`; without it, the test is skipped."""
    return needed(PACKAGES)


def ran(*command: str) -> str:
    """What the command prints, which has to succeed."""
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_their_types_are_right(node: str) -> None:
    """`tsc --checkJs` finds nothing: each name is imported and used, and each fact has the field that is read of it."""
    assert ran(node, str(COMPILER), "-p", str(SCRIPTS)) == ""


def test_the_pure_parts_do_what_they_say(node: str, tmp_path: Path) -> None:
    """The tests in `scripts/` pass, by `node --test`, beside copies of the pure parts alone."""
    for path in (*SCRIPTS.glob("*.js"), *(STATIC / name for name in PURE)):
        shutil.copy(path, tmp_path)
    (tmp_path / "package.json").write_text('{"type": "module"}', "utf-8")
    said = ran(node, "--test", "--test-reporter=tap", *map(str, tmp_path.glob("*.test.js")))
    assert re.search(r"^# pass [1-9]", said, re.MULTILINE)


def modules(name: str) -> set[str]:
    """The module of this name, and all that it imports at once."""
    found, left = set[str](), [name]
    while left:
        one = left.pop()
        if one not in found:
            found.add(one)
            left += re.findall(r'^import .*from "\./(.*)"', (STATIC / one).read_text("utf-8"), re.MULTILINE)
    return found


def test_a_browser_is_told_of_all_modules_at_once() -> None:
    """The page's HTML names each module that the page begins with, so none waits until another one imports it."""
    named = re.findall(r'(?:href|src)="(\w+\.js)"', (STATIC / "page.html").read_text("utf-8"))
    assert sorted(named) == sorted(modules("page.js"))


def test_each_view_is_small() -> None:
    """What a browser loads to show a view is 80 KB at most, before it is compressed."""
    files = {file for file in FILES.values() if not file.endswith(".js")} | modules("page.js")
    views = re.findall(r"import\(`\./(.*)\$", (STATIC / "page.js").read_text("utf-8"))
    loaded_when_used = {"acts.js"}  # the dialogs, once somebody chooses an act
    parts = {"job.js": "entries.js"}  # the page of a stored job has its schedules as well
    shown = {one for view in ["page.js", *views, *parts.values()] for one in modules(view)}
    assert shown | loaded_when_used == {*filter(_is_script, FILES.values())}
    for view in ["page.js", *views]:
        loaded = files | modules(view) | modules(parts.get(view, view))
        assert sum((STATIC / file).stat().st_size for file in loaded) <= 80_000, view


def _is_script(file: str) -> bool:
    return file.endswith(".js")


def test_a_pure_part_imports_only_pure_parts() -> None:
    """None of them imports a part that knows the window."""
    for name in PURE:
        imported = re.findall(r'from "\./(.*)"', (STATIC / name).read_text("utf-8"))
        assert set(imported) <= set(PURE), name


def test_a_file_is_short() -> None:
    """A script has fewer than 400 lines."""
    for path in STATIC.glob("*.js"):
        assert len(path.read_text("utf-8").splitlines()) < 400, path.name
