"""The log as Cloud Logging reads it: one JSON object a line, with severity, message, fields, labels and trace.

It is google-cloud-logging's own handler, which needs no credentials and makes no request, with its traps closed:
nothing that is logged through it can raise into who logs it, or lose the line because of a value that JSON can't hold:
where a value has no text either, the line has its message alone.
Each line says which lock it is about and which run it is part of, also those that a job's own code writes. Secrets are
redacted, in messages, tracebacks and fields.
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
from firecron.base.metadata import ask_metadata
from firecron.base.redaction import REDACTED, names_secret, redacted
from firecron.base.tracing import current_trace
from firecron.jobs.run import current_run

_OWN = frozenset(vars(logging.makeLogRecord({})))


class CloudHandler(StructuredLogHandler):
    """Writes to `stream`. A trace is linked once the project is known, from the environment or the metadata server."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(  # type: ignore[no-untyped-call]  # google-cloud-logging declares no types
            stream=stream, project_id=os.environ.get("GOOGLE_CLOUD_PROJECT") or None, json_encoder_cls=Plain
        )

    def find_project(self) -> None:
        """Ask the metadata server for the project, on a thread, if the environment doesn't name it."""
        if self.project_id is None:
            threading.Thread(target=self._ask, name="firecron-project", daemon=True).start()

    def handle(self, record: logging.LogRecord) -> bool:
        """Write a copy, so that what is added for Google is seen by no other handler."""
        try:
            try:
                return bool(super().handle(self._prepared(record)))
            except Exception as error:
                return bool(super().handle(self._prepared(_bare(record, error))))
        except Exception:
            self.handleError(record)
            return False

    def emit(self, record: logging.LogRecord) -> None:
        # Not Google's, which would begin the log with two lines about itself. What has no form raises, for `handle`.
        line = self.format(record)
        try:
            self.stream.write(f"{line}{self.terminator}")
            self.flush()
        except Exception:
            self.handleError(record)

    def format(self, record: logging.LogRecord) -> str:
        # Which Google's handler may have found by itself, in Flask or Django, and writes without its encoder.
        request = getattr(record, "_http_request", None)
        record._http_request_str = json.dumps(request or {}, cls=Plain)
        text: str = super().format(record)  # type: ignore[no-untyped-call]  # as above
        return text

    def _prepared(self, record: logging.LogRecord) -> logging.LogRecord:
        made = copy.copy(record)
        given = getattr(record, "labels", None)
        labels = (
            {str(name): REDACTED if names_secret(str(name)) else redacted(str(value)) for name, value in given.items()}
            if isinstance(given, Mapping)
            else {}
        )
        made.labels = {**run_labels(), **labels}
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
        if project is not None:  # else traces have no project, and are not linked
            self.project_id = project
            for one in self.filters:
                if isinstance(one, CloudLoggingFilter):
                    one.project = project


class Plain(json.JSONEncoder):
    """Writes anything: what JSON has no form for as its text, and secrets not at all."""

    def encode(self, o: object) -> str:
        self.ensure_ascii = True  # half a character, as file names may have, can't be written otherwise
        return super().encode(_plain(o))


def run_labels() -> dict[str, str]:
    """The labels of a line that is written during a run."""
    run = current_run()
    return {} if run is None else {LOCK_LABEL: run.name, RUN_LABEL: run.idempotency_key}


def _bare(record: logging.LogRecord, error: Exception) -> logging.LogRecord:
    """The record with nothing but what logging itself has put into it, and a message that is a text, and no JSON."""
    made = logging.makeLogRecord({name: value for name, value in vars(record).items() if name in _OWN})
    made.msg = f"without its fields, which could not be written ({type(error).__name__}): {_said(record)}"
    made.args = None
    return made


def _said(record: logging.LogRecord) -> str:
    message: object = record.msg
    try:
        if isinstance(message, Mapping):
            return str(message["message"])
        return record.getMessage()
    except Exception:
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
