"""A page of Markdown, taken apart into its fenced blocks.

A block is a file of the page's own folder if the text above it says so ("Save this as `main.py`:").
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

FENCE = re.compile(r"^(?P<indent> *)```(?P<language>[^\n`]*)\n(?P<text>.*?)^(?P=indent)```$", re.DOTALL | re.MULTILINE)

_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_SAVED = re.compile(r"`([\w-]+\.\w+)`:\s*$")


@dataclass(frozen=True)
class Block:
    """A fenced block; `line` is the page's line that its text begins at, `file` what it is to be saved as.

    `section` is the heading above it.
    """

    page: Path
    section: str
    line: int
    language: str
    text: str
    file: str | None


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text("utf-8")
    for found in FENCE.finditer(text):
        line = text.count("\n", 0, found.start("text")) + 1
        saved = _SAVED.search(text[: found.start()])
        language = found["language"].strip()
        headings = _HEADING.findall(FENCE.sub("", text[: found.start()]))
        yield Block(page, headings[-1] if headings else "", line, language, dedent(found["text"]), saved and saved[1])
