"""Why a call got no reply, for those who make calls. They are named here, because `transport` is slow to load.

Most of what loads a `FireCron` makes no call, so `requests` and `urllib3` are loaded with the first connection.
"""

from __future__ import annotations


class DeadlineExceeded(TimeoutError):
    """The call's deadline has passed."""


class NoReply(Exception):
    """No whole reply came before the deadline. The server may have read the request, unless none `was_sent`.

    The text of the exception names the `cause`.
    """

    def __init__(self, cause: BaseException, *, was_sent: bool = True) -> None:
        super().__init__(named(cause))
        self.cause = cause
        self.was_sent = was_sent


def find_cause(error: BaseException, handled: BaseException | None = None) -> BaseException:
    """Return the innermost cause of an error.

    `handled` is the exception that the caller was handling before. It is not a cause of this error.
    """
    cause = error
    while (inner := cause.__cause__ or cause.__context__) is not None and inner is not handled:
        cause = inner
    return cause


def in_words(error: BaseException) -> str:
    """Return the text of an exception. If it has several arguments, return the text of the first one."""
    first = error.args[0] if error.args else None
    if isinstance(first, BaseException):
        return in_words(first)
    return str(first) if error.args and str(error) == str(error.args) else str(error)


def named(error: BaseException) -> str:
    """Return the class name of an exception, and its text if it has one."""
    return f"{type(error).__name__}: {said}" if (said := in_words(error)) else type(error).__name__
