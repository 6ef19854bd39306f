"""`setup()` configures the log of a program: for Cloud Logging on Cloud Run, for people elsewhere.

    import firecron.logging

    firecron.logging.setup()

`setup` is for programs that don't configure logging themselves. Without it, firecron logs through the logger
"firecron" all the same. The log record of every event has the slug and the fields in `json_fields`, and the lock's
name in `labels`, where Google's handlers look for them.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TextIO

from firecron.base.identity import find_cloud_run
from firecron.base.texts import REDACTED, names_secret, redacted
from firecron.jobs.run import current_run

_NAME = "firecron"
_BARE = frozenset("=[]\"'\\")
_LONGEST_ERROR = 100
# Characters that end a line or begin a terminal's command (C0 but the tab, C1, U+2028), that change the direction of
# text, and lone surrogates.
_CONTROL = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

# A colour, such as Flask's server puts into its lines.
_COLOUR = re.compile("\x1b\\[[0-9;]*m")


def setup(level: int | str = logging.INFO, stream: TextIO | None = None) -> None:
    """Give the root logger one handler, and this level.

    On Cloud Run it writes structured logs to standard output, elsewhere readable lines to standard error. Called again,
    it replaces its own handler and the level. Handlers that others have set up stay, and write what they wrote before.

    For less from firecron and the same from all others: `logging.getLogger("firecron").setLevel(logging.WARNING)`.

    Args:
        level: The root logger's level.
        stream: Where to write instead.
    """
    root = logging.getLogger()
    root.setLevel(level)
    handler: logging.Handler
    if find_cloud_run():
        from firecron.cloud_logging import CloudHandler

        handler = cloud = CloudHandler(stream or sys.stdout)
        cloud.find_project()
    else:
        handler = logging.StreamHandler(stream or sys.stderr)
        handler.setFormatter(Readable())
    for other in [one for one in root.handlers if one.get_name() == _NAME]:
        root.removeHandler(other)
    handler.set_name(_NAME)
    root.addHandler(handler)


class Readable(logging.Formatter):
    """A line for people: when (UTC, as slots are), how bad, who, what, and the event with the fields that the sentence
    lacks.

    Only a record begins at the start of a line: control characters in what was logged are escaped, but colours, which
    are left out, and the lines of a traceback are indented.
    """

    def format(self, record: logging.LogRecord) -> str:
        line, newline, traceback = super().format(record).partition("\n")
        if not newline:
            return line
        # Split at line feeds only, as terminals do. Other characters that some programs read as a line's end are
        # escaped.
        below = (f"    {_escaped(part)}".rstrip() for part in redacted(traceback).split("\n"))
        return "\n".join([line, *below])

    def formatMessage(self, record: logging.LogRecord) -> str:
        when = f"{datetime.fromtimestamp(record.created, UTC):%FT%T}.{int(record.msecs):03}Z"
        message = record.message
        if isinstance(record.exc_info, tuple) and record.exc_info[1] is not None:
            message = _shortened(message, record.exc_info[1])
        line = f"{when} {record.levelname:<7} {record.name}: {message}"
        return _escaped(redacted(f"{line}{_details(record, f'{record.name}: {record.message}')}"))


def _escaped(text: str) -> str:
    """Return the text as one line: without colours, and with what moves a cursor or reverses the text escaped."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), _COLOUR.sub("", text))


def _shortened(message: str, error: BaseException) -> str:
    """Return the message with a long error cut to its beginning: the traceback below it shows the whole error."""
    try:
        text = redacted(str(error))
    except Exception:  # an error that has no text is in no message
        return message
    beginning = text.partition("\n")[0][:_LONGEST_ERROR]
    return message if beginning == text else message.replace(text, f"{beginning}…")


def _details(record: logging.LogRecord, sentence: str) -> str:
    fields = getattr(record, "json_fields", None)
    if not isinstance(fields, Mapping):
        run = current_run()
        return "" if run is None else f" [run={_text(run.idempotency_key)}]"
    shown = [str(fields["event"])] if "event" in fields else []
    for name, value in fields.items():
        if names_secret(str(name)):
            shown.append(f"{name}={_text(REDACTED)}")
        elif name != "event" and not _is_told(value, " ".join([sentence, *shown])):
            shown.append(f"{name}={_text(value)}")
    return f" [{' '.join(shown)}]" if shown else ""


def _is_told(value: object, sentence: str) -> bool:
    """Return whether the sentence contains this text as a word, or this number of milliseconds in seconds."""
    if isinstance(value, str):
        return _has_word(sentence, value)
    return isinstance(value, int) and not isinstance(value, bool) and f" {value / 1000:g} s" in sentence


def _has_word(sentence: str, word: str) -> bool:
    # Not a pattern: it would be another one for each key and instant, which takes 100 µs, and crowds out the program's.
    at = sentence.find(word) if word else -1
    while at >= 0:
        end = at + len(word)
        if not any(sign.isalnum() or sign in "_-" for sign in sentence[max(at - 1, 0) : at] + sentence[end : end + 1]):
            return True
        at = sentence.find(word, at + 1)
    return False


def _text(value: object) -> str:
    text = str(value)
    is_bare = text.isprintable() and " " not in text and not _BARE.intersection(text) and text
    return text if is_bare else json.dumps(text, ensure_ascii=False)
