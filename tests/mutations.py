"""Does broken code fail its tests? `make mutations` breaks it in very many ways; `ARGS=--all` in all of them.

The mutants of some modules are listed by hand, each with the tests that should notice (`tests.invariants.mutants`). Of
all modules but those in LISTED mutants are generated (`tests.mutation.generate`), and the tests that reach their lines
are asked: of all mutants a few first, and then the others about those that passed. Each is tried in a copy of src, in a
process of its own. One that isn't noticed is a survivor: a test is missing, or the code does nothing. Those that can't
be noticed are in `tests.invariants.equivalent_mutants`, each with the reason.

Without `--all` a share runs of the lists, and a sample of the others, chosen by the seed. What was found out is kept
in `.mutation` until its source does something else, so a run that was broken off goes on. `--idle` lists the tests that
were the first to notice no mutant.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.invariants.equivalent_mutants import EQUIVALENT
from tests.invariants.mutants import RECORD_MUTANTS, Mutant
from tests.invariants.mutants_asks import ASK_MUTANTS
from tests.invariants.mutants_holding import HOLDING_MUTANTS
from tests.invariants.mutants_holds import HOLD_MUTANTS
from tests.invariants.mutants_invariants import INVARIANTS
from tests.invariants.mutants_lanes import LANE_MUTANTS
from tests.invariants.mutants_lines import LINE_MUTANTS
from tests.invariants.mutants_retry_policy import HEARING_MUTANTS
from tests.invariants.mutants_runs import RUN_MUTANTS
from tests.invariants.mutants_steps import STEP_MUTANTS
from tests.invariants.mutants_stored import STORED_MUTANTS
from tests.invariants.mutants_verdict import VERDICT_MUTANTS
from tests.mutation.generate import Mutant as Generated
from tests.mutation.generate import generate
from tests.mutation.idle import Killers, idle, report
from tests.mutation.ledger import Ledger
from tests.mutation.overlay import ROOT, each
from tests.mutation.prepared import Prepared
from tests.mutation.reach import Reach, collect, digest, meaning
from tests.mutation.trial import FAILED, Judged, Trials

LOCK_MUTANTS = HEARING_MUTANTS + RECORD_MUTANTS + HOLDING_MUTANTS + STORED_MUTANTS + LINE_MUTANTS
OPERATORS_MUTANTS = HOLD_MUTANTS + ASK_MUTANTS
MUTANTS = LOCK_MUTANTS + INVARIANTS + STEP_MUTANTS + RUN_MUTANTS + VERDICT_MUTANTS + LANE_MUTANTS + OPERATORS_MUTANTS

# All mutants of these are listed by hand, so that none are generated.
LISTED = {"lock/fields.py", "lock/lease.py", "lock/protocol.py", "lock/record.py", "steps/protocol.py"}
# These are no part of what runs jobs.
APART = {"cli", "demo", "testing"}

STATE = ROOT / ".mutation"
# Seconds; a mutant may wait for what never comes, and that is noticed too.
BOUND = 60
# What a sample runs of the lists: every so manyth, so that each file has its turn, of those that need no processes of
# their own. The suite runs fewer: that the tests notice anything is seen by those, and what they notice by this.
STRIDE = 13
SUITES_STRIDE = 3 * STRIDE
SAMPLE = 150
# Of those that are no equivalents.
WANTED = 0.95

FAILED_TESTS = 1


class Misfit(Exception):
    """A mutant that says nothing about the tests: its text isn't there, or they don't even run."""


def share(stride: int = STRIDE) -> tuple[Mutant, ...]:
    """The listed mutants of a sample."""
    return tuple(mutant for mutant in MUTANTS if "tests/process/" not in mutant.tests)[::stride]


def mutate(text: str, mutant: Mutant) -> str:
    """The text of the file with the mutant in it."""
    found = text.count(mutant.old)
    if found != 1:
        raise Misfit(f"{mutant.file} has {found} times what it should have once: {mutant.old!r}")
    if mutant.old == mutant.new:
        raise Misfit(f"{mutant.file} stays as it is: {mutant.old!r}")
    return text.replace(mutant.old, mutant.new)


def killer_of(prepared: Prepared, mutant: Mutant) -> str:
    """The first of its tests that fails with the mutant in place; empty if none does."""
    overlay = prepared.overlay
    file = f"firecron/{mutant.file}"
    source = (ROOT / "src" / file).read_bytes()
    overlay.put(file, mutate(source.decode(), mutant).encode())
    try:
        code = prepared.run(mutant.tests.split(), BOUND)
    finally:
        overlay.put(file, source)
    if code not in (None, 0, FAILED_TESTS):
        raise Misfit(f"the tests of {mutant} did not run:\n{overlay.output[-2000:]}")
    if code == 0:
        return ""
    found = FAILED.search(overlay.output) if code == FAILED_TESTS else None
    return found[1] if found else "what hangs"


@cache
def generated_of(file: Path) -> tuple[Generated, ...]:
    """All mutants of a file of src."""
    return tuple(generate(str(file.relative_to(ROOT / "src")), file.read_bytes()))


def generated() -> list[Generated]:
    """All generated mutants but the equivalent ones."""
    found: list[Generated] = []
    package = ROOT / "src" / "firecron"
    for file in sorted(package.rglob("*.py")):
        is_listed = file.relative_to(package).as_posix() in LISTED
        if not is_listed and (APART.isdisjoint(file.parts) or file.name == "process.py"):
            found += generated_of(file)
    return [mutant for mutant in found if str(mutant) not in EQUIVALENT]


def number(mutant: object) -> str:
    """What a mutant is called for short; it stays as long as its function's text does."""
    return hashlib.sha1(str(mutant).encode(), usedforsecurity=False).hexdigest()[:8]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--all", action="store_true", help="all mutants, not only a sample")
    parser.add_argument("--idle", action="store_true", help="try nothing; list the tests that came first for no mutant")
    parser.add_argument("--only", nargs="+", default=[], help="those with one of these numbers, or texts in them")
    parser.add_argument("--sample", type=int, default=SAMPLE, help=f"how many of the generated ones (default {SAMPLE})")
    parser.add_argument("--seed", type=int, help="which of them; the default changes with the sources")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time (default 2)")
    options = parser.parse_args()
    # However it is broken off, it ends what it has started; a shell ignores Ctrl-C for what it starts with "&".
    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, signal.default_int_handler)
    listed = [one for one in (MUTANTS if options.all or options.only else share()) if _is_chosen(one, options.only)]
    chosen = [one for one in generated() if _is_chosen(one, options.only)]
    state = STATE / digest((ROOT / "src").rglob("*.py"))
    if options.idle:
        return list_idle(chosen, state, options.jobs)
    if not (options.all or options.only):
        seed = int(state.name, 16) % 100_000 if options.seed is None else options.seed
        chosen = random.Random(seed).sample(chosen, min(options.sample, len(chosen)))
        print(f"a sample of {len(chosen)} generated mutants (--seed {seed}), and {len(listed)} of the listed ones")
    if not listed and not chosen:
        print(f"no mutant has {' or '.join(options.only)} in it")
        return 1
    missed = try_listed(listed, options.jobs)
    named = {mutant for mutant in chosen if number(mutant) in options.only}
    is_enough = try_generated(chosen, state, options.jobs, named)
    return 0 if is_enough and not missed else 1


def try_listed(mutants: list[Mutant], jobs: int) -> int:
    """Try listed mutants; how many were not caught."""
    missed = 0
    killers = Killers(STATE / "listed")

    def work(prepared: Prepared, mutant: Mutant) -> tuple[Mutant, str]:
        try:
            killer = killer_of(prepared, mutant)
            if killer:
                killers.note(mutant, killer)
            return mutant, "caught" if killer else "SURVIVED"
        except Misfit as misfit:
            return mutant, f"MISFIT {misfit}"

    for done, (mutant, verdict) in enumerate(each(mutants, work, jobs, Prepared) if mutants else (), 1):
        if verdict != "caught":
            missed += 1
            print(f"\r{verdict}  {mutant}  [{mutant.tests}]")
        print(f"\r{done} of {len(mutants)} listed mutants, {missed} not caught", end="", flush=True)
    print()
    return missed


def list_idle(mutants: list[Generated], state: Path, jobs: int) -> int:
    """Print the idle tests, as far as these mutants tell."""
    reach, ledger = what_is_known(state, jobs)
    listed = Killers(STATE / "listed").known()
    killers = {*listed.values(), *ledger.killers()}
    mutated = {mutant.file for mutant in mutants} | {f"firecron/{file}" for file in LISTED}
    untried = sum(ledger.verdict(mutant) is None for mutant in mutants)
    untried += sum(str(mutant) not in listed for mutant in MUTANTS)
    print("\n".join(report(idle(reach, killers, mutated, APART), reach, untried)))
    return 0


def what_is_known(state: Path, jobs: int) -> tuple[Reach, Ledger]:
    """What the tests reach, and the verdicts."""
    # But for those about mutants, which would try mutants.
    tests = sorted(file for file in (ROOT / "tests").rglob("*.py") if "muta" not in str(file.relative_to(ROOT)))
    reach = collect([file for file in tests if file.name.startswith("test_")], state / "reach", jobs)
    shared = sorted((ROOT / "emulator" / "tests" / "rtdb_emulator_tests" / "helpers").glob("*.py"))
    helpers = digest([*(file for file in tests if not file.name.startswith("test_")), *shared])

    @cache
    def asked(files: tuple[Path, ...]) -> str:
        return f"{helpers}-{digest(files)}"

    @cache
    def does(file: str) -> str:
        return digest([ROOT / "src" / file], meaning)

    ledger = Ledger(
        STATE / "verdicts",
        lambda mutant: does(mutant.file),
        lambda mutant: asked(reach.files(mutant.file, mutant.lines)),
    )
    return reach, ledger


def try_generated(mutants: list[Generated], state: Path, jobs: int, named: set[Generated]) -> bool:
    """Try generated mutants, the `named` ones also if they are known; whether enough of them were killed."""
    if not mutants:
        return True
    reach, ledger = what_is_known(state, jobs)
    if reach.others:
        print(f"{len(reach.others)} tests fail or are skipped without a mutant, and are not asked")
    new = [mutant for mutant in mutants if mutant in named or ledger.verdict(mutant) is None]
    for evaluated in _judge("mutants", new, reach, jobs, is_doubtful=False):
        ledger.note(evaluated)
        if evaluated.by and evaluated.mutant in named:
            print(f"\r{evaluated.mutant}\nis killed by {evaluated.by}")
    doubtful = [mutant for mutant in mutants if ledger.verdict(mutant) == "doubtful"]
    for evaluated in _judge("that passed their first tests", doubtful, reach, jobs, is_doubtful=True):
        ledger.note(evaluated)
        if evaluated.by and evaluated.mutant in named:
            print(f"\r{evaluated.mutant}\nis killed by {evaluated.by}")
    return _report(mutants, ledger)


def _judge(what: str, mutants: list[Generated], reach: Reach, jobs: int, is_doubtful: bool) -> Iterator[Judged]:
    """Judge these, and tell how far it is."""

    def work(trials: Trials, mutant: Generated) -> Judged:
        return trials.judge(mutant, reach, is_doubtful)

    began = time.monotonic()
    killed = 0
    for done, evaluated in enumerate(each(mutants, work, jobs, Trials) if mutants else (), 1):
        killed += evaluated.verdict == "killed"
        minutes = (time.monotonic() - began) / done * (len(mutants) - done) / 60
        print(f"\r{done} of {len(mutants)} {what}, {killed} killed, {minutes:.0f} minutes left ", end="", flush=True)
        yield evaluated
    print()


def _report(mutants: list[Generated], ledger: Ledger) -> bool:
    by_file: dict[str, Counter[str]] = {}
    for mutant in mutants:
        verdict = ledger.verdict(mutant) or "unknown"
        by_file.setdefault(mutant.file, Counter())[verdict] += 1
        if verdict != "killed":
            print(f"\n{verdict}  {mutant.place}  {mutant.file}")
            print(f'make mutations ARGS="--only {number(mutant)}"')
            print(_difference(mutant), end="")
    print(f"\n{'':40}killed  survived  unreached")
    for file, found in sorted(by_file.items()):
        print(f"{file:40}{found['killed']:6}{found['survived']:10}{found['unreached']:11}")
    killed = sum(found["killed"] for found in by_file.values())
    part = killed / len(mutants)
    print(f"{killed} of {len(mutants)} killed: {part:.1%} (wanted: {WANTED:.0%}); {len(EQUIVALENT)} are equivalent")
    return part >= WANTED


def _difference(mutant: Generated) -> str:
    source = (ROOT / "src" / mutant.file).read_bytes()
    before, after = (text.decode().splitlines(keepends=True) for text in (source, mutant.apply(source)))
    return "".join(
        line for line in difflib.unified_diff(before, after, n=0) if not line.startswith(("---", "+++", "@@"))
    )


def _is_chosen(mutant: object, texts: list[str]) -> bool:
    return not texts or any(text == number(mutant) or text in repr(mutant) or text in str(mutant) for text in texts)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("\nbroken off; the same call goes on from here")
