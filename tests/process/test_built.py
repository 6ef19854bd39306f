"""What is published: the wheel that is built from the sdist, and the description in its metadata."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from runpy import run_path

import pytest
from tests.docs.documents import ROOT
from tests.stores.least_privilege import RULES

REPOSITORY = "https://github.com/firecron/firecron"
RAW = "https://raw.githubusercontent.com/firecron/firecron/main"


def build(what: str, source: Path, folder: Path) -> Path:
    """The path of what the build backend makes of a source tree, without an environment of its own."""
    script = f"import sys, hatchling.build as backend; print(backend.build_{what}(sys.argv[1]))"
    made = subprocess.run(
        [sys.executable, "-c", script, str(folder)], cwd=source, check=True, capture_output=True, text=True
    )
    return folder / made.stdout.split()[-1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    folder = tmp_path_factory.mktemp("dist")
    with tarfile.open(build("sdist", ROOT, folder)) as sdist:
        sdist.extractall(folder, filter="data")
    [source] = [path for path in folder.iterdir() if path.is_dir()]
    with zipfile.ZipFile(build("wheel", source, folder)) as wheel:
        yield wheel


@pytest.fixture(scope="module")
def metadata(wheel: zipfile.ZipFile) -> Message:
    [name] = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    return message_from_bytes(wheel.read(name))


def test_every_link_of_the_description_leads_somewhere(metadata: Message) -> None:
    """Each link is absolute, and each into the repository is to a file or a folder of it; an image is a file itself."""
    assert metadata["Description-Content-Type"] == "text/markdown"
    description = metadata.get_payload(decode=True)
    assert isinstance(description, bytes)
    links = re.findall(r"\]\(([^)\s]+)\)", description.decode())
    into = [link.removeprefix(f"{REPOSITORY}/") for link in links if link.startswith(f"{REPOSITORY}/")]
    assert len(into) > 15
    assert [link for link in links if not re.match(r"https?://", link)] == []
    for link in into:
        kind, branch, path = link.partition("#")[0].split("/", 2)
        assert (kind, branch) == ("tree" if (ROOT / path).is_dir() else "blob", "main"), link
        assert (ROOT / path).exists(), link
    images = re.findall(r"!\[[^\]]*\]\(([^)\s]+)\)", description.decode())
    pictures = [image.removeprefix(f"{RAW}/") for image in images if image.startswith(RAW)]
    assert {image for image in images if not image.startswith((RAW, "https://img.shields.io/badge/"))} == set()
    assert [path for path in pictures if not (ROOT / path).is_file()] == []
    assert {"docs/pictures/demo.svg", "docs/pictures/one-tick.svg"} <= {*pictures}


def test_the_description_is_the_readme_but_for_its_links(metadata: Message) -> None:
    """Nothing else of the README is changed."""
    description = metadata.get_payload(decode=True)
    assert isinstance(description, bytes)
    links = re.compile(r"\]\([^)\s]+\)")
    readme = Path(ROOT, "README.md").read_text("utf-8")
    assert links.split(description.decode()) == links.split(readme)


def test_the_wheel_has_both_packages_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    """Each file of the two packages is at its place, beside the rules and the metadata."""
    packages = {ROOT / "src/firecron", ROOT / "emulator/rtdb_emulator"}
    files = {path for package in packages for path in package.rglob("*") if path.is_file() and path.suffix != ".pyc"}
    expected = {
        str(path.relative_to(package.parent)) for package in packages for path in files if package in path.parents
    }
    found = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert found == expected | {"firecron/database.rules.json"}


def test_the_wheel_has_the_rules_that_the_command_prints(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    """The command's module, as it lies in the wheel, reads the copy beside it, which is the repository's file."""
    module = wheel.extract("firecron/cli/commands/doctor.py", tmp_path)
    copy = wheel.extract("firecron/database.rules.json", tmp_path)
    assert Path(copy).read_bytes() == RULES.read_bytes()
    Path(copy).write_text("the copy", "utf-8")
    assert run_path(module)["shipped"]() == "the copy"
