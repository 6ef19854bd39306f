"""The order of the tests for several workers: long ones first, and those that wait beside those that compute."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.conftest import HEADS, HERE, spread

FOLDERS = ["cli"] * 6 + ["interleaving"] * 2 + ["invariants"] * 3 + ["mutation"] * 2 + ["process"] * 4
FOLDERS += ["simulation"] * 3 + ["stores"] * 9 + ["unit"] * 14


def ordered(folders: list[str], workers: int) -> list[str]:
    items = [cast(Any, SimpleNamespace(path=Path(HERE, folder, f"test_{at}.py"))) for at, folder in enumerate(folders)]
    found = spread(items, workers)
    assert sorted(map(id, found)) == sorted(map(id, items)), "each test runs once"
    return [item.path.parent.name for item in found]


@pytest.mark.parametrize("workers", [2, 3, 4, 5, 8])
@pytest.mark.parametrize("folders", [FOLDERS, ["process"] * 9, ["unit"] * 7, ["simulation", "unit"], []])
def test_each_test_runs_once(folders: list[str], workers: int) -> None:
    """However many workers there are, and whichever tests were chosen."""
    assert sorted(ordered(folders, workers)) == sorted(folders)


def test_each_worker_begins_with_its_head() -> None:
    """Of four workers one waits for processes first, and the others compute."""
    found = ordered(FOLDERS, len(HEADS))
    starts = [len(found) * number // len(HEADS) for number in range(len(HEADS))]
    assert [found[start] for start in starts] == ["process", "simulation", "interleaving", "invariants"]


def test_every_head_is_a_folder() -> None:
    """A folder with another name would be one of those that wait for the end."""
    assert [folder for part in HEADS for folder in part if not Path(HERE, folder).is_dir()] == []
