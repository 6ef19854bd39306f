"""A mutant of a function gets into what is imported already; another can't, and that is said."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest
from tests.mutation.patching import Functions

BEFORE = b"""\
from functools import lru_cache

LIMIT = 2

def early():
    return LIMIT

class Cell:
    kind = "cell"

    def grow(self, by=1):
        return self.size() + by

    def size(self):
        return 10

@lru_cache
def wrapped(number):
    return [number + one for one in (1, 2)]

def outer(base):
    def inner(number):
        return base + number
    return inner

KNOWN = early()
ADD = outer(5)
"""


@dataclass
class Imported:
    """A module that was imported while its functions were watched."""

    module: ModuleType
    file: str
    functions: Functions

    def patch(self, old: bytes, new: bytes) -> str:
        assert BEFORE.count(old) == 1
        return self.functions.patch(self.file, BEFORE, BEFORE.replace(old, new))


@pytest.fixture
def imported(tmp_path: Path) -> Imported:
    file = tmp_path / "cell.py"
    file.write_bytes(BEFORE)
    functions = Functions(str(tmp_path))
    spec = importlib.util.spec_from_file_location("cell", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    functions.watch()
    spec.loader.exec_module(module)
    functions.find()
    return Imported(module, str(file), functions)


@pytest.mark.parametrize(
    ("old", "new", "answer", "expected"),
    [
        (b"self.size() + by", b"self.size() - by", lambda module: module.Cell().grow(), 9),
        (b"number + one", b"number - one", lambda module: module.wrapped(5), [4, 3]),
        (b"    return inner\n", b"    return None\n", lambda module: module.outer(1), None),
    ],
    ids=["a method", "what is wrapped", "a function"],
)
def test_a_function_has_the_mutants_code(
    imported: Imported, old: bytes, new: bytes, answer: Callable[[ModuleType], object], expected: object
) -> None:
    """A mutant of what was not called yet is there as a whole; what was called before the mutant came is "late"."""
    how = imported.patch(old, new)
    assert answer(imported.module) == expected
    assert how == ("late" if b"inner" in old else "whole")


def test_a_function_that_an_import_has_made_is_changed_as_well(imported: Imported) -> None:
    """What a function returned at the import has the mutant's code, as has what it returns from now on."""
    assert imported.patch(b"base + number", b"base - number") == "late"
    assert (imported.module.ADD(3), imported.module.outer(5)(3)) == (2, 2)


def test_what_the_import_called_is_late(imported: Imported) -> None:
    """A function that was called at the import is changed, but what it did there is done."""
    assert imported.patch(b"    return LIMIT", b"    return 7") == "late"
    assert (imported.module.early(), imported.module.KNOWN) == (7, 2)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"LIMIT = 2", b"LIMIT = 3"),
        (b'kind = "cell"', b'kind = ""'),
        (b"by=1", b"by=2"),
        (b"    return LIMIT", b"    return LIMIT  # the same"),
    ],
    ids=["a constant", "a class", "a default", "the same code"],
)
def test_what_no_function_holds_is_not_changed(imported: Imported, old: bytes, new: bytes) -> None:
    """Where code can't be put into functions that are there, nothing is changed, and that is said."""
    assert imported.patch(old, new) == "not"
    assert imported.module.Cell().grow() == 11
    assert imported.module.ADD(3) == 8
