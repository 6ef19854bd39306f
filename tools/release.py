"""Build what a release has, for `make build`: `release.py [TAG]`.

`dist/` gets a folder for each distribution, with the sdist and the wheel, which a package index takes. `build/release/`
gets what lies beside them: the checksums of all, the packages that the tests run with as a bill of materials
(CycloneDX), and the same with the hashes that the index has for them, for `pip install --require-hashes -r`. Both
distributions have one version, and a TAG has to be that one's, such as v0.1.0.
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
# The distributions in the order in which they are published, with the folder of each and the file of its version.
DISTRIBUTIONS = {
    "rtdb-emulator": (ROOT / "emulator", ROOT / "emulator" / "rtdb_emulator" / "__init__.py"),
    "firecron": (ROOT, ROOT / "src" / "firecron" / "__init__.py"),
}
CONSTRAINTS = ROOT / "requirements" / "constraints.txt"


def main(tag: str) -> int:
    versions = {version_of(file.read_text("utf-8")) for _, file in DISTRIBUTIONS.values()}
    if len(versions) != 1:
        print(f"the distributions have different versions: {', '.join(sorted(versions))}", file=sys.stderr)
        return 1
    [version] = versions
    if tag not in ("", f"v{version}"):
        print(f"the tag {tag} isn't that of version {version}: tag v{version}, or change __version__", file=sys.stderr)
        return 1
    for folder in (DIST, BESIDE):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    for name, (source, _) in DISTRIBUTIONS.items():
        run("build", "--outdir", str(DIST / name), str(source))
    built = sorted(DIST.glob("*/*"))
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
