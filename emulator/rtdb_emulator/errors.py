"""What the database refuses, with the text that goes over the wire."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rtdb_emulator.rules.explain import Refused


class Refusal(Exception):
    """The database says no; `text` is what the client reads."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class BadRequest(Refusal):
    """The request makes no sense to the database (HTTP 400)."""


class Denied(Refusal):
    """The rules, or missing credentials, forbid it (HTTP 401). What the rules forbid, `rules.explain` can say why."""

    def __init__(self, text: str = "Permission denied", refused: Refused | None = None) -> None:
        super().__init__(text)
        self.refused = refused
