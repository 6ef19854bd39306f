"""A remedy: what to do about a verdict, a refusal or a finding, as data. Pure.

`words` say what to do, `act` is what a button of the page does, and `command` does it at a terminal. There may be no
act or no command. No words name a command: whoever shows a remedy chooses its form. `remedies` says which remedy fits.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Literal, TypeAlias

from firecron.base.texts import plain

ActWord: TypeAlias = Literal[
    "run", "run_missed", "run_again", "pause", "pause_until", "resume", "cancel", "depose", "unlock", "mute", "unmute",
    "forget", "mend",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Remedy:
    """What to do. `tick` is the tick that the act is about, if it is about one: a slot, or the key of a run."""

    words: str
    act: ActWord | None = None
    command: str | None = None
    tick: str | None = None

    def __str__(self) -> str:
        """Say it at a terminal."""
        return self.words if self.command is None else f"{self.words}: {self.command}"

    def to_json(self) -> dict[str, object]:
        """Return the remedy for programs: it always has every field."""
        return {"act": self.act, "words": self.words, "command": self.command, "tick": self.tick}


# Of a job that somebody expects, and that the catalogue doesn't have.
UNDECLARED = Remedy(
    "see whether this is the right database and prefix, and whether the job's program has ever started",
    command="firecron doctor",
)


def mending(name: str, path: str) -> Remedy:
    """Return what to do about a node that nobody can claim."""
    words = (
        f"mend the node {path} in the Firebase console: set a wrong expiresAt to 0, and remove any other wrong field; "
        "deleting the node forgets its last slot and fence"
    )
    return Remedy(words, "mend", command("locks", name))


def freeing(name: str) -> Remedy:
    """Return what to do about a lock whose holder is probably dead, or would not hear that it is to stop."""
    return Remedy("make sure that its run has ended, then unlock it", "unlock", command("unlock", name))


def forgetting(name: str, otherwise: str) -> Remedy:
    """Return what to do about a job that nobody has: something else, unless it was taken out."""
    return Remedy(f"{otherwise}; or forget the job if it was taken out", None, command("forget", name))


def command(name: str, *arguments: str) -> str:
    """Return the command line of one of firecron's commands."""
    return shlex.join(["firecron", name, *arguments])


def service_in_words(service: str | None) -> str:
    """Return the name of a service for people: what they start, and whose log they read. Outside of Cloud Run it has
    none.
    """
    return "its program" if service in (None, "", "local") else plain(service)
