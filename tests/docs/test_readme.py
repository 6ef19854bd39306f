"""The README's first page: its badges, its guarantee and the output that it shows are true."""

from __future__ import annotations

import re
import sys
import tomllib
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from itertools import pairwise
from types import ModuleType
from typing import cast
from urllib.parse import unquote

import pytest
from tests.docs.documents import ROOT, blocks

from firecron import FireCron

PAGE = ROOT / "README.md"
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


def test_the_guarantee_is_in_these_words() -> None:
    """The guarantee is a paragraph of its own, in the words that the project promises, with three rules below it."""
    section = TEXT.partition("\n## The guarantee\n")[2].partition("\n## ")[0]
    assert GUARANTEE.split() in [paragraph.split() for paragraph in section.split("\n\n")]
    assert len(re.findall(r"^\* ", section, re.MULTILINE)) == 3


def test_the_original_is_introduced_where_it_is_first_named() -> None:
    """The first paragraph that names the NestJS original links to its description."""
    first = next(paragraph for paragraph in TEXT.split("\n\n") if "NestJS" in paragraph)
    assert "https://www.kanishksachdev.com/blog/distributed-cron" in first
    assert "*the NestJS original*" in " ".join(first.split())


def test_the_readme_is_short() -> None:
    """A visitor's page has 250 lines at most."""
    assert len(TEXT.splitlines()) <= 250


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
