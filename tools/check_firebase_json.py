"""Check firebase.json against the JSON schema inside the newest firebase-tools package, fetched through npm."""

import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import jsonschema

ROOT = Path(__file__).resolve().parent.parent
SCHEMA = "package/schema/firebase-config.json"


def main() -> None:
    npm = shutil.which("npm")
    if npm is None:
        sys.exit("npm is not installed: firebase.json was not checked against the schema of firebase-tools")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([npm, "pack", "firebase-tools", "--silent"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        (archive,) = Path(folder).glob("firebase-tools-*.tgz")
        with tarfile.open(archive) as package:
            member = package.extractfile(SCHEMA)
            if member is None:
                sys.exit(f"{archive.name} has no {SCHEMA}: look for where the schema went")
            schema = json.load(member)
    config = json.loads((ROOT / "firebase.json").read_text(encoding="utf-8"))
    errors = list(jsonschema.Draft7Validator(schema).iter_errors(config))
    for error in errors:
        print(f"firebase.json: {error.json_path}: {error.message}")
    if errors:
        sys.exit(1)
    print(f"firebase.json is valid by the schema in {archive.name}")


if __name__ == "__main__":
    main()
