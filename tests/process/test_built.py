"""What is published: the wheels that are built from the sdists of both distributions, and their metadata."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from runpy import run_path

import pytest
from tests.docs.documents import ROOT
from tests.stores.least_privilege import RULES

import rtdb_emulator
from firecron import __version__ as version

REPOSITORY = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["urls"]["Homepage"]
RAW = "https://raw.githubusercontent.com/firecron/firecron/main"


def build(what: str, source: Path, folder: Path) -> Path:
    """The path of what the build backend makes of a source tree, without an environment of its own."""
    script = f"import sys, hatchling.build as backend; print(backend.build_{what}(sys.argv[1]))"
    made = subprocess.run(
        [sys.executable, "-c", script, str(folder)], cwd=source, check=True, capture_output=True, text=True
    )
    return folder / made.stdout.split()[-1]


@contextmanager
def published(source: Path, folder: Path) -> Iterator[tuple[zipfile.ZipFile, set[str]]]:
    """The wheel that is built from the sdist of a source tree, and the files in that sdist."""
    with tarfile.open(build("sdist", source, folder)) as sdist:
        files = {member.name.partition("/")[2] for member in sdist.getmembers()}
        sdist.extractall(folder, filter="data")
    [unpacked] = [path for path in folder.iterdir() if path.is_dir()]
    with zipfile.ZipFile(build("wheel", unpacked, folder)) as wheel:
        yield wheel, files


@pytest.fixture(scope="module")
def firecron(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[zipfile.ZipFile, set[str]]]:
    with published(ROOT, tmp_path_factory.mktemp("dist")) as built:
        yield built


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[zipfile.ZipFile, set[str]]]:
    with published(ROOT / "emulator", tmp_path_factory.mktemp("dist")) as built:
        yield built


@pytest.fixture(scope="module")
def wheel(firecron: tuple[zipfile.ZipFile, set[str]]) -> zipfile.ZipFile:
    return firecron[0]


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


def package_files(package: Path) -> set[str]:
    """The files of a package, as a wheel names them."""
    files = (path for path in package.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return {path.relative_to(package.parent).as_posix() for path in files}


def test_a_wheel_has_its_package_and_nothing_else(
    firecron: tuple[zipfile.ZipFile, set[str]], emulator: tuple[zipfile.ZipFile, set[str]]
) -> None:
    """Each file of its package is at its place; beside them are the metadata, and in firecron's the rules."""
    for (wheel, _), package, more in (
        (firecron, ROOT / "src/firecron", {"firecron/database.rules.json"}),
        (emulator, ROOT / "emulator/rtdb_emulator", set()),
    ):
        found = {name for name in wheel.namelist() if ".dist-info/" not in name}
        assert found == package_files(package) | more


def test_firecrons_sdist_has_only_the_rules_of_the_emulators_folder(
    firecron: tuple[zipfile.ZipFile, set[str]], emulator: tuple[zipfile.ZipFile, set[str]]
) -> None:
    """The rules are firecron's; the sdist of the emulator has its own tests, and not the rules."""
    assert {name for name in firecron[1] if name.startswith("emulator")} == {"emulator/database.rules.json"}
    assert "tests/rtdb_emulator_tests/conftest.py" in emulator[1]
    assert {"README.md", "CHANGELOG.md", "LICENSE"} <= emulator[1]
    assert "database.rules.json" not in emulator[1]


def test_only_the_emulator_has_a_plugin_of_pytest_and_its_command(
    firecron: tuple[zipfile.ZipFile, set[str]], emulator: tuple[zipfile.ZipFile, set[str]]
) -> None:
    """A project that installs firecron alone gets no plugin; the command `rtdb-emulator` comes with the emulator."""

    def entries(wheel: zipfile.ZipFile) -> str:
        [name] = [name for name in wheel.namelist() if name.endswith(".dist-info/entry_points.txt")]
        return wheel.read(name).decode()

    assert entries(firecron[0]).split() == ["[console_scripts]", "firecron", "=", "firecron.cli:main"]
    assert "rtdb-emulator = rtdb_emulator.cli:main" in entries(emulator[0])
    assert "[pytest11]\nrtdb_emulator = rtdb_emulator.pytest_plugin" in entries(emulator[0])


def test_both_have_one_version_and_one_licence() -> None:
    """The two are released together, and `firecron[emulator]` asks for the emulator of its version or a later one."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert rtdb_emulator.__version__ == version
    assert project["optional-dependencies"]["emulator"] == [f"rtdb-emulator>={version}"]
    assert (ROOT / "emulator" / "LICENSE").read_text("utf-8") == (ROOT / "LICENSE").read_text("utf-8")


def test_the_emulators_description_leads_somewhere() -> None:
    """On the index there is no other file of the repository: each link of the README is absolute, or in the page."""
    text = (ROOT / "emulator" / "README.md").read_text("utf-8")
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    assert [link for link in links if not link.startswith(("https://", "#"))] == []
    into = [link.removeprefix(f"{REPOSITORY}/blob/main/") for link in links if link.startswith(f"{REPOSITORY}/blob/")]
    assert len(into) > 1
    assert [path for path in into if not (ROOT / path.partition("#")[0]).is_file()] == []


def test_the_wheel_has_the_rules_that_the_command_prints(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    """The command's module, as it lies in the wheel, reads the copy beside it, which is the repository's file."""
    module = wheel.extract("firecron/cli/commands/doctor.py", tmp_path)
    copy = wheel.extract("firecron/database.rules.json", tmp_path)
    assert Path(copy).read_bytes() == RULES.read_bytes()
    Path(copy).write_text("the copy", "utf-8")
    assert run_path(module)["shipped"]() == "the copy"
