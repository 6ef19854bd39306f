"""`firecron.logging.setup`: which handler, once, and lines that people read."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.log_lines import LABELS, Log, on_cloud_run, root_of_nowhere

import firecron.logging
from firecron import FireCron, distributed_cron
from firecron.base.events import Events

logger = logging.getLogger("mailer")


@pytest.fixture(autouse=True)
def root(monkeypatch: pytest.MonkeyPatch) -> Iterator[logging.Logger]:
    with root_of_nowhere(monkeypatch) as found:
        yield found


@pytest.fixture
def readable() -> Log:
    log = Log()
    firecron.logging.setup(stream=log.stream)
    return log


@distributed_cron("send-digest", "0 9 * * *", lock_ttl=60)
def send_digest() -> None:
    logger.info("sent %d", 3)


@distributed_cron("tell-all", "0 9 * * *", lock_ttl=60)
async def tell_all() -> None:
    logger.info("told")


@pytest.mark.parametrize(
    ("variable", "kind"),
    [("K_SERVICE", "service"), ("CLOUD_RUN_JOB", "job"), ("CLOUD_RUN_WORKER_POOL", "worker pool"), (None, "laptop")],
)
def test_cloud_run_gets_structured_logs_on_standard_output(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, variable: str | None, kind: str
) -> None:
    """Every kind of Cloud Run writes JSON to standard output, everything else readable lines to standard error."""
    if variable is not None:
        monkeypatch.setenv(variable, kind)
        monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "demo-project")
    firecron.logging.setup()
    logger.warning("a %s", kind)
    out, err = capsys.readouterr()
    if variable is None:
        assert out == ""
        assert err.endswith(" WARNING mailer: a laptop\n")
    else:
        assert err == ""
        assert f'"message": "a {kind}"' in out


def test_twice_is_once(root: logging.Logger) -> None:
    """A second call replaces the first one's handler and level, and leaves the handlers of others alone."""
    mine = logging.StreamHandler()
    root.addHandler(mine)
    before = list(root.handlers)
    first, second = Log(), Log()
    firecron.logging.setup(stream=first.stream)
    firecron.logging.setup(level="WARNING", stream=second.stream)
    logger.info("little")
    logger.warning("much")
    assert first.text() == ""
    assert second.text().count("\n") == 1
    assert root.level == logging.WARNING
    assert root.handlers[:-1] == before
    assert mine.formatter is None


def test_a_level_that_is_none_changes_nothing(root: logging.Logger) -> None:
    """A level that logging doesn't know is refused, and neither handlers nor level are touched."""
    before = (list(root.handlers), root.level)
    with pytest.raises(ValueError, match="LOUD"):
        firecron.logging.setup(level="LOUD")
    assert (root.handlers, root.level) == before


def test_an_event_is_a_line_that_a_person_reads(readable: Log) -> None:
    """A line says when in UTC, how bad, who, what, and the event with its fields, quoted where they have blanks."""
    Events().emit("lock.lost", "import", logging.ERROR, 'Lock "import" lost', why="its lease ran out", attempt=1, by="")
    when, rest = readable.text().split(" ", 1)
    assert datetime.fromisoformat(when).utcoffset() is not None
    assert when.endswith("Z")
    assert rest == 'ERROR   firecron: Lock "import" lost [lock.lost why="its lease ran out" attempt=1 by=""]\n'


@pytest.mark.parametrize(
    ("sentence", "fields", "bracket"),
    [
        ('"job" runs', {"key": "job:2026-11-18T09:00:00Z", "slot": "2026-11-18T09:00:00Z"}, "key=job:{slot}"),
        ("the tick 2026-11-18T09:00:00Z of job", {"slot": "2026-11-18T09:00:00Z", "attempt": 1}, "attempt=1"),
        ('"job" succeeded after 0.2 s', {"took": 200, "lag": 20}, "lag=20"),
        ('"job" succeeded after 0.2 s', {"took": 20, "fence": 2, "ok": True}, "took=20 fence=2 ok=True"),
        ("job: no history: it is down", {"why": "it is down"}, ""),
        ("jobs, my-job and job_2", {}, "lock=job"),
        ("a job that was interrupted", {"how": "interrupt", "by": ""}, 'how=interrupt by=""'),
    ],
)
def test_the_bracket_has_what_the_sentence_lacks(
    readable: Log, sentence: str, fields: dict[str, str | int], bracket: str
) -> None:
    """A field is left out if its text is a word of the sentence or part of a field before it, or its time is told."""
    Events().emit("lock.lost", "job", logging.INFO, sentence, **fields)
    expected = f"lock.lost {bracket}".strip().format(slot="2026-11-18T09:00:00Z")
    assert readable.text().endswith(f" firecron: {sentence} [{expected}]\n")


def test_the_instances_own_events_name_no_lock(readable: Log) -> None:
    """What is said of the whole instance has no field beside its slug: the logger's name is in the line already."""
    Events().emit("crons.stopped", "firecron", logging.INFO, "Distributed crons stopped")
    assert readable.text().endswith(" firecron: Distributed crons stopped [crons.stopped]\n")


def raised(error: Exception) -> Exception:
    """The error, with a traceback."""
    try:
        raise error
    except Exception as found:
        return found


def test_a_long_error_is_written_once(readable: Log) -> None:
    """The sentence has the beginning of an error that is long or has several lines, and the traceback all of it."""
    for text in ("boom " * 50, "one\ntwo"):
        error = raised(ValueError(text))
        Events().emit("run.failed", "job", logging.ERROR, f'"job" failed after 1 s: ValueError: {error}', error)
    long, lines = readable.text().split('"job" failed after 1 s: ')[1:]
    assert long.startswith(f"ValueError: {'boom ' * 20}… [run.failed]\n    Traceback")
    assert long.count("boom") == 70
    assert lines.startswith("ValueError: one… [run.failed]\n    Traceback")
    assert lines.endswith("    ValueError: one\n    two\n")


def test_a_short_error_stays_in_the_sentence(readable: Log) -> None:
    """An error that fits the line is in the sentence as well, and so is one whose text can't be had."""
    Events().emit("run.failed", "job", logging.ERROR, '"job" failed: ValueError: no', raised(ValueError("no")))
    assert '"job" failed: ValueError: no [run.failed]\n' in readable.text()
    Events().emit("run.failed", "job", logging.ERROR, '"job" failed: Mute', raised(Mute()))
    assert '"job" failed: Mute [run.failed]\n' in readable.text()


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


def test_colours_are_left_out(readable: Log) -> None:
    """A program's colours are no part of the line, also where leaving one out makes another one."""
    logger.info("\x1b[33mPress CTRL+C to quit\x1b[0m \x1b\x1b[0m[1;31mred\x1b[m")
    assert readable.text().endswith("mailer: Press CTRL+C to quit \\x1b[1;31mred\n")


def test_no_text_forges_a_line(readable: Log) -> None:
    """Line ends and commands for a terminal, in a message, a field or an error, are escaped or below their record."""
    forged = "2026-11-18T09:00:00.214Z INFO    firecron: forged"
    nasty = f"{forged}\r\x1b[2J\x9b1m\u2028\x85{forged}\x0b\u202e\ttab"
    escaped = rf"{forged}\r\x1b[2J\x9b1m\u2028\x85{forged}\x0b\u202e" + "\ttab"
    logger.info("a\n%s", nasty)
    assert readable.text().endswith(f"Z INFO    mailer: a\\n{escaped}\n")
    logger.info("hello", extra={"json_fields": {"event": nasty, nasty: nasty}})
    error = raised(ValueError(f"a\n{nasty}"))
    Events().emit("run.failed", "job", logging.ERROR, f'"job" failed: {error}', error)
    assert f"    ValueError: a\n    {escaped}\n" in readable.text()
    assert len([line for line in readable.text().split("\n") if line and not line.startswith("    ")]) == 3
    assert all(sign.isprintable() or sign in "\n\t" for sign in readable.text())


@given(st.text(), st.text(), st.text())
def test_whatever_is_logged_begins_one_line(message: str, field: str, error: str) -> None:
    """A record has one line that begins at the margin, and no sign that a terminal obeys, whatever was logged."""
    record = logging.makeLogRecord({"msg": message, "json_fields": {"why": field}, "name": field})
    record.exc_info = (ValueError, ValueError(error), None)
    first, *below = firecron.logging.Readable().format(record).split("\n")
    assert first.partition(" ")[2].startswith("Level")
    assert all(line.startswith("    ") or not line for line in below)
    assert not set("\r\x0b\x0c\x1b\x85\u2028\u2029\ud800").intersection(first, *below)


@pytest.mark.parametrize("value", ["s3cr3t", "correct s3cr3t", ["s3cr3t"]])
def test_a_field_is_secret_by_its_name(readable: Log, value: object) -> None:
    """A field whose name says that it is a secret is not written, whatever its value looks like."""
    logger.info("hello", extra={"json_fields": {"password": value, "X-Api-Key": value, "key": "shown"}})
    assert readable.text().endswith('hello [password="[redacted]" X-Api-Key="[redacted]" key=shown]\n')


def test_a_line_says_when_in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the machine is, a line has the time that slots and nodes have."""
    record = logging.makeLogRecord({"created": 1_794_992_400.123, "msecs": 123.0, "msg": "hello"})
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        line = firecron.logging.Readable().format(record)
    finally:
        monkeypatch.undo()
        time.tzset()
    assert line.startswith("2026-11-18T09:00:00.123Z ")


def test_a_traceback_follows_its_line(readable: Log) -> None:
    """What a person reads has the traceback below the line, indented, without the secrets in it."""
    try:
        raise ConnectionError("https://example.com/?access_token=s3cret")
    except ConnectionError as error:
        Events().emit("run.failed", "job", logging.ERROR, '"job" failed', error)
    assert '"job" failed [run.failed]\n    Traceback' in readable.text()
    assert "?access_token=[redacted]" in readable.text()
    assert "s3cret" not in readable.text()


@pytest.mark.parametrize(
    ("job", "name", "said"), [(send_digest, "send-digest", "sent 3"), (tell_all, "tell-all", "told")]
)
def test_a_jobs_own_lines_say_which_run_wrote_them(
    readable: Log, monkeypatch: pytest.MonkeyPatch, job: object, name: str, said: str
) -> None:
    """What a job logs, sync or async, carries its run, for people and as labels on Cloud Run; other code's doesn't."""
    with FireCron(job).testing("2026-11-18T08:59:00Z") as test:
        test.move_to("2026-11-18T09:00:00Z")
        key = f"{name}:2026-11-18T09:00:00Z"
        assert f"INFO    mailer: {said} [run={key}]\n" in readable.text()
        log = on_cloud_run(monkeypatch)
        test.move_to("2026-11-19T09:00:00Z")
    logger.info("outside")
    labels = {line["message"]: line[LABELS] for line in log.lines()}
    key = f"{name}:2026-11-19T09:00:00Z"
    assert labels[said] == {"python_logger": "mailer", "firecron_lock": name, "firecron_run": key}
    assert labels["outside"] == {"python_logger": "mailer"}
    # The run's own events have the labels too: so one query finds all of it.
    assert len([one for one in labels.values() if isinstance(one, dict) and one.get("firecron_run") == key]) == 3


def test_less_of_firecron_and_as_much_of_others(readable: Log) -> None:
    """The level of the logger "firecron" quietens it alone."""
    quiet = logging.getLogger("firecron")
    before = quiet.level
    quiet.setLevel(logging.WARNING)
    try:
        Events().emit("lock.refused", "job", logging.INFO, "held")
        Events().emit("lock.lost", "job", logging.ERROR, "lost")
        logger.info("sent")
    finally:
        quiet.setLevel(before)
    assert [line.split(" ", 2)[1] for line in readable.text().splitlines()] == ["ERROR", "INFO"]
