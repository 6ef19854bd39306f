"""Record `firecron demo` in a pseudo-terminal and draw the recording as docs/pictures/demo.svg: `make demo-svg`.

The recording is what happened: winners, times and the emulator's port differ from one recording to the next. The
drawing is a function of the recording: the same lines give the same file. The picture begins with all lines, for
three seconds. Then it replays them once, at four times their speed; without animations, they just stay.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Final

import pexpect
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "pictures" / "demo.svg"
COMMAND = "firecron demo"
COLUMNS = 76
LONGEST = 120.0
SPEED = 4
# Seconds: how long the whole picture stands before the replay.
STANDS = 3

# The eight colours of a terminal. Each has a contrast to the background of 4.5:1 or better, white also where it is dim.
COLOURS = [
    (13, 17, 23),
    (255, 123, 114),
    (86, 211, 100),
    (227, 179, 65),
    (121, 192, 255),
    (219, 145, 255),
    (86, 212, 221),
    (230, 237, 243),
]
THEME: Final = TerminalTheme((13, 17, 23), (230, 237, 243), COLOURS, COLOURS)

# Rich's own frame without its web font, which an image may not load. An animation hides each line until it came.
FRAME: Final = """\
<svg viewBox="0 0 {width} {height}" width="{width}" xmlns="http://www.w3.org/2000/svg" aria-labelledby="title">
<title id="title">A recording of TITLE</title>
<style>
.{unique_id}-matrix {{ font: {char_height}px ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace }}
.{unique_id}-title {{ font: 16px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; opacity: 0.7 }}
{styles}
@media (prefers-reduced-motion: no-preference) {{
text[clip-path] {{ animation: {unique_id}-hidden 0s linear STANDSs }}
HIDDEN
}}
@keyframes {unique_id}-hidden {{ from, 97% {{ opacity: 0 }} }}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal"><rect width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


@dataclass(frozen=True)
class Line:
    """A line of the terminal, with its escape sequences, and the seconds from the start until it came."""

    at: float
    text: str


def record(command: Sequence[str]) -> list[Line]:
    """What a command writes to a terminal. SystemExit if the command fails."""
    environment = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8"}
    environment.pop("NO_COLOR", None)
    began = time.monotonic()
    lines = []
    with pexpect.spawn(
        command[0],
        list(command[1:]),
        dimensions=(50, COLUMNS),
        encoding="utf-8",
        env=environment,
        timeout=LONGEST,
    ) as terminal:
        while text := terminal.readline():
            lines.append(Line(round(time.monotonic() - began, 2), text.rstrip("\r\n")))
        terminal.close()
        if terminal.exitstatus != 0:
            sys.exit(f"{' '.join(command)} ended with {terminal.exitstatus}: nothing was drawn")
    return lines


def picture(lines: Sequence[Line]) -> str:
    """The SVG of a recording."""
    console = Console(record=True, width=COLUMNS, file=StringIO(), force_terminal=True, color_system="truecolor")
    console.print(Text.assemble(("$ ", "bold green"), (COMMAND, "bold")))
    for line in lines:
        console.print(Text.from_ansi(line.text) if line.text else "")
    console.print()  # Rich clips each line but the last one.
    first = lines[0].at if lines else 0.0
    # Row 0 is the command, which is never hidden.
    hidden = "\n".join(
        f'text[clip-path="url(#demo-line-{row})"] {{{{ animation-duration: {0.5 + (line.at - first) / SPEED:.2f}s }}}}'
        for row, line in enumerate(lines, 1)
        if line.text
    )
    frame = FRAME.replace("HIDDEN", hidden).replace("TITLE", COMMAND).replace("STANDS", str(STANDS))
    svg = console.export_svg(title=COMMAND, theme=THEME, code_format=frame, unique_id="demo")
    # Rich draws the ends of the lines as well.
    return re.sub(r"<text[^>]*>\n</text>", "", svg)


def main() -> None:
    lines = record([sys.executable, "-m", *COMMAND.split()])
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(picture(lines), "utf-8")
    print(f"{PICTURE.name}: {len(lines)} lines in {lines[-1].at:.0f} s")


if __name__ == "__main__":
    main()
