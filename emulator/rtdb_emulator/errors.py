"""The errors of the database, with the texts that go over the wire."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rtdb_emulator.rules.explain import Refused


class Refusal(Exception):
    """The database refuses a request; `text` is what the client reads."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class BadRequest(Refusal):
    """The database can't understand the request (HTTP 400)."""


class Denied(Refusal):
    """The rules, or missing credentials, forbid the request (HTTP 401).

    Where rules forbid it, `refused` has what they were evaluated with, and `rules.explain` says why.
    """

    def __init__(self, text: str = "Permission denied", refused: Refused | None = None) -> None:
        super().__init__(text)
        self.refused = refused
