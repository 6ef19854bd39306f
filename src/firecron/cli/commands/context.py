"""`firecron context`: give databases names, for the option `--context` of the other commands."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, TypeAlias

import typer
from rich.text import Text

from firecron.cli.contexts import (
    Context,
    complete_context,
    file_of_contexts,
    find_context,
    read_contexts,
    write_contexts,
)
from firecron.cli.options import Json
from firecron.cli.output import Exit, Failure, answering
from firecron.errors import ConfigurationError
from firecron.rtdb.target import find_target
from firecron.settings import load
from firecron.store import is_name

Existing: TypeAlias = Annotated[
    str, typer.Argument(metavar="NAME", help="Name of the context.", autocompletion=complete_context)
]

context = typer.Typer(no_args_is_help=True, rich_markup_mode=None, add_completion=False)


@context.command(epilog="Example: firecron context add prod --database https://orders.firebaseio.com --prefix ops/cron")
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A letter, then letters, digits, - and _.")],
    database: Annotated[str, typer.Option("--database", metavar="URL", help="The database, without secrets.")],
    prefix: Annotated[str, typer.Option("--prefix", metavar="PATH", help="The path above all nodes.")] = "",
    force: Annotated[bool, typer.Option("--force", help="Replace a context of this name.")] = False,
    as_json: Json = False,
) -> None:
    """Name a database. Nothing is asked of it.

    An emulator's database is http://HOST:PORT?ns=NAME.
    """
    with answering(as_json=as_json) as output:
        if not is_name(name):
            raise Failure(f"{name!r} can't name a context: use a letter, then letters, digits, - and _", Exit.USAGE)
        contexts = read_contexts()
        new = Context(name, *_checked(database, prefix))
        if name in contexts and contexts[name] != new and not force:
            there = _line(contexts[name])
            raise Failure(f"there is a context {name} already ({there}): --force replaces it", Exit.USAGE)
        write_contexts({**contexts, name: new})
        said = f"{name}: {_line(new)}\nUse it so: firecron status --context {name}"
        output.give({"context": new.to_json()}, Text(said))


@context.command("list", epilog="Example: firecron context list")
def list_all(as_json: Json = False) -> None:
    """List the contexts, and where they are kept."""
    with answering(as_json=as_json) as output:
        found = sorted(read_contexts().values(), key=lambda one: one.name)
        value = {"file": str(file_of_contexts()), "contexts": [one.to_json() for one in found]}
        output.give(value, Text("\n").join(_lines(found)))


@context.command(epilog="Example: firecron context show prod")
def show(name: Existing, as_json: Json = False) -> None:
    """Show one context."""
    with answering(as_json=as_json) as output:
        found = find_context(name)
        output.give({"context": found.to_json()}, Text(_line(found)))


@context.command(epilog="Example: firecron context remove prod")
def remove(name: Existing, as_json: Json = False) -> None:
    """Remove a context. Its database stays as it is."""
    with answering(as_json=as_json) as output:
        found = find_context(name)
        write_contexts({key: one for key, one in read_contexts().items() if key != name})
        output.give({"context": found.to_json()}, Text(f"{name}: removed"))


def _checked(database: str, prefix: str) -> tuple[str, str]:
    """Return both as they are kept. Raise ConfigurationError for what can't be used, or has a secret in it."""
    settings = load(database_url=database, prefix=prefix)
    found = settings.database_url or ""
    if found.startswith("http://"):
        find_target(None, found)
    elif not found.startswith("https://"):
        raise ConfigurationError("--database must begin with https://, or with http:// for an emulator")
    return found, settings.prefix


def _lines(found: Iterable[Context]) -> list[Text]:
    lines = [Text(one.name, "bold").append(f": {_line(one)}", "not bold") for one in found]
    return lines or [Text("There is no context. Add one: firecron context add NAME --database URL")]


def _line(found: Context) -> str:
    return f"{found.database}{f', below {found.prefix}/' if found.prefix else ''}"
