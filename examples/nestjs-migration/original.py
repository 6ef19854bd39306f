"""The lock service of the NestJS original (`lock-service.mjs`), in a Node process of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

HERE = Path(__file__).parent


class Original:
    """One instance of the original; a context manager.

    Raises SystemExit, with the remedy, where Node.js or the package of the original is missing.
    """

    def __init__(self, database_url: str, instance_id: str) -> None:
        node = shutil.which("node")
        if node is None or not (HERE / "node_modules" / "firebase-admin").exists():
            raise SystemExit("The original runs in Node.js: install Node.js 20 or newer, and run npm install here")
        self._process = subprocess.Popen(
            [node, str(HERE / "original.mjs"), database_url],
            env={**os.environ, "K_REVISION": instance_id},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            self._process.kill()
        self._process.communicate()

    def acquire(self, name: str, late: float = 0) -> bool:
        """Try to acquire the lock, by a clock that is `late` seconds late. Return whether it is the original's now."""
        self.tell("acquire", name=name, late=late * 1000)
        return self.hear() is True

    def release(self, name: str) -> None:
        self.tell("release", name=name)
        self.hear()

    def tell(self, do: str, **given: object) -> None:
        assert self._process.stdin is not None
        print(json.dumps({"do": do, **given}), file=self._process.stdin, flush=True)

    def hear(self) -> object:
        """Return the answer to the last command. Raise SystemExit if the original has ended."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("the original has ended; its error is above")
        return json.loads(line)


def emulator_host() -> str:
    """Return the emulator's host and port. Raises SystemExit, with the remedy, if there is no emulator."""
    host = os.environ.get("FIREBASE_DATABASE_EMULATOR_HOST")
    if host is None:
        raise SystemExit("FIREBASE_DATABASE_EMULATOR_HOST is not set: run firecron emulator -- python side_by_side.py")
    return host
