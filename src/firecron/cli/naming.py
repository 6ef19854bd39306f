"""The database in words, and suggestions for a misspelt name."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from firecron.cli.output import Output
from firecron.errors import Denied
from firecron.ops.findings import database_in_words
from firecron.ops.forgetting import Catalogue
from firecron.ops.operator import Operator
from firecron.rtdb.target import find_target
from firecron.settings import Settings


def database_of(settings: Settings) -> str:
    """Return the database that the commands work on, as `doctor` names it, with the prefix. No I/O."""
    found = database_in_words(find_target(None, settings.database_url, uid=settings.uid))
    return f"{found}, below {settings.prefix}/" if settings.prefix else found


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return `; did you mean a or b?`, or an empty text if none of the names is close."""
    close = get_close_matches(name, [other for other in names if other != name])
    return f"; did you mean {' or '.join(close)}?" if close else ""


def close_to(place: Operator | Catalogue, name: str) -> str:
    """Return `did_you_mean` for the names of the locks, or of the jobs in the catalogue."""
    try:
        return did_you_mean(name, place.names())
    except Denied:
        return ""  # a user who may not list the names gets no suggestion


def remark_on(output: Output, operator: Operator, name: str) -> None:
    """Print the database's names that are similar to `name`, which it doesn't have. Without any, print nothing."""
    close = close_to(operator, name)
    if close:
        output.say(f"firecron: there is no {name}{close}")
