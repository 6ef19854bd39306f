"""Texts from the database as they may be printed: one line of printable characters."""

from __future__ import annotations

_LONGEST = 500


def plain(text: str) -> str:
    """Return the text as one line of printable characters, cut if long: the database may hold any text."""
    joined = text.replace("\r\n", "\n").replace("\n", " ⏎ ")
    shown = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in joined)
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}…"
