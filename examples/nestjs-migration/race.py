"""The same job in the NestJS original and in firecron, again and again: never both at the same time.

The umpire is a file that a run creates exclusively, and removes when it is done: creating it fails while another run is
at work. The journal beside it has a letter for each run.
"""

from __future__ import annotations

import random
import time
from pathlib import Path

from original import Original

from firecron import FireCron, Run, distributed_cron

RUNS = 500
# Seconds at most between two tries, so that the original has its turns.
PAUSE = 0.005


def race(original: Original, folder: Path, name: str, runs: int = RUNS) -> tuple[int, int]:
    """Have both run the job, `runs` times in all. Return how often the original ran it, and how often firecron.

    Raise RuntimeError, or SystemExit if the original has ended, if a run began while another one was at work.
    """
    journal, working = folder / "journal", folder / "working"
    journal.touch()
    done = 0

    @distributed_cron(name, "0 9 * * *", once_per_tick=False)
    def job(run: Run) -> None:
        nonlocal done
        working.touch(exist_ok=False)
        done = journal.stat().st_size
        if done < runs:
            with journal.open("a") as file:
                file.write("f")
        working.unlink()

    crons = FireCron(job, enabled=False)
    original.tell("race", name=name, folder=str(folder), runs=runs)
    while done < runs:
        result = crons.registry.trigger(name)
        if result.run is not None and result.outcome != "succeeded":
            raise RuntimeError(f"{result.run} {result.outcome}") from result.error
        time.sleep(PAUSE * random.random())
    crons.stop()
    original.hear()
    letters = journal.read_text("utf-8")
    return letters.count("o"), letters.count("f")
