"""Views: a command shows one once or, with `--watch`, until Ctrl-C or SIGTERM. The user asked for that end, so the exit
code is 0.

On a terminal the view is redrawn at every look. Elsewhere each change is printed as one or more lines, with `--json` as
one value a line. A look comes as soon as the database reports a change. Where it reports none, because the rules refuse
it, a proxy holds it back or `FIRECRON_WATCH=0`, the looks come at the interval that was asked for. A database that
becomes unreachable is reported once; then it is tried at longer intervals until it can be reached again.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeVar

from rich.text import Text

from firecron.base.clocks import heeding
from firecron.cli.lines import present
from firecron.cli.output import Output, code_of
from firecron.errors import StoreError
from firecron.lock.database import Database
from firecron.lock.waiting import Follow

if TYPE_CHECKING:
    from rich.live import Live

T = TypeVar("T")


class View(Protocol[T]):
    """Something that changes, with the ways to read it and to show it."""

    # Whether the newest lines are at the end. If the text is too long for the terminal, they are kept.
    is_newest_last: ClassVar[bool] = False

    def read(self) -> T: ...

    def show(self, seen: T) -> Text: ...

    def lines(self, last: T | None, seen: T) -> Sequence[Text]:
        """Return what is new since the look `last`, as lines. If `last` is None, everything is new."""

    def value(self, seen: T) -> object:
        """Return the JSON value for programs. It is printed whenever `essence` has changed."""

    def essence(self, seen: T) -> object: ...


def give(
    output: Output,
    view: View[T],
    changes: Changes,
    interval: float,
    *,
    watching: bool,
    check: Callable[[T], None] = lambda seen: None,
) -> None:
    """Show the view until Ctrl-C when watching, else once, unless `check` raises."""
    if watching:
        with changes.followed():
            watch(output, view, interval, changes, changes.are_watched)
        return
    seen = view.read()
    check(seen)
    output.give(view.value(seen), view.show(seen))


def news(
    before: Mapping[str, object], after: Mapping[str, object], line: Callable[[str], Text], gone: str
) -> list[Text]:
    """Return a line with the time for each name that has another value than before, then for each that is gone."""
    lines = [line(name) for name, value in after.items() if before.get(name) != value]
    lines += [Text(f"{name}: {gone}") for name in sorted(before.keys() - after.keys())]
    return [Text(f"{present():%H:%M:%S} ").append(line) for line in lines]


# --- looking again and again

_LONGEST_PAUSE = 30.0


def watch(
    output: Output,
    view: View[T],
    interval: float,
    wait: Callable[[float], None] = time.sleep,
    is_watched: Callable[[], bool] = lambda: False,
) -> None:
    """Show the view until Ctrl-C. Raises StoreError if the first look fails.

    `wait` returns after the interval, or at a change. `is_watched` returns whether changes are reported now.
    """
    last: T | None = None
    failures = 0
    with suppress(KeyboardInterrupt), _ended_by_sigterm(), _screen(output) as screen:
        while True:
            try:
                found = view.read()
            except StoreError as error:
                if last is None:
                    raise
                failures += 1
                delay = heeding(min(interval * 2**failures, max(interval, _LONGEST_PAUSE)), error)
                if screen is not None:
                    trouble = f"{error}\nThe last known state is below; the next try is in {delay:g} s."
                    _draw(screen, Text(trouble, "bold red"), view.show(last), view.is_newest_last)
                elif failures == 1:
                    output.fail(str(error), code_of(error))
                wait(delay)
                continue
            if screen is not None:
                often = "at each change" if is_watched() else f"every {interval:g} s"
                head = Text(f"{often}; press Ctrl-C to end", "dim")
                _draw(screen, head, view.show(found), view.is_newest_last)
            elif last is None or failures or view.essence(found) != view.essence(last):
                _print_change(output, view, last, found, was_away=failures > 0)
            last, failures = found, 0
            wait(interval)


def _print_change(output: Output, view: View[T], last: T | None, found: T, *, was_away: bool) -> None:
    if was_away and not output.as_json:
        output.say("RTDB can be reached again")
    if output.as_json:
        output.give(view.value(found), "")
        return
    for line in view.lines(last, found):
        output.give(None, line)


def _draw(screen: Live, head: Text, text: Text, is_newest_last: bool) -> None:
    """Draw the head, and below it as much of the text as fits."""
    console = screen.console
    first = list(head.wrap(console, console.width))
    lines = list(text.wrap(console, console.width))
    room = max(console.height - len(first) - 2, 1)
    if len(lines) > room:
        more = Text(f"… {len(lines) - room} more lines", "dim")
        lines = [more, *lines[-room:]] if is_newest_last else [*lines[:room], more]
    screen.update(Text("\n").join([*first, *lines]), refresh=True)


@contextmanager
def _screen(output: Output) -> Iterator[Live | None]:
    """Yield a part of the terminal that can be redrawn, or None without a terminal or with `--json`."""
    if output.as_json or not output.out.is_terminal:
        yield None
        return
    # Imported here, because most looks are a single one.
    from rich.live import Live

    with Live(console=output.out, auto_refresh=False) as live:
        yield live


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


# --- waiting for a change

# Seconds between two looks: at least, however much changes; and at most, because what is shown has an age.
_LEAST = 0.2
_MOST = 10.0


class Changes:
    """The changes of some nodes. A call returns when there is one, or when it is time for a look anyway."""

    def __init__(self, database: Database, *paths: str) -> None:
        self._database = database
        self._changed = threading.Condition()
        self._follows = [Follow(path, self._wake) for path in paths]
        self._seen: list[object] = []

    def are_watched(self) -> bool:
        """Whether the database reports all of them now."""
        return all(follow.update is not None for follow in self._follows)

    @contextmanager
    def followed(self) -> Iterator[Changes]:
        try:
            for follow in self._follows:
                self._database.streams.add(follow)
            yield self
        finally:
            for follow in self._follows:
                self._database.streams.discard(follow)

    def __call__(self, seconds: float) -> None:
        """Wait for the next change, or for `seconds` if changes are not reported."""
        if not self._database.streams.can_watch:
            time.sleep(seconds)
            return
        started = time.monotonic()
        with self._changed:
            while (left := self._left(seconds) - (time.monotonic() - started)) > 0:
                self._changed.wait(left)
            self._seen = self._heard()

    def _left(self, seconds: float) -> float:
        if self._heard() != self._seen:
            return min(_LEAST, seconds)
        return max(_MOST, seconds) if self.are_watched() else seconds

    def _heard(self) -> list[object]:
        return [follow.update and follow.update.number for follow in self._follows]

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()
