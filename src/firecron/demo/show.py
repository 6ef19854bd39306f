"""The demonstration's output: a line per tick, with what each instance did, and the count at the end."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import TypeAlias

from rich.console import Console
from rich.table import Table

from firecron.cron.schedule import Schedule
from firecron.demo.instance import JOB, LINE
from firecron.runs.entry import read_entry
from firecron.store import Paths
from rtdb_emulator import Emulator

NAMESPACE = "firecron-demo"
INSTANCES = ("api-1", "api-2", "api-3")
COLOURS = dict(zip(INSTANCES, ("cyan", "magenta", "yellow"), strict=True))
LONGEST = 55.0
_LOST = {"held", "slot_done"}

Processes: TypeAlias = dict[str, subprocess.Popen[str]]
# Each line is an event of the instance of that name.
Lines: TypeAlias = queue.Queue[tuple[str, dict[str, object]]]


@dataclass
class ShownTick:
    """What is known about one slot."""

    slot: str
    winner: str = ""
    losers: set[str] = field(default_factory=set)
    attempt: int = 1
    is_over: bool = False


@dataclass(frozen=True)
class ShownCount:
    """The count of what the database holds at the end.

    `takeover` is the time in seconds from the kill until another instance took the run over.
    """

    slots: int
    runs: int
    duplicates: int
    missed: int
    takeover: float | None

    @property
    def is_right(self) -> bool:
        return self.slots > 0 and self.duplicates == self.missed == 0 and self.takeover is not None


def run(ticks: int, *, as_json: bool = False) -> int:
    """Play the demonstration; return its exit code: 0 if each slot ran once, and the killed run was taken over.

    `ticks` is the number of ticks to play. With `as_json`, standard output has only the count, as JSON.
    """
    console = Console(highlight=False, stderr=as_json)
    with Emulator() as emulator:
        console.print(f"[bold]firecron[/]: one job, [bold]{LINE}[/], on three instances")
        console.print(f"[dim]each instance is a process; the lock is in an emulator at {emulator.host}[/]\n")
        show = Show(console, ticks)
        with instances(emulator) as (processes, lines):
            show.play(processes, lines)
        count = summarise(console, emulator, show)
    if as_json:
        print(json.dumps(asdict(count)), flush=True)
    return 0 if count.is_right else 1


@contextmanager
def instances(emulator: Emulator) -> Iterator[tuple[Processes, Lines]]:
    """Start the instances; yield their processes by name, and the queue of their events."""
    environment = {
        **os.environ,
        "FIREBASE_DATABASE_EMULATOR_HOST": emulator.host,
        "FIRECRON_DATABASE_URL": emulator.database_url(NAMESPACE),
        "FIRECRON_MARGIN": "0.2",
        "FIRECRON_REQUEST_TIMEOUT": "1",
        "RUNTIME_INSTANCE": "production",
        "K_REVISION": "demo-00001-abc",
    }
    lines: Lines = queue.Queue()
    processes: Processes = {}
    try:
        for name in INSTANCES:
            command = [sys.executable, "-m", "firecron.demo.instance", name]
            process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)  # noqa: S603
            processes[name] = process
            threading.Thread(target=_listen, args=(name, process, lines), daemon=True).start()
        yield processes, lines
    finally:
        for process in processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in processes.values():
            try:
                process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class Show:
    """Prints a line for each tick, as soon as its run has succeeded."""

    def __init__(self, console: Console, ticks: int) -> None:
        self._console = console
        self._wanted = ticks
        self._ticks: dict[str, ShownTick] = {}
        self._alive = set(INSTANCES)
        self.taken_over_after: float | None = None
        self._killed_at = 0.0

    def play(self, processes: Processes, lines: Lines) -> None:
        ends = time.monotonic() + LONGEST
        over = 0
        while over < self._wanted and (left := ends - time.monotonic()) > 0:
            try:
                name, event = lines.get(timeout=left)
            except queue.Empty:
                return  # it has lasted long enough
            self._hear(name, event)
            over = sum(tick.is_over for tick in self._ticks.values())
            if not self._killed_at and event["slug"] == "run.started" and over >= self._wanted // 2:
                processes[name].kill()
                self._note_kill(name, str(event["slot"]))

    def _hear(self, name: str, event: dict[str, object]) -> None:
        slot = event.get("slot")
        if not isinstance(slot, str) or event.get("name") != JOB:
            return
        tick = self._ticks.setdefault(slot, ShownTick(slot))
        match event["slug"]:
            case "run.started":
                tick.winner, tick.attempt = name, int(str(event["attempt"]))
                if tick.attempt > 1:
                    self.taken_over_after = round(time.monotonic() - self._killed_at, 3)
                    text = f"↻ {name} takes the run over {self.taken_over_after:.1f} s later: the lock has expired"
                    self._console.print(f"  {_clock(tick.slot)}   [bold green]{text}[/]")
            case "lock.refused" if event.get("reason") in _LOST and name != tick.winner:
                tick.losers.add(name)
            case "run.succeeded":
                tick.is_over = True
                self._print(tick)

    def _print(self, tick: ShownTick) -> None:
        cells = []
        for name in INSTANCES:
            if name == tick.winner:
                again = f" (attempt {tick.attempt})" if tick.attempt > 1 else ""
                cells.append(f"[bold {COLOURS[name]}]● {name} ran it{again}[/]")
            elif name not in self._alive:
                cells.append(f"[dim]✗ {name} is dead[/]")
            else:
                cells.append(f"[dim]○ {name} skipped[/]" if name in tick.losers else f"[dim]· {name}[/]")
        self._console.print(f"  {_clock(tick.slot)}   " + "   ".join(cells))

    def _note_kill(self, name: str, slot: str) -> None:
        self._killed_at = time.monotonic()
        self._alive.discard(name)
        self._console.print(f"  {_clock(slot)}   [bold red]✗ {name} is killed during its run[/]")


def summarise(console: Console, emulator: Emulator, show: Show) -> ShownCount:
    """Print the table, and return the count, from what the database holds."""
    path = Paths().runs_of(JOB)
    history = emulator.get(NAMESPACE, f"/{path}")
    digests = emulator.get(NAMESPACE, "/digests")
    entries = [read_entry(key, node) for key, node in history.items()] if isinstance(history, dict) else []
    written = [len(found) for found in digests.values()] if isinstance(digests, dict) else []
    outcomes = Counter(entry.outcome for entry in entries)
    slots = _slots(sorted(entry.slot for entry in entries if entry.slot is not None))
    count = ShownCount(
        slots, sum(written), sum(number - 1 for number in written), slots - len(written), show.taken_over_after
    )
    table = Table(title="read from the database", title_style="dim", show_edge=False, pad_edge=False)
    row = {"slots": count.slots, "runs": count.runs, "duplicates": count.duplicates, "missed": count.missed}
    for title in row:
        table.add_column(title, justify="right")
    table.add_row(*map(str, row.values()))
    console.print()
    console.print(table)
    others = ", ".join(f"{number} {outcome}" for outcome, number in sorted(outcomes.items()))
    console.print(f"\n[dim]{path}: {others}[/]")
    return count


def _slots(found: list[str]) -> int:
    """Return the number of ticks that the schedule has from the first to the last known slot."""
    if not found:
        return 0
    first, last = (datetime.fromisoformat(slot) for slot in (found[0], found[-1]))
    return 1 + sum(1 for _ in Schedule(LINE).between(first, last))


def _clock(slot: str) -> str:
    return f"{datetime.fromisoformat(slot):%H:%M:%S}"


def _listen(name: str, process: subprocess.Popen[str], lines: Lines) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        lines.put((name, json.loads(line)))
