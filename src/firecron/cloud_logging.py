"""The log in the form that Cloud Logging reads: one JSON object a line, with severity, message, fields, labels, trace.

The handler extends google-cloud-logging's own, which needs no credentials and makes no request. In addition, a logging
call never raises, and a value that JSON can't hold never costs the line: the value is written as its text, and if it
has no text, the line is written with its message alone.

Each line names its lock and its run in labels, also the lines that a job's own code logs. Secrets are redacted in
messages, tracebacks and fields.
"""

from __future__ import annotations

import copy
import json
import logging
import math
import os
import threading
from collections.abc import Mapping
from typing import TextIO

from google.cloud.logging_v2.handlers import StructuredLogHandler
from google.cloud.logging_v2.handlers.handlers import CloudLoggingFilter

from firecron.base.events import LOCK_LABEL, RUN_LABEL
from firecron.base.identity import ask_metadata
from firecron.base.texts import REDACTED, names_secret, redacted
from firecron.base.tracing import current_trace
from firecron.jobs.run import current_run

# What Google's handler writes of a trace and of a request where there is none.
_NO_TRACE = (
    '"logging.googleapis.com/trace": "", "logging.googleapis.com/spanId": "", '
    '"logging.googleapis.com/trace_sampled": false, '
)
_NO_REQUEST = ', "httpRequest": {} }'
_OWN = frozenset(vars(logging.makeLogRecord({})))


class CloudHandler(StructuredLogHandler):
    """A logging handler that writes to `stream`.

    Traces are linked once the project is known, from the environment or from the metadata server.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__(  # type: ignore[no-untyped-call]  # google-cloud-logging declares no types
            stream=stream, project_id=os.environ.get("GOOGLE_CLOUD_PROJECT") or None, json_encoder_cls=RedactingEncoder
        )

    def find_project(self) -> None:
        """Ask the metadata server for the project, on a thread of its own, unless the environment names it."""
        if self.project_id is None:
            threading.Thread(target=self._ask, name="firecron-project", daemon=True).start()

    def handle(self, record: logging.LogRecord) -> bool:
        """Write a copy of the record, so that no other handler sees the attributes that are added for Google."""
        try:
            try:
                return bool(super().handle(self._prepared(record)))
            except Exception as error:
                return bool(super().handle(self._prepared(_bare(record, error))))
        except Exception:
            self.handleError(record)
            return False

    def emit(self, record: logging.LogRecord) -> None:
        # Replaces Google's `emit`, which would begin the log with two lines about itself. A record that can't be
        # formatted raises here, and `handle` writes it without its fields.
        line = self.format(record)
        try:
            self.stream.write(f"{line}{self.terminator}")
            self.flush()
        except Exception:
            self.handleError(record)

    def format(self, record: logging.LogRecord) -> str:
        # Google's handler may have found the request by itself, in Flask or Django, and would write it without the
        # encoder that redacts.
        request = getattr(record, "_http_request", None)
        record._http_request_str = json.dumps(request or {}, cls=RedactingEncoder)
        text: str = super().format(record)  # type: ignore[no-untyped-call]  # as above
        # Log lines are paid by their bytes, and most of them belong to no request.
        if not (getattr(record, "_trace", None) or getattr(record, "_span_id", None)):
            before, _, after = text.rpartition(_NO_TRACE)
            text = f"{before}{after}"
        return f"{text.removesuffix(_NO_REQUEST)}}}" if text.endswith(_NO_REQUEST) else text

    def _prepared(self, record: logging.LogRecord) -> logging.LogRecord:
        made = copy.copy(record)
        given = getattr(record, "labels", None)
        labels = (
            {str(name): REDACTED if names_secret(str(name)) else redacted(str(value)) for name, value in given.items()}
            if isinstance(given, Mapping)
            else {}
        )
        run = current_run()
        made.labels = {**({} if run is None else {LOCK_LABEL: run.name, RUN_LABEL: run.idempotency_key}), **labels}
        request = getattr(record, "http_request", None)
        if request is not None:
            made.http_request = _plain(request)
        trace = current_trace.get()
        if trace is not None and getattr(record, "trace", None) is None:
            prefix = "" if self.project_id is None else f"projects/{self.project_id}/traces/"
            made.trace = f"{prefix}{trace.trace_id}"
            made.span_id = trace.span_id
            made.trace_sampled = trace.is_sampled
        return made

    def _ask(self) -> None:
        project = ask_metadata("project/project-id")
        if project is not None:  # without a project, traces are not linked
            self.project_id = project
            for one in self.filters:
                if isinstance(one, CloudLoggingFilter):
                    one.project = project


class RedactingEncoder(json.JSONEncoder):
    """A JSON encoder for any value: it writes a value that JSON can't hold as its text, and redacts secrets."""

    def encode(self, o: object) -> str:
        self.ensure_ascii = True  # else a lone surrogate, which a file name may contain, could not be written
        return super().encode(_plain(o))


def _bare(record: logging.LogRecord, error: Exception) -> logging.LogRecord:
    """Return the record with only the attributes that `logging` itself sets, and its message as plain text."""
    made = logging.makeLogRecord({name: value for name, value in vars(record).items() if name in _OWN})
    made.msg = f"this line is without its fields, which could not be written ({type(error).__name__}): {_said(record)}"
    made.args = None
    return made


def _said(record: logging.LogRecord) -> str:
    message: object = record.msg
    try:
        if isinstance(message, Mapping):
            return str(message["message"])
        return record.getMessage()
    except Exception:  # the program's mistake: its arguments don't fit, or one of them has no text
        return message if isinstance(message, str) else f"a {type(message).__name__}"


def _plain(value: object) -> object:
    match value:
        case None | bool() | int():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case str():
            return redacted(value)
        case Mapping():
            return {str(name): REDACTED if names_secret(str(name)) else _plain(item) for name, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_plain(item) for item in value]
        case _:
            return redacted(str(value))
