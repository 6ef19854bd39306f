"""Plays seeds: `python -m tests.simulation --seeds 1000 --first 5000`, or one with its timeline: `--seed 5042`.

    --seeds N      play so many seeds, from --first on; print each that breaks the contract, and seeds a second
    --seed N       play this one, and print its timeline
    --machines N   fleets of so many machines
    --contenders N FIRECRON_CONTENDERS of all machines; without it, 3 for odd seeds and 0 for even ones
    --pairs        play each seed with FIRECRON_CONTENDERS=3 and 0: tickets must miss no tick that is run with 0
    --rows N       play the fleets of `fleets/rows.py` of up to N machines, and print what a tick costs
    --breaks       play seeds against each deliberate break until it is found; with a number, against that one
    --jobs N       in so many processes

Seeds from 1000000 on also have recorded steps, ticks at even distances, and runs that are cancelled. From 2000000 on
they are the worlds of `fleets/wider.py`, in turn, from 3000000 on worlds of leaders, from 4000000 on worlds with stored
schedules, and from 5000000 on worlds with holds, and with asks for runs.

The exit code is 1 if a seed breaks the contract, or a break is not found.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple, cast

from tests.simulation.breaks import BREAKS
from tests.simulation.loading import Engine
from tests.simulation.table import show

# The collector is off while a seed is played.
_COLLECT_EVERY = 20
_MOST_SEEDS = 200
_SAID_EVERY = 1_000


class Found(NamedTuple):
    """A seed that was played, and what it violated."""

    seed: int
    violations: tuple[str, ...]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=_some, default=200)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--machines", type=int)
    parser.add_argument("--contenders", type=int)
    parser.add_argument("--pairs", action="store_true")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--breaks", type=int, nargs="?", const=-1)
    parser.add_argument("--jobs", type=int, default=2)
    asked = parser.parse_args()
    if asked.seed is not None:
        return _show(asked.seed, asked.machines, asked.contenders)
    if asked.rows is not None:
        return show(asked.rows, asked.first, asked.jobs)
    if asked.breaks is not None:
        return _find_breaks(asked.breaks, asked.first, asked.jobs)
    return _play_many(asked.first, asked.seeds, asked.machines, asked.contenders, asked.jobs, are_pairs=asked.pairs)


def seeds_played(
    engine: Engine,
    seeds: range,
    machines: int | None = None,
    contenders: int | None = None,
    row: Mapping[str, float] | None = None,
) -> Iterator[Found]:
    """Play the seeds, one after another; with a `row`, on the fleet of `fleets/rows.py` that has these words."""
    with engine.at_work() as world:
        for number, seed in enumerate(seeds):
            try:
                played = world.play_row(world.Row(**row), seed)[0] if row else world.play(seed, machines, contenders)
                violations = cast("tuple[str, ...]", played.violations)
            except Exception as error:
                # What ends a thread, and what never ends, is a violation as well.
                violations = (f"4: {error!r}",)
            yield Found(seed, violations)
            if number % _COLLECT_EVERY == 0:
                gc.collect()


def pairs_played(engine: Engine, seeds: range, machines: int | None = None) -> Iterator[Found]:
    """Play the seeds, each of them with tickets, and with all machines asking."""
    with engine.at_work() as world:
        for seed in seeds:
            yield Found(seed, world.play_pair(seed, machines).violations)
            gc.collect()


def _show(seed: int, machines: int | None, contenders: int | None) -> int:
    with Engine().at_work() as world:
        played = world.play(seed, machines, contenders)
    sys.stdout.write(played.timeline.text())
    for violation in played.violations:
        print(f"seed {seed} breaks rule {violation}")
    return bool(played.violations)


def _play_many(
    first: int, number: int, machines: int | None, contenders: int | None, jobs: int, *, are_pairs: bool
) -> int:
    began, broken = time.monotonic(), 0
    size = max(1, min(50, number // jobs))
    parts = [range(start, min(start + size, first + number)) for start in range(first, first + number, size)]
    with ProcessPoolExecutor(jobs) as processes:
        played = [processes.submit(_part, part, machines, contenders, are_pairs) for part in parts]
        for part, found in zip(parts, (one.result() for one in played), strict=True):
            broken += len(found)
            for one in found:
                print(f"seed {one.seed} breaks rule {one.violations[0]}", flush=True)
            done = part.stop - first
            if done % _SAID_EVERY == 0:
                print(f"{done} seeds, {done / (time.monotonic() - began):.1f} a second", flush=True)
    rate = number / (time.monotonic() - began)
    print(f"{number} seeds from {first} on, {rate:.1f} a second: {broken or 'none'} breaks the contract")
    if broken:
        print("Replay one: make simulate SEED=…")
    return bool(broken)


def _some(text: str) -> int:
    """Return a number of seeds. Of none at all, nothing could be said."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} seeds show nothing: give 1 or more")
    return number


def _part(seeds: range, machines: int | None, contenders: int | None, are_pairs: bool) -> list[Found]:
    engine = _engine()
    played = pairs_played(engine, seeds, machines) if are_pairs else seeds_played(engine, seeds, machines, contenders)
    return [found for found in played if found.violations]


_engines: list[Engine] = []


def _engine() -> Engine:
    """The engine of this process."""
    if not _engines:
        _engines.append(Engine())
    return _engines[0]


def _find_breaks(which: int, first: int, jobs: int) -> int:
    wanted = range(len(BREAKS)) if which < 0 else [which]
    missed = 0
    with ProcessPoolExecutor(jobs) as processes:
        for number, found, took in processes.map(_find, wanted, [first] * len(wanted)):
            said = "not found" if found is None else f"{took:>4} seeds: {found.violations[0]:.90}"
            print(f"{number:>3} {BREAKS[number].what:<55} {said}", flush=True)
            missed += found is None
    return bool(missed)


def _find(number: int, first: int) -> tuple[int, Found | None, int]:
    """Play seeds against a break, until one finds it. Return the break's number, the seed, and how many it took."""
    broken = BREAKS[number]
    engine = Engine([broken.patch])
    for took, found in enumerate(seeds_played(engine, broken.seeds(_MOST_SEEDS, first), row=broken.row), 1):
        if found.violations:
            return number, found, took
    return number, None, _MOST_SEEDS


if __name__ == "__main__":
    sys.exit(main())
