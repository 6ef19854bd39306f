"""Does a broken lock fail its tests? `python -m tests.mutations --all` breaks it in every way that is listed.

Each mutant is made in a copy of src, and the tests that should notice run against that copy, in a process of their
own. One that isn't noticed is a survivor: a test is missing, or the code does nothing. Without `--all` a share runs.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.mutants import LOCK_MUTANTS, Mutant
from tests.mutants_invariants import INVARIANTS

MUTANTS = LOCK_MUTANTS + INVARIANTS

ROOT = Path(__file__).parents[1]
PLUGIN = "rtdb_emulator.pytest_plugin"
# Seconds; a mutant may wait for what never comes, and that is noticed too.
BOUND = 60
# What the suite runs: every so manyth, so that each file has its turn, of those that need no processes of their own.
STRIDE = 13

FAILED_TESTS = 1


class Misfit(Exception):
    """A mutant that says nothing about the tests: its text isn't there, or they don't even run."""


def share() -> tuple[Mutant, ...]:
    """The mutants that the suite runs."""
    return tuple(mutant for mutant in MUTANTS if "tests/process/" not in mutant.tests)[::STRIDE]


def mutate(text: str, mutant: Mutant) -> str:
    """The text of the file with the mutant in it."""
    found = text.count(mutant.old)
    if found != 1:
        raise Misfit(f"{mutant.file} has {found} times what it should have once: {mutant.old!r}")
    if mutant.old == mutant.new:
        raise Misfit(f"{mutant.file} stays as it is: {mutant.old!r}")
    return text.replace(mutant.old, mutant.new)


def is_caught(mutant: Mutant, plugins: list[str]) -> bool:
    """Whether its tests fail with the mutant in place."""
    with tempfile.TemporaryDirectory() as directory:
        copy = Path(directory, "src")
        shutil.copytree(ROOT / "src", copy, ignore=shutil.ignore_patterns("__pycache__"))
        file = copy / "firecron" / mutant.file
        file.write_text(mutate(file.read_text("utf-8"), mutant), "utf-8")
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV_"))},
            "PYTHONPATH": os.pathsep.join([str(copy), str(ROOT / "emulator")]),
            "PYTHONDONTWRITEBYTECODE": "1",
            # What a mutant makes fail is no example for the runs of the code itself.
            "HYPOTHESIS_STORAGE_DIRECTORY": str(Path(directory, "hypothesis")),
        }
        options = ["-x", "-q", "-p", "no:cacheprovider", "--timeout", "10", *plugins]
        try:
            run = subprocess.run(
                [sys.executable, "-m", "pytest", *options, *mutant.tests.split()],
                cwd=ROOT,
                env=environment,
                capture_output=True,
                text=True,
                timeout=BOUND,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return True
        if run.returncode not in (0, FAILED_TESTS):
            raise Misfit(f"the tests of {mutant} did not run:\n{run.stdout[-2000:]}{run.stderr[-2000:]}")
        return run.returncode == FAILED_TESTS


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--all", action="store_true", help="all mutants, not only the share of the suite")
    parser.add_argument("--only", default="", help="those with this text in the file's name, the code or the tests")
    options = parser.parse_args()
    from tests.conftest import INSTALLED

    plugins = [] if INSTALLED else ["-p", PLUGIN]
    survivors = 0
    chosen = MUTANTS if options.all or options.only else share()
    chosen = tuple(one for one in chosen if options.only in f"{one.file} {one.old} {one.new} {one.tests}")
    for mutant in chosen:
        began = time.monotonic()
        try:
            verdict = "caught" if is_caught(mutant, plugins) else "SURVIVED"
        except Misfit as misfit:
            verdict = f"MISFIT {misfit}"
        survivors += verdict != "caught"
        print(f"{verdict:8}  {time.monotonic() - began:4.1f} s  {mutant}  [{mutant.tests}]", flush=True)
    print(f"{survivors} of {len(chosen)} not caught" if survivors else f"all {len(chosen)} caught")
    return 1 if survivors or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
