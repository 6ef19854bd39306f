"""Where an error is: the rules text, and the way from a character of a rule back to its place in it.

Promises: a `RulesError` names the line and the column of the offending character in the document, both counted from 1,
a column in characters. Inside an expression that place is exact as well, escapes and line breaks of the JSON string
included: `Text.places` remembers where each decoded character was read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

SURROGATE_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


class RulesError(ValueError):
    """These rules can't be used; correct the named line and column of the rules text and upload them again.

    Args:
        line: The line, counted from 1.
        column: The column, counted from 1.
        message: What is wrong there.
    """

    def __init__(self, line: int, column: int, message: str) -> None:
        super().__init__(f"{line}:{column}: {message}")
        self.line = line
        self.column = column
        self.message = message

    def __reduce__(self) -> tuple[type[RulesError], tuple[int, int, str]]:
        # An exception is pickled with its args, here the one joined text, from which it can't be made again.
        return type(self), (self.line, self.column, self.message)


def error_at(document: str, offset: int, message: str) -> RulesError:
    """The error for what stands at that offset of the document."""
    line = document.count("\n", 0, offset) + 1
    return RulesError(line, offset - document.rfind("\n", 0, offset), message)


@dataclass(frozen=True, slots=True)
class Text:
    """A string of the document, decoded: `places` holds the document's offset of each character and of the end."""

    value: str
    places: Sequence[int]
    document: str

    @classmethod
    def alone(cls, value: str) -> Text:
        """A text that is its own document."""
        return cls(value, range(len(value) + 1), value)

    @property
    def at(self) -> int:
        """The document's offset of the opening quote (of the start, for a text alone)."""
        return max(self.places[0] - 1, 0)

    def error(self, at: int, message: str) -> RulesError:
        """The error for this text's character number `at`."""
        return error_at(self.document, self.places[at], message)


def join_surrogates(value: str) -> str:
    """The text with each surrogate pair, as escapes write it, as the one character that it stands for."""
    return SURROGATE_PAIR.sub(lambda pair: pair[0].encode("utf-16", "surrogatepass").decode("utf-16"), value)
