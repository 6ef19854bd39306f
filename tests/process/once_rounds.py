"""Rounds of many processes that do the same work once, while some of them are killed: a test's, or a loop's.

`make once` plays many of them, each from a seed that it prints; `make once SEED=7` plays that one again. What a seed
decides is who is killed and how soon: the order of the processes is the machine's.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from rtdb_emulator import Emulator

PROGRAM = Path(__file__).with_name("once_crowd.py")
NUMBER = 20
TTL = 0.6
# Seconds: a round takes about two, and what hangs is killed then.
BOUND = 40.0


@dataclass
class Round:
    """What the processes have said, and when each was killed, on this machine's monotonic clock."""

    said: list[dict[str, Any]] = field(default_factory=list)
    killed: dict[int, float] = field(default_factory=dict)

    def of(self, what: str) -> list[dict[str, Any]]:
        return [line for line in self.said if line["what"] == what]

    def problems(self) -> Iterator[str]:
        """Yield what must not be."""
        begun = self.of("begins")
        ends = {line["pid"]: line["at"] for line in self.of("ends")}
        for first, then in pairwise(begun):
            over = min(ends.get(first["pid"], float("inf")), self.killed.get(first["pid"], float("inf")))
            if then["at"] < over:
                yield f"{then['pid']} began at {then['at']}, while {first['pid']} was at it until {over}"
        told = self.of("told")
        if {line["pid"] for line in told} | self.killed.keys() != {
            line["pid"] for line in self.said
        } | self.killed.keys():
            yield f"some were told nothing: {self.of('failed')}"
        if len({(line["result"]["pid"], line["done"], line["by"]) for line in told}) != 1:
            yield f"they were told different things: {told}"
        elif begun[-1]["pid"] != told[0]["result"]["pid"]:
            yield f"{begun[-1]['pid']} began after {told[0]['result']['pid']} had recorded"


def play(seed: int) -> Round:
    """Play one round, against an emulator of its own."""
    chance = random.Random(seed)
    to_die = chance.choice([1, 2])  # of those that begin the work, at it
    at_its_end = chance.random() < 0.5  # one more, about when it records
    played = Round()
    with Emulator() as emulator:
        environment = {**os.environ, "FIREBASE_DATABASE_EMULATOR_HOST": emulator.host}
        environment.pop("FIRECRON_DATABASE_URL", None)
        command = [sys.executable, str(PROGRAM), str(NUMBER), str(TTL), str(to_die)]
        with subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
        ) as crowd:
            watchdog = threading.Timer(BOUND, os.killpg, (crowd.pid, signal.SIGKILL))
            watchdog.start()
            try:
                assert crowd.stdout is not None
                for text in crowd.stdout:
                    line = json.loads(text)
                    if line["what"] == "over":
                        break
                    played.said.append(line)
                    if line["what"] == "begins" and line["dies"]:
                        _kill(played, line["pid"])
                        others = _others(crowd.pid, played)
                        for pid in chance.sample(others, min(3, len(others))):
                            _kill(played, pid)
                    elif line["what"] == "ends" and at_its_end:
                        at_its_end = False
                        time.sleep(chance.uniform(0, 0.01))
                        _kill(played, line["pid"])
            finally:
                watchdog.cancel()
                with suppress(ProcessLookupError):
                    os.killpg(crowd.pid, signal.SIGKILL)
    return played


def _kill(played: Round, pid: int) -> None:
    os.kill(pid, signal.SIGKILL)  # one of the crowd's, which waits for none of them before all have ended
    played.killed.setdefault(pid, time.monotonic())


def _others(crowd: int, played: Round) -> list[int]:
    """The crowd's processes that have not been killed, in the order in which they were begun."""
    children = Path(f"/proc/{crowd}/task/{crowd}/children").read_text().split()
    return [int(pid) for pid in children if int(pid) not in played.killed]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--seed", type=int, help="play this one alone")
    options = parser.parse_args()
    seeds = range(options.rounds) if options.seed is None else [options.seed]
    for seed in seeds:
        played = play(seed)
        problems = list(played.problems())
        print(
            f"seed {seed}: {len(played.of('begins'))} calls, {len(played.killed)} killed, {len(played.of('told'))} told"
        )
        if problems:
            print(*problems, *played.said, sep="\n")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
