"""A share of the listed mutants: the tests notice each of them. `make mutations` runs three times as many, and
`ARGS=--all` all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.invariants.equivalent_mutants import EQUIVALENT
from tests.invariants.mutants import Mutant
from tests.mutation.overlay import ROOT
from tests.mutation.prepared import Prepared
from tests.mutations import (
    BOUND,
    LISTED,
    MUTANTS,
    SUITES_STRIDE,
    Misfit,
    generated,
    generated_of,
    killer_of,
    mutate,
    share,
)

EXAMPLE = MUTANTS[0]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prepared]:
    """A pytest that waits for mutants of a copy of the sources."""
    prepared = Prepared(tmp_path_factory.mktemp("mutations") / "copy")
    yield prepared
    prepared.kill()


@pytest.mark.parametrize("mutant", share(SUITES_STRIDE), ids=str)
def test_a_mutant_is_noticed(mutant: Mutant, prepared: Prepared) -> None:
    """With one comparison or guard of the lock broken, a test fails."""
    assert killer_of(prepared, mutant), f"no test of {mutant.tests} fails with {mutant}"


@pytest.mark.parametrize("file", sorted({mutant.file for mutant in MUTANTS}))
def test_each_mutant_of_a_file_fits_the_code(file: str) -> None:
    """What a mutant replaces is there, once, and its tests are: a list that has gone stale says nothing."""
    text = (ROOT / "src" / "firecron" / file).read_text("utf-8")
    for mutant in MUTANTS:
        if mutant.file == file:
            assert mutate(text, mutant)
            tests = [name.partition("::")[0] for name in mutant.tests.split() if name.startswith("tests/")]
            assert all((ROOT / name).exists() for name in tests), f"not all are there: {mutant.tests} of {mutant}"


@pytest.mark.parametrize(("text", "new"), [("something else", ""), (EXAMPLE.old * 2, ""), (EXAMPLE.old, EXAMPLE.old)])
def test_a_mutant_that_does_not_fit_is_no_mutant(text: str, new: str) -> None:
    """Text that is gone, is there twice, or stays as it is, is an error and not a survivor."""
    with pytest.raises(Misfit):
        mutate(text, Mutant(EXAMPLE.file, EXAMPLE.old, new, EXAMPLE.tests))


def test_a_mutant_whose_tests_do_not_run_is_no_mutant(prepared: Prepared) -> None:
    """A copy that can't be imported is not taken for one that was noticed, and is mended for the next mutant."""
    file = f"firecron/{EXAMPLE.file}"
    with pytest.raises(Misfit, match="did not run"):
        killer_of(prepared, Mutant(EXAMPLE.file, EXAMPLE.old, "no python", EXAMPLE.tests))
    assert (prepared.overlay.source / file).read_bytes() == (ROOT / "src" / file).read_bytes()


def test_a_run_that_takes_too_long_is_ended(prepared: Prepared, tmp_path: Path) -> None:
    """No code comes of it; the next run has a process, an import and an output of its own."""
    hangs, passes = tmp_path / "test_hangs.py", tmp_path / "test_passes.py"
    hangs.write_text("import threading\n\ndef test_it():\n    threading.Event().wait()\n", "utf-8")
    text = f"import firecron\n\ndef test_it():\n    assert {str(prepared.overlay.source)!r} in firecron.__file__\n"
    passes.write_text(text, "utf-8")
    assert prepared.run([str(hangs)], 0.1) is None
    assert prepared.run([str(passes)], BOUND) == 0, prepared.overlay.output
    assert prepared.overlay.output.startswith(".")


@pytest.mark.parametrize("file", sorted(LISTED))
def test_a_module_that_is_left_to_the_lists_is_in_them(file: str) -> None:
    """Of a module without generated mutants there are listed ones: else nothing would try it."""
    assert [mutant for mutant in MUTANTS if mutant.file == file] != []


def test_only_listed_modules_have_no_generated_mutants() -> None:
    """What is left to the lists is a path, not a name that several modules share."""
    found = {mutant.file.removeprefix("firecron/") for mutant in generated()}
    assert {"locks.py", "lock/database.py"} <= found
    assert found.isdisjoint(LISTED)


def test_each_equivalent_mutant_is_one_that_is_generated() -> None:
    """A mutant that is left out is there to be left out: a list that has gone stale hides survivors."""
    found: set[str] = set()
    for file in (ROOT / "src" / "firecron").rglob("*.py"):
        found.update(map(str, generated_of(file)))
    assert [mutant for mutant in EQUIVALENT if mutant not in found] == []
    assert all(EQUIVALENT.values()), "each has its reason"
