"""Structured logs: a line for everything that is logged, which Cloud Logging can read, and that tells no secret."""

from __future__ import annotations

import http.server
import io
import json
import logging
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial

import flask
import pytest
from tests.unit.listeners import broken_listener
from tests.unit.log_lines import LABELS, PROJECT, TRACE, Line, Log, on_cloud_run, refuse, root_of_nowhere
from tests.unit.threads import ended, named

import firecron.logging
from firecron import cloud_logging
from firecron.base.events import Events
from firecron.base.tracing import Trace, traced
from firecron.cloud_logging import CloudHandler

logger = logging.getLogger("mailer")
SPAN = Trace("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", is_sampled=True)


@pytest.fixture(autouse=True)
def root(monkeypatch: pytest.MonkeyPatch) -> Iterator[logging.Logger]:
    with root_of_nowhere(monkeypatch) as found:
        yield found


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    return on_cloud_run(monkeypatch)


@pytest.fixture
def alone(log: Log, root: logging.Logger) -> logging.Logger:
    """A logger that has the handler and no other beside it: pytest's own raises where a record has no text."""
    made = logging.Logger("mailer")
    made.handlers = [one for one in root.handlers if one.get_name() == "firecron"]
    return made


class Odd:
    def __str__(self) -> str:
        return "an odd thing"


class Broken:
    def __str__(self) -> str:
        raise ValueError("no text")


def failed() -> None:
    try:
        raise ValueError('{"a": 1}\nand more')
    except ValueError:
        logger.exception("it failed")


INSTANT = datetime(2026, 11, 18, 9, tzinfo=UTC)
TRAPS: dict[str, tuple[Callable[[], None], Line]] = {
    "no labels": (lambda: logger.info("hello", extra={"labels": None}), {"message": "hello"}),
    "labels that are none": (lambda: logger.info("hello", extra={"labels": 7}), {LABELS: {"python_logger": "mailer"}}),
    "an odd label": (
        lambda: logger.info("hello", extra={"labels": {"when": INSTANT, 1: Odd()}}),
        {LABELS: {"python_logger": "mailer", "when": "2026-11-18 09:00:00+00:00", "1": "an odd thing"}},
    ),
    "a datetime": (
        lambda: logger.info("hello", extra={"json_fields": {"at": INSTANT, "all": [INSTANT, {"x": Odd()}]}}),
        {"message": "hello", "at": str(INSTANT), "all": [str(INSTANT), {"x": "an odd thing"}]},
    ),
    "no number": (
        lambda: logger.info("hello", extra={"json_fields": {"a": float("nan"), "b": float("-inf"), "c": 0.5}}),
        {"a": "nan", "b": "-inf", "c": 0.5},
    ),
    "half a character": (lambda: logger.info("file \udcff"), {"message": "file \udcff"}),
    "lines": (lambda: logger.warning("one\ntwo\u2028three"), {"message": "one\ntwo\u2028three", "severity": "WARNING"}),
    "nothing": (lambda: logger.error(""), {"severity": "ERROR"}),
    "a mapping": (lambda: logger.info({"a": Odd(), "severity": "x"}), {"a": "an odd thing", "severity": "INFO"}),
    "an odd request": (
        lambda: logger.info("hello", extra={"http_request": {"requestUrl": "/?token=s3cret", "at": INSTANT}}),
        {"message": "hello"},
    ),
    "a traceback": (failed, {"severity": "ERROR"}),
}


@pytest.mark.parametrize("trap", TRAPS)
def test_whatever_is_logged_is_one_line_that_parses(log: Log, capsys: pytest.CaptureFixture[str], trap: str) -> None:
    """Values that JSON or a label can't hold become texts: no line is lost, none breaks, and nothing raises."""
    write, expected = TRAPS[trap]
    write()
    line = log.line()
    assert {name: line.get(name) for name in expected} == expected
    assert line["logging.googleapis.com/sourceLocation"]
    assert "s3cret" not in log.text()
    assert capsys.readouterr().err == ""


def test_a_traceback_is_in_the_message(log: Log) -> None:
    """Error Reporting finds the trace of an exception below the text, in one line of JSON."""
    failed()
    message = str(log.line()["message"])
    assert message.startswith("it failed\nTraceback (most recent call last):\n")
    assert message.endswith('ValueError: {"a": 1}\nand more')


@pytest.mark.parametrize("message", ['{"a": 1, "severity": "DEBUG"}', '["a"]', "{not JSON}", "None"])
def test_an_events_message_is_what_it_says(log: Log, message: str) -> None:
    """What a job raises is text in the line of its run, also where it looks like JSON."""
    error = ValueError(message)
    Events().emit("run.failed", "job", logging.ERROR, f'"job" failed after 1 s: ValueError: {error}', error, took=7)
    line = log.line()
    assert str(line["message"]).startswith(f'"job" failed after 1 s: ValueError: {message}')
    assert (line["severity"], line["event"], line["lock"], line["took"]) == ("ERROR", "run.failed", "job", 7)
    assert "a" not in line


def test_every_event_has_the_lock_as_a_label(log: Log) -> None:
    """A line can be found by its lock's name, and by its run's key where it is about a run."""
    events = Events()
    events.emit("lock.refused", "job", logging.INFO, "held", reason="held")
    events.emit("run.started", "job", logging.INFO, "runs", key="job:2026-11-18T09:00:00Z")
    events.emit("history.failed", "job", logging.WARNING, "no history", key="2026-11-18T09:00:00Z")
    plain = {"python_logger": "firecron", "firecron_lock": "job"}
    assert [line[LABELS] for line in log.lines()] == [
        plain,
        {**plain, "firecron_run": "job:2026-11-18T09:00:00Z"},
        plain,
    ]


def test_an_event_comes_from_where_it_is_emitted(log: Log) -> None:
    """The source location of an event is the code that found out, not the code that logs."""
    events = Events()
    events.subscribe(broken_listener)
    events.emit("lock.lost", "job", logging.ERROR, "lost")
    assert len(log.lines()) == 2
    for line in log.lines():
        location = line["logging.googleapis.com/sourceLocation"]
        assert isinstance(location, dict)
        assert location["file"] == __file__


def test_what_is_added_for_google_is_seen_by_no_other_handler(log: Log, root: logging.Logger) -> None:
    """A handler beside this one gets the record as it was logged."""
    seen: list[logging.LogRecord] = []
    other = logging.Handler()
    other.emit = seen.append  # type: ignore[assignment, method-assign]  # a handler that keeps what it gets
    root.addHandler(other)
    with traced(SPAN):
        logger.info("hello", extra={"labels": {"a": 1}})
    assert log.line()[TRACE]
    [record] = seen
    assert vars(record)["labels"] == {"a": 1}
    assert not {"trace", "_trace", "_labels_str", "_payload_str"} & set(vars(record))


CYCLE: dict[str, object] = {"password": "s3cret"}
CYCLE["self"] = CYCLE
HUGE = 10**5000
BARE = "this line is without its fields, which could not be written"


@pytest.mark.usefixtures("deep")
@pytest.mark.parametrize(
    ("message", "extra", "written"),
    [
        ("hello", {"json_fields": CYCLE}, f"{BARE} (RecursionError): hello"),
        ("hello", {"json_fields": {"a": Broken()}}, f"{BARE} (ValueError): hello"),
        ("hello", {"json_fields": {"a": HUGE}}, f"{BARE} (ValueError): hello"),
        ("hello", {"labels": {"a": Broken()}}, f"{BARE} (ValueError): hello"),
        ("hello", {"trace": Broken()}, f"{BARE} (ValueError): hello"),
        ("hello", {"span_id": Broken()}, f"{BARE} (ValueError): hello"),
        ("hello", {"source_location": {"file": Broken()}}, f"{BARE} (TypeError): hello"),
        ("hello", {"http_request": {"requestUrl": Broken()}}, f"{BARE} (ValueError): hello"),
        ("?token=s3cret", {"json_fields": CYCLE}, f"{BARE} (RecursionError): ?token=[redacted]"),
        (f'{{"a": 1{"0" * 5000}}}', {}, f'{BARE} (ValueError): {{"a": 1{"0" * 5000}}}'),
        (CYCLE, {}, f"{BARE} (RecursionError): a dict"),
        ({"message": 5, "a": Broken()}, {}, f"{BARE} (ValueError): 5"),
        ({"message": "hello", "password": "s3cret", "a": Broken()}, {}, f"{BARE} (ValueError): hello"),
        (Broken(), {}, f"{BARE} (ValueError): a Broken"),
    ],
)
def test_what_can_not_be_written_costs_no_line(
    alone: logging.Logger,
    log: Log,
    capsys: pytest.CaptureFixture[str],
    message: object,
    extra: dict[str, object],
    written: str,
) -> None:
    """A line whose fields can't be written has its message, severity, traceback and place, and says what is missing."""
    try:
        raise KeyError("a reason")
    except KeyError:
        alone.exception(message, extra=extra)
    line = log.line()
    assert line["severity"] == "ERROR"
    assert str(line["message"]).startswith(f"{written}\nTraceback (most recent call last):\n")
    assert line[LABELS] == {"python_logger": "mailer"}
    location = line["logging.googleapis.com/sourceLocation"]
    assert isinstance(location, dict)
    assert location["file"] == __file__
    assert "s3cret" not in log.text()
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("deep")
def test_arguments_that_do_not_fit_cost_no_line(
    alone: logging.Logger, log: Log, capsys: pytest.CaptureFixture[str]
) -> None:
    """A message whose arguments don't fit it is written without them."""
    alone.warning("%d sent", "some")
    assert log.line()["message"] == f"{BARE} (TypeError): %d sent"
    alone.warning("%d sent", 3, extra={"json_fields": CYCLE})
    assert log.lines()[1]["message"] == f"{BARE} (RecursionError): 3 sent"
    assert capsys.readouterr().err == ""


def test_a_stream_that_takes_nothing_is_a_complaint(
    log: Log, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where a line can't be written at all, that is said once on standard error, and nothing is raised."""
    with monkeypatch.context() as patch:
        patch.setattr(log.stream, "write", refuse)
        logger.info("lost")
    logger.info("there")
    assert log.line()["message"] == "there"
    assert capsys.readouterr().err.count("--- Logging error ---") == 1


def broken_filter(record: logging.LogRecord) -> bool:
    raise ValueError("no verdict")


def test_a_filter_that_breaks_is_a_complaint(
    alone: logging.Logger, log: Log, capsys: pytest.CaptureFixture[str]
) -> None:
    """A filter of somebody's that raises costs the line, but raises nothing into who logs it."""
    alone.handlers[0].addFilter(broken_filter)
    alone.info("lost")
    assert alone.handlers[0].handle(logging.makeLogRecord({})) is False
    assert log.text() == ""
    assert capsys.readouterr().err.count("--- Logging error ---") == 2


def test_each_line_is_flushed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was logged just before a process dies has left it."""

    class Buffered(io.StringIO):
        flushed = ""

        def flush(self) -> None:
            self.flushed = self.getvalue()

    stream = Buffered()
    CloudHandler(stream).handle(logging.makeLogRecord({"msg": "last words"}))
    assert json.loads(stream.flushed)["message"] == "last words"


def test_a_request_is_in_its_line_alone(log: Log) -> None:
    """A request that somebody logs is a field of its own, and a line without one has none."""
    logger.info("hello", extra={"http_request": {"requestUrl": "/a", "status": 200}})
    logger.info("hello")
    with_request, without = log.lines()
    assert with_request["httpRequest"] == {"requestUrl": "/a", "status": 200}
    assert "httpRequest" not in without


@pytest.mark.parametrize(("project", "asks"), [("", True), (PROJECT, False)])
def test_the_project_is_asked_for_where_nothing_names_it(
    monkeypatch: pytest.MonkeyPatch, project: str, asks: bool
) -> None:
    """An empty variable names none. The thread that asks holds up neither the start nor the end of the process."""
    answers = threading.Event()
    monkeypatch.setattr(cloud_logging, "ask_metadata", lambda path: answers.wait(20) and "other")
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", project)
    others = named("firecron-project")
    CloudHandler(io.StringIO()).find_project()
    asking = named("firecron-project") - others
    answers.set()
    assert all(map(ended, asking))
    assert [thread.daemon for thread in asking] == [True] * asks


def test_no_line_is_about_the_handler(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """Google's handler would begin with two lines about itself; here the first line is somebody's message."""
    # They are written once in a process.
    monkeypatch.setattr("google.cloud.logging_v2._instrumentation_emitted", False)
    logger.info("first")
    assert log.line()["message"] == "first"


def test_a_line_in_a_request_is_part_of_its_trace(log: Log) -> None:
    """In a traced block a line has the trace, with its project; one that names a trace itself keeps that."""
    with traced(SPAN):
        logger.info("mine")
        logger.info("other", extra={"trace": "projects/p/traces/1", "span_id": "2"})
    logger.info("outside")
    mine, other, outside = log.lines()
    assert mine[TRACE] == f"projects/{PROJECT}/traces/{SPAN.trace_id}"
    assert mine["logging.googleapis.com/spanId"] == SPAN.span_id
    assert mine["logging.googleapis.com/trace_sampled"] is True
    assert other[TRACE] == "projects/p/traces/1"
    assert not [field for field in outside if "trace" in field or "span" in field]


def test_a_line_outside_of_requests_has_no_empty_field(log: Log) -> None:
    """They would be paid for; what somebody logs that looks like them stays."""
    alike = {TRACE: "", "logging.googleapis.com/spanId": "", "logging.googleapis.com/trace_sampled": False, "a": {}}
    logger.info("hello", extra={"json_fields": {"mine": alike, "httpRequest": {}}})
    with traced(SPAN):
        logger.info("hello", extra={"json_fields": {"mine": alike}})
    outside, inside = log.lines()
    assert set(outside) == {"message", "mine", "severity", LABELS, "logging.googleapis.com/sourceLocation"}
    assert inside["mine"] == outside["mine"] == alike


class Metadata(http.server.BaseHTTPRequestHandler):
    """The metadata server, which says this."""

    def __init__(self, status: int, text: str, *arguments: object) -> None:
        self.status = status
        self.text = text
        super().__init__(*arguments)  # type: ignore[arg-type]  # what the server hands over

    def do_GET(self) -> None:
        asked = self.path == "/computeMetadata/v1/project/project-id" and self.headers["Metadata-Flavor"] == "Google"
        self.send_response(self.status if asked else 404)
        self.end_headers()
        self.wfile.write(self.text.encode())

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing to standard error."""


@pytest.mark.parametrize(
    ("status", "text", "prefix"),
    [(200, "asked-project\n", "projects/asked-project/traces/"), (200, "<html>Sign in</html>", ""), (403, "no", "")],
)
def test_the_project_is_asked_of_the_metadata_server(
    monkeypatch: pytest.MonkeyPatch, status: int, text: str, prefix: str
) -> None:
    """Where the environment doesn't name the project it is asked for; without an answer a trace is its bare number."""
    with http.server.HTTPServer(("127.0.0.1", 0), partial(Metadata, status, text)) as server:
        answering = threading.Thread(target=server.handle_request)
        answering.start()
        monkeypatch.setenv("GCE_METADATA_HOST", f"127.0.0.1:{server.server_port}")
        log = asked(monkeypatch)
        answering.join(20)
    with traced(SPAN):
        logger.info("hello")
    assert log.line()[TRACE] == f"{prefix}{SPAN.trace_id}"
    header = {"X-Cloud-Trace-Context": f"{SPAN.trace_id}/1;o=1"}
    with flask.Flask("app").test_request_context(headers=header):
        logger.info("a request that nobody traces here")
    assert log.lines()[1][TRACE] == f"{prefix}{SPAN.trace_id}"


def test_a_trace_needs_no_metadata_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no metadata server a trace is its bare number, and nothing is said about it."""
    with http.server.HTTPServer(("127.0.0.1", 0), Metadata) as server:
        port = server.server_port
    monkeypatch.setenv("GCE_METADATA_HOST", f"127.0.0.1:{port}")
    log = asked(monkeypatch)
    with traced(SPAN):
        logger.info("hello")
    assert log.line()[TRACE] == SPAN.trace_id


def asked(monkeypatch: pytest.MonkeyPatch) -> Log:
    """The log of a service that has asked for its project."""
    monkeypatch.setenv("K_SERVICE", "api")
    log = Log()
    firecron.logging.setup(stream=log.stream)
    for thread in threading.enumerate():
        if thread.name == "firecron-project":
            thread.join(20)
    return log


SECRET_FIELDS: dict[str, object] = {"access_token": "s3cret", "password": ["hunter s3cret"], "key": "shown"}


@pytest.mark.parametrize(
    ("message", "extra"),
    [
        ("hello", {"json_fields": SECRET_FIELDS}),
        ("hello", {"json_fields": {"deep": [SECRET_FIELDS]}}),
        ("hello", {"labels": {"password": "hunter s3cret", "key": "shown"}}),
        (json.dumps(SECRET_FIELDS), {}),
        (SECRET_FIELDS, {}),
    ],
    ids=["fields", "deep", "labels", "JSON", "mapping"],
)
def test_a_field_is_secret_by_its_name(log: Log, message: object, extra: dict[str, object]) -> None:
    """A field whose name says that it is a secret is not written, wherever it stands and whatever it looks like."""
    logger.info(message, extra=extra)
    assert log.line()
    assert "s3cret" not in log.text()
    assert "[redacted]" in log.text()
    assert "shown" in log.text()


def test_no_line_has_a_secret(log: Log) -> None:
    """A secret is redacted in messages, tracebacks, fields, labels and requests, of firecron and of everybody else."""
    secret = "ya29.a0AfB-s3cret"
    try:
        raise ConnectionError(f"Bearer {secret}")
    except ConnectionError as error:
        Events().emit("run.failed", "job", logging.ERROR, f"failed: {error}", error, why=str(error))
        logger.exception(secret, extra={"json_fields": {"deep": [{"er": secret}]}, "labels": {"a": secret}})
    logger.info(json.dumps({"token": secret}), extra={"http_request": {"requestUrl": f"/?auth={secret}"}})
    with flask.Flask(__name__).test_request_context(f"/?token={secret}"):
        logger.info("in a request that Google's handler finds by itself")
    assert len(log.lines()) == 4
    assert "s3cret" not in log.text()
    assert log.text().count("[redacted]") > 6
