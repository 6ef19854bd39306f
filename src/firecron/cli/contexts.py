"""Contexts: names for databases, kept for one user of one machine; and the options that say which database is meant.

    firecron context add prod --database https://orders.firebaseio.com --prefix ops/cron
    firecron status --context prod

The file `contexts.json` in the user's folder for settings has the address and the prefix of each, and no secrets: who
may read a database is decided by the credentials, as ever. It is replaced as a whole, so two commands that change it at
once may lose one change, but never the file.

Every command that works on a database takes `--database`, `--prefix` and `--context`. They stand for the variables of
the environment while it runs (`named`). What is given beside a context replaces what the context says.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

import typer

from firecron.errors import ConfigurationError
from firecron.store import is_name

URL_VARIABLE, PREFIX_VARIABLE = "FIRECRON_DATABASE_URL", "FIRECRON_PREFIX"

# --- the file


@dataclass(frozen=True, slots=True)
class Context:
    """A database by its name. `prefix` is empty where there is none."""

    name: str
    database: str
    prefix: str = ""

    def to_json(self) -> dict[str, str]:
        """Return the context for programs."""
        return {"name": self.name, "database": self.database, "prefix": self.prefix}


def file_of_contexts() -> Path:
    """Return where the contexts of this user are kept."""
    return Path(typer.get_app_dir("firecron"), "contexts.json")


def read_contexts() -> dict[str, Context]:
    """Return the contexts by their names. Raise ConfigurationError if the file can't be read."""
    path = file_of_contexts()
    try:
        found = json.loads(path.read_text("utf-8"))["contexts"]
        return {name: Context(name, str(one["database"]), str(one.get("prefix") or "")) for name, one in found.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        remedy = "mend it, or delete it and add the contexts anew"
        raise ConfigurationError(f"{path} can't be read ({error}): {remedy}") from error


def write_contexts(contexts: Mapping[str, Context]) -> None:
    """Replace the file. Raise ConfigurationError if that fails."""
    path = file_of_contexts()
    kept = {one.name: {"database": one.database, "prefix": one.prefix} for one in contexts.values()}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_suffix(f".{os.getpid()}")
        new.write_text(json.dumps({"contexts": dict(sorted(kept.items()))}, indent=2) + "\n", "utf-8")
        new.replace(path)
    except OSError as error:
        raise ConfigurationError(f"{path} can't be written: {error}") from error


def find_context(name: str) -> Context:
    """Return the context of this name. Raise ConfigurationError if there is none."""
    contexts = read_contexts()
    if name not in contexts:
        remedy = f"add it: firecron context add {name if is_name(name) else 'NAME'} --database URL"
        if close := get_close_matches(name, contexts):
            remedy = f"did you mean {' or '.join(close)}?"
        raise ConfigurationError(f"there is no context {name!r}; {remedy}")
    return contexts[name]


# --- which database a command works on

# The options of the command that runs: a command line that is printed to be copied has to name the same database.
_given: list[str] = []


def here(command: str) -> str:
    """Return one of firecron's command lines for the database of the command that runs."""
    return shlex.join([*shlex.split(command), *_given]) if _given and command.startswith("firecron ") else command


@contextmanager
def named(database: str | None, prefix: str | None, context: str | None) -> Iterator[None]:
    """Let the environment name the database of these options in the block. Raise ConfigurationError without it."""
    options = {"--context": context, "--database": database, "--prefix": prefix}
    found = None if context is None else find_context(context)
    if found is not None:
        database = found.database if database is None else database
        prefix = found.prefix if prefix is None else prefix
    values = {URL_VARIABLE: database, PREFIX_VARIABLE: prefix}
    before = {name: os.environ.get(name) for name in values}
    _given[:] = [word for option, value in options.items() if value is not None for word in (option, value)]
    try:
        _set({name: value for name, value in values.items() if value is not None})
        yield
    finally:
        _given.clear()
        _set(before)


def _set(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def complete_context(incomplete: str) -> list[str]:
    """Return the contexts that begin so, for a shell."""
    try:
        return [name for name in read_contexts() if name.startswith(incomplete)]
    except ConfigurationError:
        return []
