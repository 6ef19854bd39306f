"""The API pages of the emulator have every public name."""

from __future__ import annotations

import re

import pytest
from tests.docs.documents import ROOT

import rtdb_emulator
from rtdb_emulator import Clock, Emulator, Faults
from rtdb_emulator.http.faults import SocketFaults
from rtdb_emulator.pytest_plugin import Rtdb

PAGE = "\n".join(page.read_text("utf-8") for page in sorted((ROOT / "docs" / "api").glob("emulator*.md")))
# Called by the server, not by tests.
INTERNAL = {"take", "discard"}


def members(name: str) -> set[str]:
    """The members that the page lists for a class."""
    (found,) = re.findall(rf"autoclass:: (?:\S+\.)?{name}(?:\(\))?\n((?:   .*\n)*)", PAGE)
    return {*re.findall(r"\w+", found.replace(":members:", ""))}


@pytest.mark.parametrize("kind", [Clock, Emulator, Faults, Rtdb, SocketFaults])
def test_a_class_is_there_with_all_that_it_has(kind: type) -> None:
    """The page lists each public method and property of a class, and no other name."""
    public = {name for name, value in vars(kind).items() if not name.startswith("_") and hasattr(value, "__doc__")}
    public -= INTERNAL | set(getattr(kind, "__dataclass_fields__", ()))
    assert members(kind.__name__) == public


def test_every_name_of_the_package_is_there() -> None:
    """The page has each name that the package exports."""
    shown = {*re.findall(r"auto(?:class|exception):: (?:\S+\.)?(\w+)", PAGE)}
    assert {*rtdb_emulator.__all__} - shown == set()
