"""The expressions of rules: their tree, their text again, and the parser that makes the tree.

Parentheses only determine the tree's shape; they are not in it, and the text has those that it needs. A run of
operators of one precedence is one `Chain`, so a rule with hundreds of `||` is not hundreds of levels deep. Two
expressions are equal if they differ only in spaces and parentheses: `at`, the offset in the expression, is not
compared.

Promises: `parse_expression` returns an expression or raises a `RulesError`. Both the text and the expression have at
most `MAX_DEPTH` levels, so other modules may walk the expression recursively. `check` checks the types.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TypeAlias

from rtdb_emulator.rules.document import RulesError, Text, join_surrogates


@dataclass(frozen=True, slots=True)
class Literal:
    value: str | float | bool | None
    at: int = field(compare=False)


@dataclass(frozen=True, slots=True)
class Regex:
    """`written` is what stands in the rule, with its slashes."""

    pattern: re.Pattern[str]
    at: int = field(compare=False)
    written: str = field(compare=False, default="")


@dataclass(frozen=True, slots=True)
class Array:
    items: tuple[Expression, ...]
    at: int = field(compare=False)


@dataclass(frozen=True, slots=True)
class Name:
    name: str
    at: int = field(compare=False)


@dataclass(frozen=True, slots=True)
class Member:
    """`target.name`, or `target['name']`. `at` is the name's offset."""

    target: Expression
    name: str
    at: int = field(compare=False)


@dataclass(frozen=True, slots=True)
class Index:
    """`target[key]`, with a key that is known only at evaluation."""

    target: Expression
    key: Expression
    at: int = field(compare=False)


@dataclass(frozen=True, slots=True)
class Call:
    """`callee(arguments)`. `at` is the offset of the opening parenthesis."""

    callee: Expression
    arguments: tuple[Expression, ...]
    at: int = field(compare=False)


@dataclass(frozen=True, slots=True)
class Unary:
    operator: str
    operand: Expression
    at: int = field(compare=False)


@dataclass(frozen=True, slots=True)
class Step:
    """One operator of a chain, and its right operand. `at` is the operator's offset."""

    operator: str
    operand: Expression
    at: int = field(compare=False)


@dataclass(frozen=True, slots=True)
class Chain:
    """Operators of one precedence, from left to right."""

    first: Expression
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    condition: Expression
    then: Expression
    otherwise: Expression


Expression: TypeAlias = Literal | Regex | Array | Name | Member | Index | Call | Unary | Chain | Choice


def parts(expression: Expression) -> tuple[Expression, ...]:
    """Return the direct parts of an expression."""
    match expression:
        case Array(items):
            return items
        case Member(target):
            return (target,)
        case Index(target, key):
            return (target, key)
        case Call(callee, arguments):
            return (callee, *arguments)
        case Unary(_, operand):
            return (operand,)
        case Chain(first, steps):
            return (first, *(step.operand for step in steps))
        case Choice(condition, then, otherwise):
            return (condition, then, otherwise)
        case _:
            return ()


def start(expression: Expression) -> int:
    """Return the offset of an expression's first character, without regard to parentheses."""
    match expression:
        case Member() | Index() | Call() | Chain() | Choice():
            return start(parts(expression)[0])
        case _:
            return expression.at


def height(expression: Expression) -> int:
    """Return the number of nested levels of an expression: 1 for a name."""
    highest = 0
    stack = [(expression, 1)]
    while stack:
        current, level = stack.pop()
        highest = max(highest, level)
        stack.extend((part, level + 1) for part in parts(current))
    return highest


# --- expressions as text again

_LONGEST = 100


def show(expression: Expression) -> str:
    match expression:
        case Literal(value):
            return show_value(value)
        case Regex(_, _, written):
            return written
        case Name(name):
            return name
        case Array(items):
            return f"[{', '.join(map(show, items))}]"
        case Member(target, name):
            return f"{_operand(target)}.{name}"
        case Index(target, key):
            return f"{_operand(target)}[{show(key)}]"
        case Call(callee, arguments):
            return f"{show(callee)}({', '.join(map(show, arguments))})"
        case Unary(operator, operand):
            return f"{operator}{_operand(operand)}"
        case Chain(first, steps):
            return " ".join([_operand(first), *(f"{step.operator} {_operand(step.operand)}" for step in steps)])
        case Choice(condition, then, otherwise):
            return f"{_operand(condition)} ? {_operand(then)} : {_operand(otherwise)}"


def show_value(value: object) -> str:
    """Return plain data as JSON, cut if it is long."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _operand(expression: Expression) -> str:
    """Return the text of an operand: in parentheses if it has operators, unless it is a comparison."""
    text = show(expression)
    compared = isinstance(expression, Chain) and _LEVEL[expression.steps[0].operator] in _COMPARISONS
    return f"({text})" if isinstance(expression, Choice | Chain) and not compared else text


# --- the parser: recursive descent with JavaScript's precedences
#
# `!` and unary `-` are tighter than all of these; `?:` is looser, and alone groups from the right.

MAX_DEPTH = 64

_PRECEDENCES = (("||",), ("&&",), ("==", "!=", "===", "!=="), ("<", "<=", ">", ">="), ("+", "-"), ("*", "/", "%"))
_COMPARISONS = (2, 3)
_LEVEL = {operator: level for level, operators in enumerate(_PRECEDENCES) for operator in operators}
_WORDS = {"true": True, "false": False, "null": None}
_EXACT_DIGITS = 15  # an IEEE double holds every integer of this length exactly


def parse_expression(text: Text) -> Expression:
    """Return the expression of the whole text."""
    parser = _Parser(text)
    expression = parser.expression()
    parser.end()
    if height(expression) > MAX_DEPTH:
        raise parser.too_deep(0)
    return expression


class _Parser:
    def __init__(self, text: Text) -> None:
        self.text = text
        self.tokens = tokens(text)
        self.depth = 0
        self.token = next(self.tokens)

    def advance(self) -> Token:
        """Move past the current token, and return it."""
        passed, self.token = self.token, next(self.tokens)
        return passed

    def at(self, *operators: str) -> bool:
        return self.token.word is Word.OPERATOR and self.token.value in operators

    def take(self, operator: str) -> bool:
        if self.at(operator):
            self.advance()
            return True
        return False

    def expect(self, operator: str) -> None:
        if not self.take(operator):
            raise self.error(f"Expected '{operator}'.")

    def end(self) -> None:
        if self.token.word is not Word.END:
            raise self.unexpected()

    def expression(self) -> Expression:
        condition = self.operators(0)
        if not self.at("?"):
            return condition
        self.advance()
        then = self.nested()
        self.expect(":")
        return Choice(condition, then, self.nested())

    def nested(self) -> Expression:
        self.deeper()
        found = self.expression()
        self.depth -= 1
        return found

    def operators(self, lowest: int) -> Expression:
        """Return operands joined by operators of level `lowest` or a tighter one."""
        left = self.unary()
        while (level := self.level()) >= lowest:
            steps: list[Step] = []
            self.deeper()
            while self.level() == level:
                operator = self.advance()
                steps.append(Step(operator.value, self.operators(level + 1), operator.at))
            self.depth -= 1
            left = Chain(left, tuple(steps))
        return left

    def level(self) -> int:
        return _LEVEL.get(self.token.value, -1) if self.token.word is Word.OPERATOR else -1

    def unary(self) -> Expression:
        if not self.at("!", "-"):
            return self.postfix()
        self.deeper()
        operator = self.advance()
        operand = self.unary()
        self.depth -= 1
        return Unary(operator.value, operand, operator.at)

    def postfix(self) -> Expression:
        target = self.primary()
        while True:
            at = self.token.at
            if self.take("."):
                name = self.token
                if name.word is not Word.NAME:
                    raise self.unexpected()
                self.advance()
                target = Member(target, name.value, name.at)
            elif self.take("["):
                target = self.index(target, at)
            elif self.take("("):
                target = Call(target, self.items(")"), at)
            else:
                return target

    def index(self, target: Expression, at: int) -> Expression:
        key = self.nested()
        self.expect("]")
        if isinstance(key, Literal) and isinstance(key.value, str):
            return Member(target, key.value, key.at)
        return Index(target, key, at)

    def items(self, closing: str) -> tuple[Expression, ...]:
        if self.take(closing):
            return ()
        items = [self.nested()]
        while self.take(","):
            items.append(self.nested())
        self.expect(closing)
        return tuple(items)

    def primary(self) -> Expression:
        if self.token.word in (Word.END, Word.OPERATOR) and not self.at("(", "["):
            raise self.unexpected()
        token = self.advance()
        match token.word:
            case Word.NAME:
                return Literal(_WORDS[token.value], token.at) if token.value in _WORDS else Name(token.value, token.at)
            case Word.NUMBER:
                return Literal(_number(token.value), token.at)
            case Word.STRING:
                return Literal(token.value, token.at)
            case Word.REGEX:
                return Regex(_compile_regex(self.text, token), token.at, f"/{token.value}/{token.flags}")
        if token.value == "[":
            return Array(self.items("]"), token.at)
        inside = self.nested()
        self.expect(")")
        return inside

    def deeper(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.too_deep(self.token.at)

    def too_deep(self, at: int) -> RulesError:
        return self.text.error(
            at, f"The expression is nested too deeply: no more than {MAX_DEPTH} levels are supported."
        )

    def unexpected(self) -> RulesError:
        written = "end of the expression" if self.token.word is Word.END else f"'{self.token.value}'"
        return self.error(f"Unexpected {written}.")

    def error(self, problem: str) -> RulesError:
        """Return the error for the current token. If that is an assignment, the error names the assignment instead."""
        message = "Rule expressions may not contain assignments." if self.at("=") else problem
        return self.text.error(self.token.at, message)


def _number(digits: str) -> float:
    # Longer numbers become doubles: Python's integers have no limit, and parsing long ones is slow.
    return int(digits) if digits.isdigit() and len(digits) <= _EXACT_DIGITS else float(digits)


# --- tokens: names, numbers, strings, regular expressions and operators
#
# Each has the offset of its first character in the expression. As in JavaScript, a slash in an operand's place starts a
# regular expression; elsewhere it divides.


class Word(Enum):
    NAME = auto()
    NUMBER = auto()
    STRING = auto()
    REGEX = auto()
    OPERATOR = auto()
    END = auto()


@dataclass(frozen=True, slots=True)
class Token:
    """A token. `value` is its text as written; for a string, its content. `flags` has a regular expression's flags."""

    word: Word
    value: str
    at: int
    flags: str = ""


_SPACE = re.compile(r"\s*")
_NAME = re.compile(r"[^\W\d][\w$]*|\$[\w$]*")
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_OPERATOR = re.compile(r"[=!]==?|[<>]=?|&&|\|\||[-+*/%!?:.,()\[\]=]")
# A slash inside a character class doesn't end the regular expression.
_REGEX = re.compile(r"/((?:\\[^\n]|\[(?:\\[^\n]|[^\]\\\n])*\]|[^/\\\[\n])+)/([\w$]*)")
_STRING_PART = re.compile(r"[^\\'\"\n\r]+")
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|([^ux]))", re.DOTALL)
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "0": "\0"}


def tokens(text: Text) -> Iterator[Token]:
    """Yield the tokens of an expression, with END last."""
    source = text.value
    at = _past_space(source, 0)
    operand_due = True
    while at < len(source):
        token, end = _next(text, at, operand_due)
        yield token
        operand_due = token.word is Word.OPERATOR and token.value not in (")", "]")
        at = _past_space(source, end)
    yield Token(Word.END, "", len(source))


def _past_space(source: str, at: int) -> int:
    space = _SPACE.match(source, at)
    return space.end() if space else at


def _next(text: Text, at: int, operand_due: bool) -> tuple[Token, int]:
    source = text.value
    if match := _NAME.match(source, at):
        return Token(Word.NAME, match[0], at), match.end()
    if match := _NUMBER.match(source, at):
        return Token(Word.NUMBER, match[0], at), match.end()
    if source[at] in "'\"":
        return _string(text, at)
    if source[at] == "/" and operand_due:
        if match := _REGEX.match(source, at):
            return Token(Word.REGEX, match[1], at, match[2]), match.end()
        raise text.error(at, "unterminated regular expression literal")
    if match := _OPERATOR.match(source, at):
        return Token(Word.OPERATOR, match[0], at), match.end()
    raise text.error(at, f"Unexpected '{source[at]}'.")


def _string(text: Text, start: int) -> tuple[Token, int]:
    source, quote, at = text.value, text.value[start], start + 1
    parts: list[str] = []
    while (char := source[at : at + 1]) != quote:
        if plain := _STRING_PART.match(source, at):
            parts.append(plain[0])
            at = plain.end()
        elif escape := _ESCAPE.match(source, at):
            code, simple = escape[1] or escape[2], escape[3]
            parts.append(chr(int(code, 16)) if code else _ESCAPED.get(simple, simple))
            at = escape.end()
        elif char == "\\" and at + 1 < len(source):
            raise text.error(at, f"Invalid escape: '\\{source[at + 1]}'")
        elif not char or char in "\\\n\r":
            raise text.error(start, "Unterminated string literal.")
        else:
            parts.append(char)
            at += 1
    return Token(Word.STRING, join_surrogates("".join(parts)), start), at + 1


# --- the regular expressions of `matches`
#
# A small subset of JavaScript's, checked and translated for Python's `re`: literals, `.`, `\d \w \s \D \W \S`, escaped
# punctuation and `\t \n \v \f \r`, classes, groups, `|`, and the quantifiers `* + ? {n} {n,} {n,m}`; `^` as the very
# first and `$` as the very last character; the flag `i`. Anything else is refused: look-around, back-references, lazy
# quantifiers, word boundaries, empty alternatives. The shorthands match ASCII characters only.
#
# There is no promise of speed. Python's engine backtracks, so a rule such as `/^(a+)+$/` can take exponential time on
# data made for it. The rules are the developer's own, and the emulator runs on the developer's machine.

MAX_GROUPS_DEEP = 20
MAX_REPEAT = 1000

_SHORTHANDS = {"d": "0-9", "w": "A-Za-z0-9_", "s": r" \t\n\v\f\r"}
# The complements are ranges, because they may be part of a class.
_SHORTHANDS |= {"D": r"\x00-/:-\U0010ffff", "W": r"\x00-/:-@\[-\^`{-\U0010ffff", "S": r"\x00-\x08\x0e-\x1f!-\U0010ffff"}
_CONTROLS = {"t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r"}
_ANY = r"[^\n\r\u2028\u2029]"
_QUANTIFIER = re.compile(r"[*+?]|\{([0-9]+)(?:(,)([0-9]*))?\}")


def _compile_regex(text: Text, token: Token) -> re.Pattern[str]:
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
