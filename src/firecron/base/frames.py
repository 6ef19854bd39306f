"""Tracebacks for users: without the frames of firecron that come before, or instead of, their own code."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from types import TracebackType
from typing import TypeVar

E = TypeVar("E", bound=BaseException)

_PACKAGE = f"{Path(__file__).parents[1]}{os.sep}"
# The logger to which uvicorn writes why an application's lifespan has failed.
_SERVERS_LOG = "uvicorn.error"


def from_users_frame(error: E) -> E:
    """Return the error with its traceback from the first frame on that is not firecron's; whole, if all of them are."""
    frames = first = error.__traceback__
    while frames is not None and _is_own(frames):
        frames = frames.tb_next
    return error.with_traceback(frames or first)


def say_without_traceback(error: BaseException) -> None:
    """Have the server's log tell the error of a start by its sentence alone.

    Starlette gives the server the text of a whole traceback, which ends in the sentence that a person needs.
    """
    if "uvicorn" in sys.modules:
        _sentence.said = str(error)
        logging.getLogger(_SERVERS_LOG).addFilter(_sentence)


class _Sentence(logging.Filter):
    """Replaces one record: the text of the error's traceback, by the error's own text, which is `said`.

    There is one, because a logger takes the same filter once: starts that fail without any server leave no more.
    """

    said = ""

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        if text.startswith("Traceback ") and text.rstrip().endswith(self.said):
            record.msg, record.args = self.said, ()
            logging.getLogger(_SERVERS_LOG).removeFilter(self)
        return True


_sentence = _Sentence()


def _is_own(frames: TracebackType) -> bool:
    return frames.tb_frame.f_code.co_filename.startswith(_PACKAGE)
