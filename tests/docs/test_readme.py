"""What the repository says of itself is true: the README's first page, Pythons, commands; and lists stay lists."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any, cast
from urllib.parse import unquote

import pytest
import yaml
from tests.docs.documents import PAGES, ROOT, TEXTS, name, prose
from tools.pythons import minors

from firecron import FireCron
from rtdb_emulator_tests.helpers.markdown import blocks

PAGE = ROOT / "README.md"
GUARANTEE_PAGE = ROOT / "docs" / "explanation" / "guarantee.md"
TEXT = PAGE.read_text("utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
BADGES = dict(re.findall(r"https://img\.shields\.io/badge/([^-]+)-(.+)-blue\)", TEXT))

GUARANTEE = """
*A tick is started at most once, on one instance, as long as RTDB answers truthfully, instance clocks do not run at
wildly different speeds, nobody deletes the job's node by hand, and no NestJS original shares it; `retries` and
`on_abandoned="rerun"` start it again because you asked. It is not exactly-once: a process can be frozen past its lease,
so a job that moves money must also check its fencing token or be idempotent, and firecron hands it both.*
"""


def test_the_badges_are_true() -> None:
    """The badges have the versions and the licence of the project, and both packages are marked as typed."""
    versions = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert unquote(BADGES["python"]).split(" | ") == versions
    assert BADGES["licence"].replace("--", "-") == PROJECT["license"]
    assert unquote(BADGES["typed"]) == "mypy strict"
    assert all((ROOT / folder / "py.typed").exists() for folder in ("src/firecron", "emulator/rtdb_emulator"))


@pytest.mark.parametrize("page", [PAGE, GUARANTEE_PAGE], ids=name)
def test_the_guarantee_is_in_these_words(page: Path) -> None:
    """The guarantee is a paragraph of its own, in the words that the project promises; its page has three rules."""
    section = page.read_text("utf-8").partition("# The guarantee\n")[2]
    assert GUARANTEE.split() in [paragraph.split() for paragraph in section.split("\n\n")]
    rules = section.partition("## Three rules\n")[2].partition("\n## ")[0]
    assert page == PAGE or len(re.findall(r"^\* ", rules, re.MULTILINE)) == 3


def test_the_original_is_introduced() -> None:
    """The section that introduces the NestJS original links to its description; the guarantee's section links there."""
    origin = TEXT.partition("\n## Origin and status\n")[2]
    assert "https://www.kanishksachdev.com/blog/distributed-cron" in origin
    assert "*the NestJS original*" in " ".join(origin.split())
    assert (
        "[The NestJS original](#origin-and-status)" in TEXT.partition("\n## The guarantee\n")[2].partition("\n## ")[0]
    )


def test_the_readme_is_short() -> None:
    """A visitor's page has 170 lines at most."""
    assert len(TEXT.splitlines()) <= 170


@pytest.mark.usefixtures("logging_as_before")
def test_the_snippet_writes_the_output_below_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rehearsed at its tick, the snippet writes the block below it, but for times, durations and fields."""
    snippet, output = next(
        (one, other) for one, other in pairwise(blocks(PAGE)) if (one.language, other.language) == ("python", "text")
    )
    module = ModuleType("snippet")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    written = StringIO()
    with redirect_stdout(written), redirect_stderr(written):
        exec(compile(snippet.text, str(PAGE), "exec"), vars(module))
        crons = cast("FireCron", vars(module)["crons"])
        with crons.testing("2026-11-18T13:59:59Z") as test:
            test.move_to("2026-11-18T14:00:00Z")
    assert masked(written.getvalue()) == masked(output.text)


def masked(text: str) -> str:
    """A log without its times, its durations and the fields after a slug."""
    text = re.sub(r"^\d{4}-\d\d-\d\dT[\d:.]+Z", "<time>", text, flags=re.MULTILINE)
    return re.sub(r"after [\d.]+ s", "after … s", re.sub(r"\[([a-z.]+) [^\]]*\]", r"[\1 …]", text))


WORKFLOWS = {path.stem: path.read_text("utf-8") for path in sorted((ROOT / ".github" / "workflows").glob("*.yml"))}
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))


def jobs(workflow: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(WORKFLOWS[workflow])["jobs"]
    return found


def test_the_pythons_are_the_same_everywhere() -> None:
    """The classifiers, the matrix, the README's badge and sentence, and the page about versions name the same ones."""
    assert jobs("ci")["linux"]["strategy"]["matrix"]["python"] == minors()
    readme = PAGES[0].read_text("utf-8")
    assert f"[![Python {' | '.join(minors())}]" in readme
    assert f"python-{'%20%7C%20'.join(minors())}-blue" in readme
    said = f"{', '.join(minors()[:-1])} and {minors()[-1]}"
    assert f"tested on Python {said};" in readme
    assert f"The tests run on Python {said}" in (ROOT / "docs" / "reference" / "versions.md").read_text("utf-8")


def test_the_workflows_run_what_the_makefile_has() -> None:
    """Each `make` of a workflow is a target, and the first workflow calls `.ci/run`."""
    assert [step["run"] for step in jobs("ci")["linux"]["steps"] if "run" in step] == ["bash .ci/run"]
    nightly = jobs("nightly")["long"]["strategy"]["matrix"]["target"]
    named = [
        re.findall(r"run: make .*?\b([a-z-]+)$", text.replace('"', ""), re.MULTILINE) for text in WORKFLOWS.values()
    ]
    called = {target for targets in named for target in targets} | set(nightly)
    assert called - TARGETS == set()
    assert {"test", "test-lowest", "mutations", "simulate", "fleet", "bench"} <= called
    assert "run: make build TAG=" in WORKFLOWS["release"]


def test_an_install_from_a_checkout_names_the_emulator_too() -> None:
    """Before a release no index has it, so what installs firecron from a checkout installs that folder as well."""
    hosted = yaml.safe_load((ROOT / ".readthedocs.yaml").read_text("utf-8"))["python"]["install"]
    assert [step["path"] for step in hosted] == ["emulator", "."]
    for line in (ROOT / "Makefile").read_text("utf-8").splitlines():
        if "'.[dev]'" in line:
            assert "-e ./emulator -e '.[dev]'" in line, line
    for page in PAGES:
        for line in page.read_text("utf-8").splitlines():
            if re.match(r"pip install .*\./firecron\[.*emulator", line):
                assert "./firecron/emulator" in line, f"{name(page)}: {line}"


def test_only_the_job_that_publishes_may_identify_itself() -> None:
    """No other job gets a token of the index, and no job gets more than it needs by default."""
    for workflow, text in WORKFLOWS.items():
        assert yaml.safe_load(text)["permissions"] == {}
        asking = {name for name, job in jobs(workflow).items() if "id-token" in job["permissions"]}
        assert asking == ({"emulator", "publish"} if workflow == "release" else set())


def test_the_emulator_is_published_first() -> None:
    """Each distribution is published alone, and firecron after the emulator, which an extra of it needs."""
    release = jobs("release")
    folders = [release[name]["steps"][-1]["with"]["packages-dir"] for name in ("emulator", "publish")]
    assert folders == ["dist/rtdb-emulator/", "dist/firecron/"]
    assert (release["publish"]["needs"], release["emulator"]["needs"]) == ("emulator", "build")


def test_the_quick_start_is_on_the_site_as_well() -> None:
    """The site's page has the README's words and blocks, but for the addresses of links."""
    section = TEXT.partition("\n## Quick start\n\n")[2].partition("\n## ")[0]
    page = Path(ROOT, "docs", "tutorial", "quick-start.md").read_text("utf-8")
    address = re.compile(r"\]\([^)]+\)")
    assert address.sub("]", section).strip() in address.sub("]", page)


def test_the_repository_has_one_address() -> None:
    """Every address of the repository, in each text and workflow, is the one that the project's metadata name."""
    home = PROJECT["urls"]["Homepage"]
    texts = [*TEXTS, *ROOT.glob(".github/**/*.yml"), ROOT / "pyproject.toml"]
    named = {
        found
        for text in texts
        for found in re.findall(r"https://github\.com/[\w-]+/firecron\b", text.read_text("utf-8"))
    }
    assert named == {home}


ITEM = re.compile(r"\s*(?:[-*+]|\d+\.)\s+\S")
# An item's mark behind the end of a sentence, with a new sentence after it.
INLINE_CODE = re.compile(r"`[^`]*`")  # a cron line has stars, and may have H(1-5) before them
SWALLOWED = re.compile(r"[.:;)] [-*+] +[A-Z`*\[]")


def broken(text: str) -> Iterator[str]:
    """The lines of a text in which a list is broken: they go on with an item without its indent, or swallow one."""
    is_in_item = False
    for line in text.splitlines():
        is_item = bool(ITEM.match(line))
        if SWALLOWED.search(INLINE_CODE.sub("``", line)) or (
            is_in_item and line.strip() and not is_item and not line.startswith(" ")
        ):
            yield line
        is_in_item = bool(line.strip()) and (is_in_item or is_item)


def test_lists_stay_lists() -> None:
    """No item of a list stands in the middle of a line, and each line of an item is indented."""
    assert [(name(page), line) for page in TEXTS for line in broken(prose(page))] == []


def test_a_list_that_was_filled_into_a_paragraph_is_found() -> None:
    """Both traces of it: a line that swallowed an item, and one that goes on without an indent."""
    assert list(broken("- One thing. - Another\n  thing.\n")) == ["- One thing. - Another"]
    assert list(broken("- One thing that\ngoes on.\n\nA text.\n")) == ["goes on."]
    assert list(broken("Text:\n* a - b\n  c\n\n1. d\n   e\n2. f\n\n  - g\n    h\n\ntext\n")) == []


def test_the_changelogs_entries_are_items() -> None:
    """Each section of changes is a list, an item a change."""
    text = Path(ROOT, "CHANGELOG.md").read_text("utf-8")
    sections = re.findall(r"^### .*\n\n((?:.+\n)+)", text, re.MULTILINE)
    assert sections
    assert all(section.startswith("- ") for section in sections)
