"""The names of jobs, for the completion of a shell. They are kept for a minute, and nothing is said if there are none.

A shell asks at each press of the tab key, and waits for the answer. So the catalogue's names are kept in the user's
folder for caches, in a file for each database. It is named by a digest of the address: names are all that it has. What
goes wrong on the way is nothing that a shell could show: then no name is suggested, or those of an hour ago are.
"""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firecron.cli.contexts import named

if TYPE_CHECKING:
    from firecron.lock.database import Database

# In seconds: for how long names are believed, how long a shell waits, and for how long old names are better than none.
YOUNG, PATIENCE, OLD = 60.0, 1.0, 3_600.0


def complete_job(ctx: Any, incomplete: str) -> list[str]:  # typer's own click is private
    """Return the jobs that begin so, by the database that the command line names so far."""
    try:
        with named(*(ctx.params.get(option) for option in ("database", "prefix", "context"))):
            given = _given(ctx)
            return [name for name in known_names() if name.startswith(incomplete) and name not in given]
    except Exception:
        return []  # whatever it is, the command itself will say it


def known_names() -> list[str]:
    """Return the names of the catalogue: as they were kept, or as they are. Raise StoreError if neither is there."""
    from firecron.errors import StoreError
    from firecron.lock.database import Database

    database = Database()
    path = _folder() / f"names-{_digest(database)}.json"
    now, kept = time.time(), None
    with suppress(OSError, ValueError, KeyError, TypeError):
        found = json.loads(path.read_text("utf-8"))
        kept = float(found["at"]), [str(name) for name in found["names"]]
    if kept is not None and 0 <= now - kept[0] < YOUNG:
        return kept[1]
    try:
        names = sorted(database.store.keys(database.paths.jobs, database.deadline(PATIENCE)))
    except StoreError:
        if kept is not None and 0 <= now - kept[0] < OLD:
            return kept[1]
        raise
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_suffix(f".{os.getpid()}")
        new.write_text(json.dumps({"at": now, "names": names}), "utf-8")
        new.replace(path)
    return names


def _given(ctx: Any) -> set[str]:
    """Return the names that stand in the command line already."""
    values = (value for value in ctx.params.values() if isinstance(value, list | tuple))
    return {name for value in values for name in value if isinstance(name, str)}


def _digest(database: Database) -> str:
    # Imported here, because it loads OpenSSL, and only a shell's completion needs a digest.
    from hashlib import sha256

    target = database.target()
    return sha256(f"{target.base_url} {target.parameters} {database.settings.prefix}".encode()).hexdigest()[:16]


def _folder() -> Path:
    """Return this user's folder for caches."""
    if found := os.environ.get("XDG_CACHE_HOME"):
        return Path(found, "firecron")
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local", "firecron", "cache")
    return Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "firecron"
