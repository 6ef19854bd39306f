"""Build what a release has, for `make build`: `release.py [TAG]`.

`dist/` gets the sdist and the wheel, which a package index takes. `build/release/` gets what lies beside them: the
checksums of both, the packages that the tests run with as a bill of materials (CycloneDX), and the same with the hashes
that the index has for them, for `pip install --require-hashes -r`. A TAG has to be the version's, such as v0.1.0.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
BESIDE = ROOT / "build" / "release"
CONSTRAINTS = ROOT / "requirements" / "constraints.txt"


def main(tag: str) -> int:
    version = version_of((ROOT / "src" / "firecron" / "__init__.py").read_text("utf-8"))
    if tag not in ("", f"v{version}"):
        print(f"the tag {tag} isn't that of version {version}: tag v{version}, or change __version__", file=sys.stderr)
        return 1
    for folder in (DIST, BESIDE):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    run("build", "--outdir", str(DIST))
    built = sorted(DIST.iterdir())
    run("twine", "check", "--strict", *map(str, built))
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in built]
    (BESIDE / "SHA256SUMS").write_text("".join(sums), "utf-8")
    bill = ["--pyproject", str(ROOT / "pyproject.toml"), "--mc-type", "library", "--output-reproducible"]
    run("cyclonedx_py", "requirements", *bill, "-o", str(BESIDE / "firecron.cdx.json"), str(CONSTRAINTS))
    plain = ["--generate-hashes", "--no-deps", "--no-header", "--no-annotate", "--quiet"]
    run("uv", "pip", "compile", *plain, "-o", str(BESIDE / "constraints-with-hashes.txt"), str(CONSTRAINTS))
    for path in [*built, *sorted(BESIDE.iterdir())]:
        print(f"{path.relative_to(ROOT)}  {path.stat().st_size:,} bytes")
    return 0


def version_of(text: str) -> str:
    """Return the version that the package's source names."""
    [version] = re.findall(r'^__version__ = "([^"]+)"$', text, re.MULTILINE)
    return str(version)


def run(module: str, *arguments: str) -> None:
    """Run a tool of the environment, and end with its exit code if it fails."""
    ended = subprocess.run([sys.executable, "-m", module, *arguments], cwd=ROOT, check=False)
    if ended.returncode != 0:
        sys.exit(ended.returncode)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else ""))
