"""Lists in Markdown stay lists when a paragraph is filled anew."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.docs.documents import ROOT, TEXTS, name, prose

ITEM = re.compile(r"\s*(?:[-*+]|\d+\.)\s+\S")
# An item's mark behind the end of a sentence, with a new sentence after it.
SWALLOWED = re.compile(r"[.:;)] [-*+] +[A-Z`*\[]")


def broken(text: str) -> Iterator[str]:
    """The lines of a text in which a list is broken: they go on with an item without its indent, or swallow one."""
    is_in_item = False
    for line in text.splitlines():
        is_item = bool(ITEM.match(line))
        if SWALLOWED.search(line) or (is_in_item and line.strip() and not is_item and not line.startswith(" ")):
            yield line
        is_in_item = bool(line.strip()) and (is_in_item or is_item)


@pytest.mark.parametrize("page", TEXTS, ids=name)
def test_lists_stay_lists(page: Path) -> None:
    """No item of a list stands in the middle of a line, and each line of an item is indented."""
    assert list(broken(prose(page))) == []


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
