"""`firecron.logging.setup`: which handler, once, and lines that people read."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from datetime import datetime

import pytest
from tests.unit.log_lines import LABELS, Log, on_cloud_run, root_of_nowhere

import firecron.logging
from firecron import FireCron, distributed_cron
from firecron.events import Events

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


@pytest.mark.parametrize(("variable", "kind"), [("K_SERVICE", "service"), ("CLOUD_RUN_JOB", "job"), (None, "laptop")])
def test_cloud_run_gets_structured_logs_on_standard_output(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, variable: str | None, kind: str
) -> None:
    """A service and a job write JSON to standard output, everything else readable lines to standard error."""
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
    assert rest == (
        'ERROR   firecron: Lock "import" lost [lock.lost lock=import why="its lease ran out" attempt=1 by=""]\n'
    )


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
    """What a person reads has the traceback below the line, without the secrets in it."""
    try:
        raise ConnectionError("https://example.com/?access_token=s3cret")
    except ConnectionError as error:
        Events().emit("run.failed", "job", logging.ERROR, '"job" failed', error)
    assert '"job" failed [run.failed lock=job]\nTraceback' in readable.text()
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
