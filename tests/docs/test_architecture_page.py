"""The page about the architecture, and the table of homes in CONTRIBUTING, name what there is."""

from __future__ import annotations

import builtins
import inspect
import re

import pytest
from tests.docs.documents import ROOT
from tests.test_architecture import LAYERS

from firecron import distributed_cron

SRC = ROOT / "src" / "firecron"
PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
# Files of firecron, as `room/file.py`; those with another folder in front are named from the top.
NAMED = sorted(set(re.findall(r"`([\w/]+\.py|[\w/]+/)`", PAGE)))
ROOMS = {path.stem for path in SRC.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
# Classes and constants, by themselves or with one attribute.
CAPITALISED = sorted(set(re.findall(r"`([A-Z]\w+(?:\.\w+)?)`", PAGE)))
SOURCES = "\n".join(path.read_text("utf-8") for path in [*SRC.rglob("*.py"), ROOT / "tests" / "test_architecture.py"])
STEP = re.compile(r"^\d+\. ", re.MULTILINE)


@pytest.mark.parametrize("named", NAMED)
def test_a_file_that_the_page_names_is_there(named: str) -> None:
    """Each file and folder on the page stands in the tree."""
    assert (SRC / named).exists() or (ROOT / named).exists()


@pytest.mark.parametrize("named", CAPITALISED)
def test_a_name_that_the_page_names_is_there(named: str) -> None:
    """Each class and constant on the page is defined in the sources, and so is what is named of it."""
    name, _, attribute = named.partition(".")
    assert hasattr(builtins, name) or re.search(rf"^(?:class )?{name}\b(?:\(.*)?(?::| =)", SOURCES, re.MULTILINE)
    assert not attribute or re.search(rf"\bdef {attribute}\(", SOURCES)


def test_the_page_has_every_room() -> None:
    """Each room has an item that says its purpose, and no item is of a room that is gone."""
    items = re.findall(r"^\* (`[^:]*): [A-Z]", PAGE.partition("\n## ")[0], re.MULTILINE)
    named = {name.rstrip("/").removesuffix(".py") for item in items for name in re.findall(r"`([^`]*)`", item)}
    assert named == ROOMS - {"__init__", "__main__"}


def test_the_page_has_the_layers_in_their_order() -> None:
    """The line of layers on the page is the one that the test of the rules keeps."""
    (line,) = re.findall(r"```\n(errors <.*?)```", PAGE, re.DOTALL)
    layers = [tuple(room.strip() for room in layer.split(",")) for layer in line.split("<")]
    there = [tuple(room for room in rooms if room in ROOMS) for rooms in LAYERS]
    assert layers == [rooms for rooms in there if rooms and rooms != ("__main__",)]


def test_the_core_is_ten_files() -> None:
    """What is to be read in an afternoon doesn't grow."""
    (core,) = re.findall(r"## The core in an afternoon\n(.*?)\n## ", PAGE, re.DOTALL)
    assert len(re.findall(r"^\* `[\w/]+\.py`: ", core, re.MULTILINE)) == 10


@pytest.mark.parametrize("title", re.findall(r"^## (The path of .*)$", PAGE, re.MULTILINE))
def test_a_path_is_short(title: str) -> None:
    """Each path has twelve steps at most."""
    (path,) = re.findall(rf"## {re.escape(title)}\n(.*?)\n## ", PAGE, re.DOTALL)
    assert 1 <= len(STEP.findall(path)) <= 12


def test_every_option_of_a_job_has_a_home_for_its_tests() -> None:
    """CONTRIBUTING names, for each option of the decorator, a file of tests that is there and that uses the option."""
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| `(tests/[\w/]+\.py)` \|", CONTRIBUTING, re.MULTILINE)
    homes = {option: home for options, home in rows for option in re.findall(r"`(\w+)`", options)}
    options = inspect.signature(distributed_cron).parameters.values()
    assert set(homes) == {option.name for option in options if option.kind is inspect.Parameter.KEYWORD_ONLY}
    texts = {option: (ROOT / home).read_text("utf-8") for option, home in homes.items()}
    unused = [option for option, text in texts.items() if not re.search(rf"\b{option}\b", text)]
    assert unused == []
