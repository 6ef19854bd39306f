"""What the database refuses, with the text that goes over the wire."""

from __future__ import annotations


class Refusal(Exception):
    """The database says no; `text` is what the client reads."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class BadRequest(Refusal):
    """The request makes no sense to the database (HTTP 400)."""


class Denied(Refusal):
    """The rules, or missing credentials, forbid it (HTTP 401)."""

    def __init__(self, text: str = "Permission denied") -> None:
        super().__init__(text)


class Unsupported(Refusal):
    """Something of the official emulator that this one does not have (HTTP 501)."""
