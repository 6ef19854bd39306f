"""`setup()`: the log of a program with jobs, for Cloud Logging on Cloud Run and for people elsewhere.

    import firecron.logging

    firecron.logging.setup()

firecron logs through the logger "firecron" whether or not this is called: it is for programs that have no logging of
their own yet. Every event's record has its slug and fields in `json_fields`, and the lock's name in `labels`, where
Google's handlers look for them.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TextIO

from firecron.redaction import REDACTED, names_secret, redacted
from firecron.run import current_run

_NAME = "firecron"
_BARE = frozenset("=[]\"'\\")


def setup(level: int | str = logging.INFO, stream: TextIO | None = None) -> None:
    """Give the root logger one handler, and this level.

    On Cloud Run (`K_SERVICE` or `CLOUD_RUN_JOB` is set) it writes structured logs to standard output, elsewhere
    readable lines to standard error; `stream` is written to instead. Called again, it replaces its own handler and
    the level. Handlers that others have set up stay, and write what they wrote before.

    For less from firecron and the same from all others: `logging.getLogger("firecron").setLevel(logging.WARNING)`.
    """
    root = logging.getLogger()
    root.setLevel(level)
    handler: logging.Handler
    if os.environ.get("K_SERVICE") or os.environ.get("CLOUD_RUN_JOB"):
        from firecron.structured import CloudHandler

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
    """A line for people: when (UTC, as slots are), how bad, who, what, and the event with its fields."""

    def format(self, record: logging.LogRecord) -> str:
        return redacted(super().format(record))

    def formatMessage(self, record: logging.LogRecord) -> str:
        when = f"{datetime.fromtimestamp(record.created, UTC):%FT%T}.{int(record.msecs):03}Z"
        return f"{when} {record.levelname:<7} {record.name}: {record.message}{_details(record)}"


def _details(record: logging.LogRecord) -> str:
    fields = getattr(record, "json_fields", None)
    if not isinstance(fields, Mapping):
        run = current_run()
        return "" if run is None else f" [run={_text(run.idempotency_key)}]"
    event = [str(fields["event"])] if "event" in fields else []
    others = [
        f"{name}={_text(REDACTED if names_secret(str(name)) else value)}"
        for name, value in fields.items()
        if name != "event"
    ]
    return f" [{' '.join([*event, *others])}]"


def _text(value: object) -> str:
    text = str(value)
    is_bare = text.isprintable() and " " not in text and not _BARE.intersection(text) and text
    return text if is_bare else json.dumps(text, ensure_ascii=False)
