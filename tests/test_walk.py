"""A tick, a hold and a page's request pass through no more modules and classes than they did: see `tests.walk`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest


class Ceiling(NamedTuple):
    """The most modules and classes that a reader of one walk passes through, and how often a node is parsed there."""

    modules: int
    classes: int
    parses: int


# One rises only with its reason beside it.
CEILINGS = {
    "tick": Ceiling(30, 36, parses=2),
    "hold": Ceiling(16, 20, parses=2),
    # A verdict has what a program says about its job. The holds and the mutes are read with the catalogue, the asks
    # beside it. What to do is a remedy: its words, and when it is offered.
    "page": Ceiling(36, 40, parses=1),
}


@pytest.fixture(scope="module")
def figures() -> dict[str, dict[str, int]]:
    """The walks, in a process of its own: they profile each of its threads."""
    command = [sys.executable, "-m", "tests.walk", *CEILINGS, "--json"]
    root = Path(__file__).parent.parent
    child = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=120, check=False)
    assert child.returncode == 0, child.stderr
    found: dict[str, dict[str, int]] = json.loads(child.stdout)
    return found


@pytest.mark.parametrize("walk", CEILINGS)
def test_a_walk_stays_below_its_ceiling(figures: dict[str, dict[str, int]], walk: str) -> None:
    """The median of three walks passes through no more modules, and no more classes; and hardly through fewer."""
    found, ceiling = figures[walk], CEILINGS[walk]
    assert found["modules"] <= ceiling.modules
    assert found["classes"] <= ceiling.classes
    assert found["modules"] >= ceiling.modules - 2, f"lower the ceiling of {walk} to {found['modules']} modules"
    assert found["classes"] >= ceiling.classes - 2, f"lower the ceiling of {walk} to {found['classes']} classes"


@pytest.mark.parametrize("walk", CEILINGS)
def test_a_node_that_was_read_is_parsed_once(figures: dict[str, dict[str, int]], walk: str) -> None:
    """An acquire parses the node that it reads once, whoever needs what it says, and a release parses it once more."""
    assert figures[walk]["parses"] == CEILINGS[walk].parses
