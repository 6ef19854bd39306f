"""Whole fleets in virtual time keep the contract, and the same seed is the same run."""

from __future__ import annotations

import gc
import hashlib
import signal
import subprocess
import sys
from dataclasses import replace

import pytest
from tests.simulation.__main__ import pairs_played, seeds_played
from tests.simulation.breaks import BREAKS, Break
from tests.simulation.loading import ROOT, Engine
from tests.simulation.seeds import WORLDS

# A part takes seconds of CPU, and a busy machine may take minutes for them.
pytestmark = pytest.mark.timeout(300)

# Seeds are handed to the workers in parts that take a second or two each. These are a few of each kind of world: `make
# simulate` plays a thousand, and with FIRST as many of each other kind, or with `ARGS=--pairs`.
PART = 5
SEEDS = range(1, 11)
# Worlds with steps, with ticks at even distances, and with runs that are cancelled.
RICHER = range(1_000_000, 1_000_005)
# One of each of the worlds of `fleets/wider`.
WIDER = range(2_000_000, 2_000_000 + len(WORLDS))
# Worlds with stored schedules, and worlds with holds and asks for runs.
STORED = range(4_000_000, 4_000_005)
OPERATED = range(5_000_000, 5_000_005)
# A world with threads, event loops, streams and locks of its own.
WATCHED = 2_000_013
PAIRS = range(1, 5)
LED = range(1, 10)
# Worlds of leaders that step down, are cancelled or paused, raise, return, linger, are async, or have wrong clocks.
REIGNS = range(3_000_000, 3_000_003)
# Breaks that are found at once. The others take more seeds than each run of the tests has time for: `ARGS=--breaks`.
QUICK = (
    "a claimed tick may be claimed again",
    "only the first wave asks",
    "the fence doesn't rise",
    "what overlap skipped is caught up",
    "the bookkeeper is silent",
    "a worker's wake-up is lost",
    "a recorded step is called again",
    "all ticks share their steps",
    "ticks at even distances count from a start",
    "all entries share the keys of their history",
)
# What a seed has found once is played again. It may mean something else since the engine has changed, so what it found
# is a test of its own, too, where that can be said shorter. `make simulate` plays those below a thousand.
FOUND = (
    1069, 1081, 1196, 1336, 1478, 2036, 2117, 2171, 2203,
    2270, 2798, 3055, 3056, 3721, 4091, 4153, 4695, 5034, 5166, 5334, 5407, 5483, 6082, 6809, 11321, 12415, 12774,
    1_000_025, 1_000_248, 1_000_299, 1_000_350, 1_000_432, 1_001_082, 1_001_994, 1_002_309, 1_004_771, 1_007_113,
    2_000_080, 2_000_131, 2_002_457, 4_000_007, 4_000_108, 5_001_099,
)  # fmt: skip


@pytest.fixture(scope="module")
def engine() -> Engine:
    """The engine as it is."""
    return Engine()


@pytest.mark.parametrize("first", [one for kind in (SEEDS, RICHER, WIDER, STORED, OPERATED) for one in kind[::PART]])
def test_a_fleet_keeps_the_contract(engine: Engine, first: int) -> None:
    """No seed of this part breaks a rule of the oracle. `make simulate SEED=…` shows what a seed does."""
    assert [found for found in seeds_played(engine, range(first, first + PART)) if found.violations] == []


@pytest.mark.parametrize("first", PAIRS[::2])
def test_all_that_ask_miss_no_fewer_ticks(engine: Engine, first: int) -> None:
    """In the same world no tick is missed by tickets that is run where every machine asks for every tick."""
    assert [found for found in pairs_played(engine, range(first, first + 2)) if found.violations] == []


@pytest.mark.parametrize(("paused", "is_missed"), [((), True), ((0, None), False), ((0, 1), True)])
def test_a_pair_misses_no_tick_that_may_be_paused(engine: Engine, paused: tuple[int, ...], is_missed: bool) -> None:
    """Where a pause ends while a tick may start, it is chance whether a machine's only try comes after it."""
    with engine.at_work():
        pairs, happened = (sys.modules[f"tests.simulation.fleets.{name}"] for name in ("pairs", "happened"))
        scenario = replace(pairs.make(166, None, 0), spells=())
        histories = {spec.name: happened.History(spec, paused=[paused] * bool(paused)) for spec in scenario.jobs}
        assert bool(vars(pairs)["_missed"](histories, scenario)) is is_missed


@pytest.mark.parametrize("first", [*LED[::3], *REIGNS[::3]])
def test_a_fleet_elects_one_leader(engine: Engine, first: int) -> None:
    """No two terms are trusted at one time, fences rise, whoever is to stay away does, and somebody leads once all is
    well: in the same worlds, and in those of leaders.
    """
    with engine.at_work() as play:
        found = {seed: play.play_leading(seed).violations for seed in range(first, first + 3)}
    assert found == dict.fromkeys(found, ())


@pytest.mark.timeout(300)  # some of these seeds are long, and the machine may have other work
@pytest.mark.parametrize("first", range(0, len(FOUND), PART))
def test_seeds_that_found_something_are_played_again(engine: Engine, first: int) -> None:
    """No seed that once broke a rule does so again."""
    seeds = FOUND[first : first + PART]
    assert [found for seed in seeds for found in seeds_played(engine, range(seed, seed + 1)) if found.violations] == []


def test_a_fleet_leaves_this_processs_signals_alone(engine: Engine) -> None:
    """The programs of a simulated fleet are stopped together, and none leaves a handler behind."""
    before = signal.getsignal(signal.SIGINT)
    with engine.at_work() as world:
        world.play(2)
    assert signal.getsignal(signal.SIGINT) is before


def test_the_same_seed_is_the_same_run(engine: Engine) -> None:
    """Two processes with different hash seeds, and this one after other seeds, have one timeline, byte for byte."""
    assert {_digest(_replayed(hash_seed)) for hash_seed in ("1", "2")} == {_digest(_played_here(engine))}


@pytest.mark.parametrize("broken", [one for one in BREAKS if one.what in QUICK], ids=lambda broken: broken.what)
def test_a_break_is_found(broken: Break) -> None:
    """The oracle finds a break of the engine within a few seeds: it looks. `ARGS=--breaks` looks for all of them."""
    found = (one for one in seeds_played(Engine([broken.patch]), broken.seeds(29), row=broken.row) if one.violations)
    assert next(found, None) is not None


def test_each_break_is_of_the_engine_as_it_is() -> None:
    """What a break replaces stands in its module exactly once."""
    for broken in BREAKS:
        path = ROOT.joinpath("src", "firecron", *broken.module.split(".")).with_suffix(".py")
        assert path.read_text().count(broken.old) == 1, broken.what


def _replayed(hash_seed: str) -> bytes:
    command = [sys.executable, "-m", "tests.simulation", "--seed", str(WATCHED)]
    environment = {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": f"{ROOT}/src:{ROOT}/emulator"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=True, timeout=240).stdout


def _played_here(engine: Engine) -> bytes:
    gc.collect()  # the jobs that worlds before have declared, which a start would name as given to no FireCron
    with engine.at_work() as world:
        world.play(2)
        text: str = world.play(WATCHED).timeline.text()
        return text.encode()


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()
