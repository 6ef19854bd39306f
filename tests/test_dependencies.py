"""What is imported is declared: a package that comes with another one may go, or be older, without a word.

The sources are read, never imported. An exception to a rule is a constant with its reason.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
EMULATOR = tomllib.loads((ROOT / "emulator" / "pyproject.toml").read_text("utf-8"))["project"]

# Which modules an extra is for. What the others import has to come with the library itself.
HOMES = {
    "cli": ("firecron.cli", "firecron.demo"),
    "flask": ("firecron.web",),
    "otel": ("firecron.otel",),
    "page": ("firecron.cli.commands.page",),
    "sentry": ("firecron.sentry",),
}
# These are imported only in a program that has them: Django, a Starlette in which the page is mounted, pytest; and what
# `firecron init` writes has FastAPI, and jobs in a module of that name.
WHERE_THEY_ARE = {
    "firecron.cli.commands.init": {"fastapi", "jobs"},
    "firecron.cli.options": {"django"},
    "firecron.management.commands.firecron": {"django"},
    "firecron.runs.body": {"django"},
    "firecron.web": {"starlette", "django"},
    "rtdb_emulator.pytest_plugin": {"pytest"},
}
# Several packages fill the namespace `google`.
GOOGLE = {
    "google.api_core": "google-api-core",
    "google.auth": "google-auth",
    "google.cloud.logging": "google-cloud-logging",
    "google.cloud.tasks": "google-cloud-tasks",
}
# What a declared package has in its own interface: Django's async one, Sphinx's nodes, the errors of Cloud Tasks.
PARTS = {
    "asgiref": "django",
    "werkzeug": "flask",
    "docutils": "sphinx",
    "pygments": "sphinx",
    "google-api-core": "google-cloud-tasks",
    "grpcio": "google-cloud-tasks",
}
# Benchmarks compare with Redis and PostgreSQL where their clients are installed. A test writes a Django project named
# shop. An example runs in Firebase's functions, which `make functions` installs in an environment of their own.
NOT_NEEDED = {"redis", "psycopg", "procrastinate", "shop", "firebase-functions", "functions-framework"}

DISTRIBUTIONS = packages_distributions()
OWN = {"firecron", "rtdb_emulator", "rtdb_emulator_tests", "tests", "tools"}
# Lines, because parsing the sources takes seconds.
IMPORT = re.compile(r"^ *(?:import ([\w.]+(?:, [\w.]+)*)|from (?!\.)([\w.]+) import \(?\s*(\w+))", re.MULTILINE)
FOR_TYPES = re.compile(r"^if (?:typing\.)?TYPE_CHECKING:\n(?:(?: {4}.*)?\n)+", re.MULTILINE)


def test_the_library_imports_what_is_declared() -> None:
    """Each import of the library, a lazy one too, is the project's or that module's extra's."""
    undeclared = []
    for path in sorted((ROOT / "src").rglob("*.py")):
        module = ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
        extras = {extra for extra, homes in HOMES.items() if _is_in(module, homes)}
        known = _declared(*sorted(extras)) | WHERE_THEY_ARE.get(module, set())
        undeclared += [f"{module} imports {name}" for name in imported(path) if not _distributions(name) & known]
    assert undeclared == []


def test_the_emulator_imports_what_its_project_declares() -> None:
    """Each import of the emulator is a requirement of its own project, or of its tests; and none is of firecron."""
    needed = {_name(requirement) for requirement in EMULATOR["dependencies"]}
    of_tests = needed | {_name(requirement) for requirement in EMULATOR["optional-dependencies"]["dev"]}
    undeclared = []
    for folder, known in (("rtdb_emulator", needed), ("tests", of_tests)):
        for path in sorted((ROOT / "emulator" / folder).rglob("*.py")):
            if "node_modules" in path.parts:
                continue
            also = known | WHERE_THEY_ARE.get(f"rtdb_emulator.{path.stem}", set())
            undeclared += [f"{path} imports {name}" for name in imported(path) if not _distributions(name) & also]
            own = re.findall(r"^ *(?:from|import) (firecron|tests|tools)\b", path.read_text("utf-8"), re.MULTILINE)
            undeclared += [f"{path} imports {name}" for name in own]
    assert undeclared == []


def test_both_projects_ask_for_the_same_lowest_versions() -> None:
    """What both name, both were tried with: one environment runs the tests of both with the lowest versions."""
    ours = {_name(one): one for one in [*PROJECT["dependencies"], *(one for extra in EXTRAS.values() for one in extra)]}
    theirs = [*EMULATOR["dependencies"], *EMULATOR["optional-dependencies"]["dev"]]
    assert [one for one in theirs if ours.get(_name(one), one) != one] == []


@pytest.mark.parametrize("folder", ["tests", "tools", "examples"])
def test_a_checkout_imports_what_is_declared(folder: str) -> None:
    """Each import of the tests, tools and examples is of a package that a development install names."""
    known = _declared(*EXTRAS) | NOT_NEEDED
    own = {path.stem for path in (ROOT / folder).rglob("*.py")}
    undeclared = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for name in imported(path)
        if name not in own and not _distributions(name) & known
    ]
    assert undeclared == []


def test_an_import_over_several_lines_is_seen(tmp_path: Path) -> None:
    """The names that are imported may stand in parentheses, on lines of their own."""
    path = tmp_path / "module.py"
    path.write_text("from apart import (\n    one,\n    two,\n)\nfrom google import (auth)\n", "utf-8")
    assert list(imported(path)) == ["apart", "google.auth"]


def imported(path: Path) -> Iterator[str]:
    """The packages of others that a file imports when it runs, wherever in it; not those for types alone."""
    for whole, module, attribute in IMPORT.findall(FOR_TYPES.sub("", path.read_text("utf-8"))):
        for name in whole.split(", ") if whole else [f"{module}.{attribute}"]:
            package = name.partition(".")[0]
            if package not in OWN and package not in sys.stdlib_module_names:
                yield name if package == "google" else package


def _distributions(name: str) -> set[str]:
    """The distributions that fill an imported package; the one that is declared for a part of another one."""
    google = [distribution for package, distribution in GOOGLE.items() if name.startswith(package)]
    found = {_normal(distribution) for distribution in google or DISTRIBUTIONS.get(name, [name])}
    return {PARTS.get(distribution, distribution) for distribution in found}


@cache
def _declared(*extras: str) -> set[str]:
    """The distributions that the project names, and these extras of it."""
    requirements = [*PROJECT["dependencies"], *(one for extra in extras for one in EXTRAS[extra])]
    return {_name(requirement) for requirement in requirements}


def _name(requirement: str) -> str:
    return _normal(re.split(r"[^\w.-]", requirement, maxsplit=1)[0])


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _is_in(module: str, homes: tuple[str, ...]) -> bool:
    return any(module == home or module.startswith(f"{home}.") for home in homes)
