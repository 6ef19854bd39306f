"""The regular expressions of `matches`: a small subset of JavaScript's, checked and translated for Python's `re`.

Supported: literals, `.`, `\\d \\w \\s \\D \\W \\S`, escaped punctuation and `\\t \\n \\v \\f \\r`, classes, groups,
`|`, and the quantifiers `* + ? {n} {n,} {n,m}`; `^` as the very first and `$` as the very last character; the flag `i`.
Anything else is refused: look-around, back-references, lazy quantifiers, word boundaries, empty alternatives. The
shorthands match ASCII characters only.

This module does not promise speed. Python's engine backtracks, so a rule such as `/^(a+)+$/` can take exponential time
on data made for it. The rules are the developer's own, and the emulator runs on the developer's machine.
"""

from __future__ import annotations

import re

from rtdb_emulator.rules.lexer import Token
from rtdb_emulator.rules.source import RulesError, Text

MAX_GROUPS_DEEP = 20
MAX_REPEAT = 1000

_SHORTHANDS = {"d": "0-9", "w": "A-Za-z0-9_", "s": r" \t\n\v\f\r"}
# The complements are ranges, because they may be part of a class.
_SHORTHANDS |= {"D": r"\x00-/:-\U0010ffff", "W": r"\x00-/:-@\[-\^`{-\U0010ffff", "S": r"\x00-\x08\x0e-\x1f!-\U0010ffff"}
_CONTROLS = {"t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r"}
_ANY = r"[^\n\r\u2028\u2029]"
_QUANTIFIER = re.compile(r"[*+?]|\{([0-9]+)(?:(,)([0-9]*))?\}")


def compile_regex(text: Text, token: Token) -> re.Pattern[str]:
    """Return the pattern of a REGEX token, for `search`. `text` is the expression that contains the token."""
    body_at = token.at + 1
    if token.flags not in ("", "i"):
        raise text.error(body_at + len(token.value) + 1, "regular expressions do not support flags other than i")
    pattern = _Translator(text, token.value, body_at).whole()
    return re.compile(pattern, re.IGNORECASE if token.flags else 0)


class _Translator:
    def __init__(self, text: Text, body: str, body_at: int) -> None:
        self.text = text
        self.body = body
        self.body_at = body_at
        self.at = 0
        self.depth = 0

    def whole(self) -> str:
        start = self.take("^")
        if self.body[self.at :] == "$":
            self.at += 1
            return f"{start}\\Z"
        if start and not self.peek():
            return start
        pattern = self.alternatives()
        end = "\\Z" if self.take("$") else ""
        if self.peek():
            raise self.error(f"unexpected '{self.peek()}'")
        return f"{start}{pattern}{end}"

    def alternatives(self) -> str:
        found = [self.alternative()]
        while self.take("|"):
            found.append(self.alternative())
        return "|".join(found)

    def alternative(self) -> str:
        pieces: list[str] = []
        while (char := self.peek()) and char not in "|)" and not (char == "$" and self.at == len(self.body) - 1):
            pieces.append(self.atom() + self.quantifier())
        if not pieces:
            raise self.error("an alternative is empty")
        return "".join(pieces)

    def atom(self) -> str:
        char = self.next()
        match char:
            case "(":
                return self.group()
            case "[":
                return self.char_class()
            case ".":
                return _ANY
            case "\\":
                literal, shorthand = self.escape()
                return f"[{_SHORTHANDS[shorthand]}]" if shorthand else re.escape(literal)
            case "^" | "$":
                raise self.error_behind(
                    f"'{char}' stands for itself only as '\\{char}'; as an anchor it must come first or last of all"
                )
            case "*" | "+" | "?" | "{":
                raise self.error_behind(f"'{char}' has nothing to repeat")
        return re.escape(char)

    def group(self) -> str:
        if self.peek() == "?":
            raise self.error("'(?' is not supported")
        self.depth += 1
        if self.depth > MAX_GROUPS_DEEP:
            raise self.error(f"no more than {MAX_GROUPS_DEEP} groups may be inside each other")
        inside = self.alternatives()
        if not self.take(")"):
            raise self.error("a group is not closed")
        self.depth -= 1
        return f"(?:{inside})"

    def escape(self) -> tuple[str, str]:
        """Return the literal of an escape, and the letter of its shorthand. One of the two is empty."""
        char = self.next()
        if char in _SHORTHANDS:
            return "", char
        if char in _CONTROLS:
            return _CONTROLS[char], ""
        if char.isalnum():
            raise self.error_behind(f"'\\{char}' is not supported")
        return char, ""

    def char_class(self) -> str:
        negated = self.take("^")
        pieces: list[str] = []
        while not self.take("]"):
            low, shorthand = self.class_member()
            if shorthand:
                pieces.append(_SHORTHANDS[shorthand])
            elif self.peek() == "-" and self.body[self.at + 1 : self.at + 2] not in ("]", ""):
                self.next()
                high, shorthand = self.class_member()
                if shorthand:
                    raise self.error_behind("a range ends in a shorthand")
                if high < low:
                    raise self.error_behind(f"the range '{low}-{high}' is out of order")
                pieces.append(f"{re.escape(low)}-{re.escape(high)}")
            else:
                pieces.append(_escaped_in_class(low))
        if not pieces:
            raise self.error_behind("a class is empty")
        return f"[{negated}{''.join(pieces)}]"

    def class_member(self) -> tuple[str, str]:
        char = self.next()
        return self.escape() if char == "\\" else (char, "")

    def quantifier(self) -> str:
        match = _QUANTIFIER.match(self.body, self.at)
        if match is None:
            return ""
        low, high = match[1] or "0", match[3] or match[1] or "0"
        if max(len(low), len(high)) > len(str(MAX_REPEAT)) or max(int(low), int(high)) > MAX_REPEAT:
            raise self.error(f"no more than {MAX_REPEAT} repetitions are supported")
        if int(high) < int(low):
            raise self.error(f"the quantifier '{match[0]}' is out of order")
        self.at = match.end()
        if self.peek() and self.peek() in "*+?{":
            raise self.error(f"'{self.peek()}' after a quantifier is not supported")
        return match[0]

    def peek(self) -> str:
        return self.body[self.at : self.at + 1]

    def next(self) -> str:
        self.at += 1
        return self.body[self.at - 1]

    def take(self, char: str) -> str:
        """Take the character if it comes next, and return it; otherwise return an empty text."""
        if self.peek() != char:
            return ""
        return self.next()

    def error_behind(self, problem: str) -> RulesError:
        """Return the error for the character just passed."""
        self.at -= 1
        return self.error(problem)

    def error(self, problem: str) -> RulesError:
        return self.text.error(self.body_at + self.at, f"Invalid regular expression /{self.body}/: {problem}.")


def _escaped_in_class(char: str) -> str:
    # Python warns about unescaped characters that may become set operators inside a class.
    return f"\\{char}" if char in r"\]^-[&~|" else char
