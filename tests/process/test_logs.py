"""The log of a real process, as Cloud Run would read it: its standard output, line by line."""

from __future__ import annotations

import http.server
import json
import os
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

import firecron
from rtdb_emulator.pytest_plugin import Rtdb
from rtdb_emulator_tests.helpers.processes import Run

CHILD = str(Path(__file__).parent / "logs_child.py")
LABELS = "logging.googleapis.com/labels"
TOKEN = "ya29.planted-t0ken-of-a-job"
ACCESS_TOKEN = "planted-access-t0ken-of-the-service"


class Google(http.server.BaseHTTPRequestHandler):
    """The metadata server and the token endpoint, in one."""

    def do_GET(self) -> None:
        self.reply("demo-project" if self.path.endswith("/project-id") else "00bf4b9c3f2a5d")

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.reply(json.dumps({"access_token": ACCESS_TOKEN, "expires_in": 3600, "token_type": "Bearer"}))

    def reply(self, text: str) -> None:
        self.server.asked.add(self.path)  # type: ignore[attr-defined]  # of the fixture
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing to standard error."""


@pytest.fixture
def google() -> Iterator[tuple[str, set[str]]]:
    """Where Google's servers are, and the paths that were asked for."""
    asked: set[str] = set()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Google) as server:
        server.asked = asked  # type: ignore[attr-defined]  # for the handler
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        serving.start()
        yield f"127.0.0.1:{server.server_port}", asked
        server.shutdown()
        serving.join()


def key_file(folder: Path, host: str) -> tuple[str, str]:
    """A service account's file, and the key in it."""
    made = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    key = made.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    account = {
        "type": "service_account",
        "project_id": "demo-project",
        "private_key_id": "planted-key-id",
        "private_key": key,
        "client_email": "firecron@demo-project.iam.gserviceaccount.com",
        "token_uri": f"http://{host}/token",
    }
    file = folder / "account.json"
    file.write_text(json.dumps(account), "utf-8")
    return str(file), key


def test_cloud_run_can_read_every_line(
    run: Run, rtdb: Rtdb, google: tuple[str, set[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service that ticks, fails, is refused and loses its database writes lines of JSON with slugs, and no secret."""
    host, asked = google
    file, key = key_file(tmp_path, host)
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        closed = nobody.getsockname()[1]
    environment = {
        "K_SERVICE": "api",
        "K_REVISION": "api-v3-00042-abc",
        "GCE_METADATA_HOST": host,
        "FIREBASE_DATABASE_EMULATOR_HOST": rtdb.emulator.host,
        "FIRECRON_DATABASE_URL": rtdb.url,
        "PLANTED_TOKEN": TOKEN,
        "PLANTED_DATABASE": f"https://127.0.0.1:{closed}",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("GOOGLE_CLOUD_PROJECT", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(Path(firecron.__file__).parents[1]), prepend=os.pathsep)
    finished = run("-W", "error", CHILD, file)
    assert (finished.returncode, finished.stderr) == (0, "")
    lines = [json.loads(line) for line in finished.stdout.splitlines()]
    by_event = {line["event"]: line for line in lines if "event" in line}

    # What each line is.
    assert all(isinstance(line["message"], str) and line["message"] for line in lines)
    severities = {event: line["severity"] for event, line in by_event.items()}
    assert (
        severities.items()
        >= {
            "job.registered": "INFO",
            "run.started": "INFO",
            "run.succeeded": "INFO",
            "run.failed": "ERROR",
            "lock.refused": "INFO",
            "lock.unavailable": "ERROR",
            "crons.stopped": "INFO",
        }.items()
    )
    assert by_event["lock.refused"]["reason"] == "held"
    assert by_event["lock.refused"]["instance"] == "00bf4b9c3f2a"
    assert {type(value) for line in lines for name, value in line.items() if "/" not in name} <= {str, int, float, dict}

    # A traceback is one line, where there is something to look at, and nowhere else.
    assert [line["event"] for line in lines if "Traceback" in line["message"]] == ["run.failed"]
    assert by_event["run.failed"]["message"].startswith('"import" failed after ')
    assert by_event["run.failed"]["logging.googleapis.com/trace"] == f"projects/demo-project/traces/{'ab' * 16}"

    # What a job says itself is found by its run.
    [mine] = [line for line in lines if line.get("template") == "digest"]
    assert mine["message"] == "sent to 3\npeople"
    run_key = mine[LABELS]["firecron_run"]
    of_run = [line.get("event", "mailer") for line in lines if line[LABELS].get("firecron_run") == run_key]
    assert of_run == ["run.started", "mailer", "run.succeeded"]
    assert {line[LABELS]["firecron_lock"] for line in lines if "event" in line} <= {
        "send-digest",
        "import",
        "export",
        "firecron",
    }

    # The credentials were in use, and are in no line; nor is what the job let slip.
    assert "/token" in asked
    secrets = [TOKEN, "t0ken", ACCESS_TOKEN, "planted-key-id", "PRIVATE KEY", *key.splitlines()[1:-1]]
    assert [secret for secret in secrets if secret in finished.stdout] == []
    assert re.search(r"access_token=\[redacted\]", finished.stdout)
