"""Interrupting firecron at each of its lines, as a signal's handler does: there a given thing happens, once."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import TYPE_CHECKING, TypeAlias

import firecron

if TYPE_CHECKING:
    from _typeshed import TraceFunction

# A file, a line of it, and an instruction of that (0: its first).
Line: TypeAlias = tuple[str, int, int]

PACKAGE = str(Path(firecron.__file__).parent)


def lines_of(call: Callable[[], object], *files: str, since: CodeType | None = None) -> list[Line]:
    """The lines of firecron, and of other files, that this thread comes to in the call, `since` a function's first
    one; each once, in their order.
    """
    lines: dict[Line, None] = {}
    _trace(call, lines.setdefault, files, since)
    return list(lines)


def interrupt(
    call: Callable[[], object], at: Line, then: Callable[[], object], *, since: CodeType | None = None
) -> None:
    """Make the call, and let `then` happen where this thread first comes to that line, if it does."""
    to_come = [then]

    def note(line: Line) -> None:
        if line == at and to_come:
            to_come.pop()()

    _trace(call, note, (at[0],), since)


def instructions_of(call: Callable[[], object], code: CodeType) -> list[Line]:
    """The instructions of this function that this thread comes to in the call, each once, in their order."""
    found: dict[Line, None] = {}
    _trace(call, found.setdefault, (), None, code)
    return list(found)


def interrupt_instruction(call: Callable[[], object], code: CodeType, at: Line, then: Callable[[], object]) -> None:
    """Make the call, and let `then` happen before that instruction of the function, if it comes to it."""
    to_come = [then]

    def note(line: Line) -> None:
        if line == at and to_come:
            to_come.pop()()

    _trace(call, note, (), None, code)


def _trace(
    call: Callable[[], object],
    note: Callable[[Line], object],
    files: tuple[str, ...],
    since: CodeType | None,
    only: CodeType | None = None,
) -> None:
    """Note the lines of firecron and of these files; or only the instructions of one function."""
    has_begun = since is None
    kind = "line" if only is None else "opcode"

    def enter(frame: FrameType, event: str, argument: object) -> TraceFunction | None:
        nonlocal has_begun
        if only is not None:
            if frame.f_code is not only:
                return None
            frame.f_trace_opcodes = True
            # Python 3.12 looks at this when it is told again to trace, 3.13 when the frame's function is set.
            sys.settrace(enter)
            frame.f_trace = look
            return look
        name = frame.f_code.co_filename
        has_begun = has_begun or frame.f_code is since
        return look if name.startswith(PACKAGE) or name in files else None

    def look(frame: FrameType, event: str, argument: object) -> TraceFunction:
        if event == kind and has_begun:
            # A block under `with` comes to its line once more at the end, where Python hears of no signal.
            note((frame.f_code.co_filename, frame.f_lineno, 0 if only is None else frame.f_lasti))
        return look

    before = sys.gettrace()
    with without_collector():
        sys.settrace(enter)
        try:
            call()
        finally:
            sys.settrace(before)


@contextmanager
def without_collector() -> Iterator[None]:
    """Collect no garbage: what that calls (`flag.in_each_child` forgets a part) would be lines of whatever goes on."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
