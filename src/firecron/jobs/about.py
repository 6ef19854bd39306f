"""What a person should know of a job or a leader: what it does, whose it is, and where it says what to do.

    description    a sentence, 200 characters at most; unless given, the first line of the function's docstring
    owner          a team or a person, 100 characters at most
    runbook        an address that begins with https://, 500 characters at most

A program gives them, the catalogue has them (`jobs/catalogue`), and whoever is told of the job is told them, too. They
decide nothing. Any writer may have set what is read from the database: an address that is not https:// is left out.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from firecron.base.texts import cut, plain, storable
from firecron.errors import ConfigurationError

LONGEST = {"description": 200, "owner": 100, "runbook": 500}
# A host without a user before it: https://docs.example.com@elsewhere.example leads elsewhere.
_ADDRESS = re.compile(r"https://[^\s/?#@\\]+(?:[/?#]\S*)?")


@dataclass(frozen=True, slots=True)
class About:
    """What a person should know of a job or a leader. What is not known is None."""

    description: str | None = None
    owner: str | None = None
    runbook: str | None = None

    def fields(self) -> dict[str, str | None]:
        """Return all fields, by the names that the catalogue, events and programs have for them."""
        return {"description": self.description, "owner": self.owner, "runbook": self.runbook}

    def known(self) -> dict[str, str]:
        """Return the fields that are known."""
        return {name: text for name, text in self.fields().items() if text is not None}

    def lines(self) -> list[str]:
        """Return what is known, in lines for a terminal: the description, and whose it is."""
        whose = [f"{name} {text}" for name, text in self.known().items() if name != "description"]
        return [line for line in (self.description, ", ".join(whose)) if line]

    def of(self, function: object) -> About:
        """Return this for the function: without a description, with the first line of its docstring."""
        if self.description is not None:
            return self
        while isinstance(function, functools.partial):
            function = function.func
        # An object that can be called has its class's text, which is about all objects of the class.
        text = getattr(function, "__doc__", None) if hasattr(function, "__code__") else None
        first = next((line for line in map(str.strip, (text or "").splitlines()) if line), None)
        return self if first is None else replace(self, description=cut(_in_line(first), LONGEST["description"]))


# Of a job that says nothing of itself.
NOTHING = About()


def check_about(description: object, owner: object, runbook: object) -> About:
    """Return what is given. Raise ConfigurationError for what can't be stored, or is no https:// address."""
    given = About(_text(description, "description"), _text(owner, "owner"), _text(runbook, "runbook"))
    if given.runbook is not None and not _is_address(given.runbook):
        raise ConfigurationError(f"runbook={runbook!r} must be an address such as https://wiki.example.com/digest")
    return given


def read_about(node: Mapping[object, object]) -> About:
    """Return what a node says, whoever has written it. The texts are safe to print."""
    found = {name: value for name in LONGEST if isinstance(value := node.get(name), str) and value}
    runbook = found.pop("runbook", None)
    texts = {name: plain(cut(text, LONGEST[name])) for name, text in found.items()}
    return About(**texts, runbook=runbook if runbook is not None and _is_address(runbook) else None)


def _text(value: object, name: str) -> str | None:
    if value is None:
        return None
    text = _in_line(storable(value)) if isinstance(value, str) else ""
    if not text:
        raise ConfigurationError(f"{name}={value!r} must be a text, or None")
    if cut(text, LONGEST[name]) != text:
        raise ConfigurationError(
            f"{name} has {len(text)} characters, and at most {LONGEST[name]} are stored: {text[:40]!r}…"
        )
    return text


def _in_line(text: str) -> str:
    return " ".join(text.split())


def _is_address(text: str) -> bool:
    return len(text) <= LONGEST["runbook"] and text.isprintable() and _ADDRESS.fullmatch(text) is not None
