"""The parser of a rule's text: recursive descent with JavaScript's precedences.

The operators, from the tightest: `!` and unary `-`, then `* / %`, `+ -`, `< <= > >=`, `== != === !==`, `&&`, `||`, and
`?:`. Only `?:` groups from the right.

Promises: the parser returns an expression or raises a `RulesError`. Both the text and the expression have at most
`MAX_DEPTH` levels, so other modules may walk the expression recursively. `check` checks the types.
"""

from __future__ import annotations

from rtdb_emulator.rules.lexer import Token, Word, tokens
from rtdb_emulator.rules.regexes import compile_regex
from rtdb_emulator.rules.source import RulesError, Text
from rtdb_emulator.rules.syntax import (
    Array,
    Call,
    Chain,
    Choice,
    Expression,
    Index,
    Literal,
    Member,
    Name,
    Regex,
    Step,
    Unary,
    height,
)

MAX_DEPTH = 64

_PRECEDENCES = (("||",), ("&&",), ("==", "!=", "===", "!=="), ("<", "<=", ">", ">="), ("+", "-"), ("*", "/", "%"))
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
                return Regex(compile_regex(self.text, token), token.at, f"/{token.value}/{token.flags}")
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
