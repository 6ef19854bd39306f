"""The database in words, and what a misspelt name may have meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from firecron.cli.output import Output
from firecron.errors import Denied
from firecron.ops.findings import database_in_words
from firecron.ops.operator import Operator
from firecron.rtdb.target import find_target
from firecron.settings import Settings


def database_of(settings: Settings) -> str:
    """Which database the commands work on, as `doctor` names it, and below which path. No I/O."""
    found = database_in_words(find_target(None, settings.database_url, uid=settings.uid))
    return f"{found}, below {settings.prefix}/" if settings.prefix else found


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """`; did you mean a or b?`, or nothing where no name is close."""
    close = get_close_matches(name, [other for other in names if other != name])
    return f"; did you mean {' or '.join(close)}?" if close else ""


def close_to(operator: Operator, name: str) -> str:
    """`did_you_mean` of the names in the database."""
    try:
        return did_you_mean(name, operator.names())
    except Denied:
        return ""  # to a user who may not list the names, none can be offered


def remark_on(output: Output, operator: Operator, name: str) -> None:
    """Say which names are close to one that the database doesn't have, if any are."""
    close = close_to(operator, name)
    if close:
        output.say(f"firecron: there is no {name}{close}")
