"""One run of the command: data in, serve, data out.

The project's own database is in the file that the user names; each other database that holds anything is in a file
beside it, with its namespace before the ending (`data.json`, `data.other.json`). So an export is complete, an import of
it too, and each file by itself is what the Firebase console exports and imports.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rtdb_emulator.clock import Clock, wall_clock
from rtdb_emulator.emulator import Emulator
from rtdb_emulator.errors import Refusal
from rtdb_emulator.jsondata import encode
from rtdb_emulator.large import load_json
from rtdb_emulator.rules import RulesError
from rtdb_emulator.steps import own_process

logger = logging.getLogger("rtdb_emulator")

# Seconds between two looks at the file of the rules.
_PAUSE = 0.5


def run(
    *,
    host: str,
    port: int,
    project: str,
    rules: Path | None,
    imported: Path | None,
    export: Path | None,
    clock: Clock | None = None,
    seed: int | None = None,
    explain: bool = False,
    functions: str | None = None,
    wait: Callable[[], object],
    say: Callable[[str], None],
) -> None:
    """Serve until `wait` returns. The process is the emulator's own.

    Raises OSError or ValueError, with a line for the user, for rules, data or a port that can't be used.
    """
    if export is not None:
        _check_export(export)
    emulator = _make(
        rules,
        lambda: Emulator(
            host,
            port,
            rules,
            project=project,
            now=clock or wall_clock,
            explain=explain,
            seed=seed,
            functions=functions,
        ),
    )
    if imported is not None:
        load(emulator, project, imported)
    own_process()
    with emulator, following(emulator, rules):
        say(f"rtdb-emulator serves {emulator.url} (database {project})")
        say(f"  export FIREBASE_DATABASE_EMULATOR_HOST={emulator.host}")
        wait()
    if export is not None:
        for path in save(emulator, project, export):
            say(f"exported {path}")


@contextmanager
def following(emulator: Emulator, rules: Path | None) -> Iterator[None]:
    """Read the rules again when their file changes, until the block ends. Rules that can't be used change nothing."""
    if rules is None:
        yield
        return
    over = threading.Event()
    file = RulesFile(emulator, rules)

    def follow() -> None:
        while not over.wait(_PAUSE):
            file.look()

    thread = threading.Thread(target=follow, name="rtdb-emulator-rules", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


class RulesFile:
    """The file of the rules that an emulator has read already."""

    def __init__(self, emulator: Emulator, file: Path) -> None:
        self._emulator = emulator
        self._file = file
        self._text = self._read()

    def look(self) -> None:
        """Give the emulator the rules of the file if they have changed."""
        text = self._read()
        # An editor may have removed the file for a moment, or emptied it.
        if text == self._text or not text:
            return
        self._text = text
        try:
            self._emulator.replace_rules(self._file)
        except (OSError, ValueError) as error:
            logger.warning("%s can't be used, and the rules stay what they were: %s", self._file, error)
        else:
            logger.info("%s has changed: its rules hold from now on", self._file)

    def _read(self) -> bytes:
        try:
            return self._file.read_bytes()
        except OSError:
            return b""


def load(emulator: Emulator, project: str, file: Path) -> None:
    """Read an export into the emulator."""
    for namespace, path in ((project, file), *_beside(file)):
        try:
            emulator.set(namespace, "/", load_json(path.read_bytes()))
        except OSError as error:
            raise OSError(f"can't read the import {path}: {error.strerror}") from None
        except Refusal as refusal:
            raise ValueError(f"the import {path} can't be stored: {refusal.text}") from None


def save(emulator: Emulator, project: str, file: Path) -> list[Path]:
    """Write an export of the emulator; returns the files written."""
    written = []
    for namespace in {project: None, **dict.fromkeys(emulator.namespaces())}:
        data = emulator.get(namespace, priorities=True)
        path = _file_of(namespace, project, file)
        try:
            if data is None and namespace != project:
                path.unlink(missing_ok=True)  # of an earlier export: an import would bring it back
                continue
            _write(path, encode(data, pretty=True))
        except OSError as error:
            raise OSError(f"can't write the export {path}: {error.strerror}") from None
        written.append(path)
    return written


def _check_export(file: Path) -> None:
    """Raise OSError for an export that would fail at the end, when the data would be lost."""
    if file.is_dir():
        raise OSError(f"can't write the export {file}: it is a folder")
    if not file.parent.is_dir():
        raise OSError(f"can't write the export {file}: {file.parent} is not a folder")


def _write(path: Path, content: bytes) -> None:
    """Write a file whole or not at all. A pipe or a device is written to, and never replaced by a file."""
    if path.exists() and not path.is_file():
        path.write_bytes(content)
        return
    target = path.resolve()  # a symbolic link stays one
    partial = target.with_name(f"{target.name}.partial")
    partial.write_bytes(content)
    partial.replace(target)


def _make(rules: Path | None, make: Callable[[], Emulator]) -> Emulator:
    try:
        return make()
    except OSError as error:
        raise OSError(f"can't read the rules {rules}: {error.strerror}") from None
    except (RulesError, UnicodeDecodeError) as error:
        raise ValueError(f"the rules {rules} can't be used: {error}") from None


def _file_of(namespace: str, project: str, file: Path) -> Path:
    return file if namespace == project else file.with_name(f"{file.stem}.{namespace}.json")


def _beside(file: Path) -> Iterator[tuple[str, Path]]:
    name = re.compile(rf"{re.escape(file.stem)}\.(.+)\.json")
    for path in sorted(file.parent.iterdir()) if file.parent.is_dir() else ():
        if match := name.fullmatch(path.name):
            yield match[1], path
