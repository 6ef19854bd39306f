"""Plays scenes of real Node clients (`node/scenes/*.mjs`) in a process that stays, because starting one takes long."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

# Where the clients are, and their scenes.
CLIENTS = Path(__file__).parents[1] / "node"

# Seconds. A scene gives up after 20 seconds of waiting for one thing, and says for what.
BOUND = 40.0


def node(packages: Path = CLIENTS) -> str | None:
    """The Node.js that `make node` has installed the packages of this folder with; None if it hasn't."""
    stamp = packages / "node_modules" / "installed.json"
    if not stamp.exists():
        return None
    found: str = json.loads(stamp.read_text("utf-8"))["node"]
    return found if Path(found).exists() else None


def needed(packages: Path = CLIENTS) -> str:
    """The same; without one, the test is skipped."""
    found = node(packages)
    if found is None:
        pytest.skip(
            f"what runs on Node.js is not installed: make {'firebase' if packages.name == 'firebase' else 'node'}"
        )
    return found


class Stage:
    """A process that plays one scene at a time."""

    def __init__(self, executable: str) -> None:
        # What the clients warn of shows in the test's output.
        self.process = subprocess.Popen(
            [executable, str(CLIENTS / "host.mjs")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            # Each scene says itself where its emulator is.
            env={key: value for key, value in os.environ.items() if key != "FIREBASE_DATABASE_EMULATOR_HOST"},
        )

    def close(self) -> None:
        """Kill the process, as a machine that loses its power would."""
        self.process.kill()
        self.process.communicate()

    @contextmanager
    def play(self, scene: str, host: str, namespace: str, **given: object) -> Iterator[Scene]:
        """Play a scene: `file.function`. At the block's end it has ended too."""
        watchdog = threading.Timer(BOUND, self.process.kill)
        watchdog.daemon = True
        watchdog.start()
        try:
            playing = Scene(self.process)
            playing.write({"play": scene, "host": host, "namespace": namespace, "with": given})
            yield playing
            playing.end()
        except BaseException:
            # The scene may wait for the test, which has failed.
            self.close()
            raise
        finally:
            watchdog.cancel()


class Scene:
    """A scene that plays now: what it reports, and what the test tells it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._ended = False
        self._result: Any = None

    def hear(self) -> Any:
        """Return the scene's next report."""
        message = self._read()
        assert "report" in message, f"the scene has no more reports: {message}"
        return message["report"]

    def tell(self, what: object) -> None:
        self.write({"tell": what})

    def end(self) -> Any:
        """Wait for the scene's end, and return its result."""
        if not self._ended:
            message = self._read()
            assert "end" in message, f"the scene has a report that the test doesn't expect: {message}"
            self._ended = True
            self._result = message["end"]
        return self._result

    def abandon(self) -> None:
        """Expect no end of a scene whose process was killed."""
        self._ended = True

    def write(self, message: object) -> None:
        assert self._process.stdin is not None
        print(json.dumps(message), file=self._process.stdin, flush=True)

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the process of the scene has ended"
        message: dict[str, Any] = json.loads(line)
        assert "error" not in message, message["error"]
        return message
