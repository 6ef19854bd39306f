"""What went wrong, in a few words: the cause, without the layers that it came through."""

from __future__ import annotations


def find_cause(error: BaseException, handled: BaseException | None = None) -> BaseException:
    """The innermost cause; `handled` is what the caller was handling already, and no cause of this."""
    cause = error
    while (inner := cause.__cause__ or cause.__context__) is not None and inner is not handled:
        cause = inner
    return cause


def in_words(error: BaseException) -> str:
    """An exception's own text. With several arguments that would be a tuple's repr, so it is the first of them."""
    first = error.args[0] if error.args else None
    if isinstance(first, BaseException):
        return in_words(first)
    return str(first) if error.args and str(error) == str(error.args) else str(error)


def named(error: BaseException) -> str:
    """An exception's kind, and its text if it has one."""
    return f"{type(error).__name__}: {said}" if (said := in_words(error)) else type(error).__name__
