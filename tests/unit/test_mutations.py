"""A share of the mutants of the lock: the tests notice each of them. All of them run with `tests.mutations --all`."""

from __future__ import annotations

import pytest
from tests.conftest import INSTALLED, PLUGIN
from tests.mutants import Mutant
from tests.mutations import MUTANTS, ROOT, Misfit, is_caught, mutate, share

EXAMPLE = MUTANTS[0]


@pytest.mark.parametrize("mutant", share(), ids=str)
def test_a_mutant_is_noticed(mutant: Mutant) -> None:
    """With one comparison or guard of the lock broken, a test fails."""
    assert is_caught(mutant, [] if INSTALLED else ["-p", PLUGIN]), f"no test of {mutant.tests} fails with {mutant}"


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_a_mutant_fits_the_code(mutant: Mutant) -> None:
    """What a mutant replaces is there, once, and its tests are: a list that has gone stale says nothing."""
    assert mutate((ROOT / "src" / "firecron" / mutant.file).read_text("utf-8"), mutant)
    assert all((ROOT / name.partition("::")[0]).exists() for name in mutant.tests.split() if name.startswith("tests/"))


@pytest.mark.parametrize(("text", "new"), [("something else", ""), (EXAMPLE.old * 2, ""), (EXAMPLE.old, EXAMPLE.old)])
def test_a_mutant_that_does_not_fit_is_no_mutant(text: str, new: str) -> None:
    """Text that is gone, is there twice, or stays as it is, is an error and not a survivor."""
    with pytest.raises(Misfit):
        mutate(text, Mutant(EXAMPLE.file, EXAMPLE.old, new, EXAMPLE.tests))


def test_a_mutant_whose_tests_do_not_run_is_no_mutant() -> None:
    """A copy that can't be imported is not taken for one that was noticed."""
    with pytest.raises(Misfit, match="did not run"):
        is_caught(Mutant(EXAMPLE.file, EXAMPLE.old, "no python", EXAMPLE.tests), [] if INSTALLED else ["-p", PLUGIN])
