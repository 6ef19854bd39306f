"""Functions whose annotations are evaluated: this module doesn't import `annotations` from `__future__`."""

from typing import Optional

from firecron import Run


def evaluated(run: Run) -> object:
    return run


def evaluated_optional(run: Optional[Run] = None) -> object:  # noqa: UP045  # as many write it
    return run
