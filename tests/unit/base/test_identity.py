"""Who an instance says it is, and who it asks for that."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
import requests

from firecron.base.identity import Identity, ask_metadata, find_revision, find_service
from firecron.lock.database import new_holder

INSTANCE = "00bf4b9c3f2a6d5e8c7b1a0f9e8d7c6b5a4f3e2d1c0b"


class Metadata(BaseHTTPRequestHandler):
    """A metadata server; what it was asked is kept by its server."""

    status = 200
    body = INSTANCE
    asked: list[tuple[str, str | None]]

    def do_GET(self) -> None:
        self.asked.append((self.path, self.headers["Metadata-Flavor"]))
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body.encode())

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing is printed."""


@contextmanager
def metadata_server(status: int = 200, body: str = INSTANCE) -> Iterator[tuple[str, list[tuple[str, str | None]]]]:
    asked: list[tuple[str, str | None]] = []
    handler = type("Handler", (Metadata,), {"status": status, "body": body, "asked": asked})
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join(10)


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


NAMES = [
    ({}, "local"),
    ({"K_REVISION": "api-00042-abc"}, "api-00042-abc"),
    ({"CLOUD_RUN_EXECUTION": "nightly-x7"}, "nightly-x7"),
    ({"K_REVISION": "api-00042-abc", "CLOUD_RUN_EXECUTION": "nightly-x7"}, "api-00042-abc"),
    ({"CLOUD_RUN_WORKER_POOL": "ticks", "CLOUD_RUN_REVISION": "ticks-00007-xyz"}, "ticks-00007-xyz"),
    ({"K_REVISION": "", "CLOUD_RUN_EXECUTION": ""}, "local"),
    ({"HOSTNAME": "localhost"}, "local"),
]


@pytest.mark.parametrize(("environment", "name"), NAMES)
def test_the_owner_that_a_person_reads(environment: dict[str, str], name: str) -> None:
    """The revision, else the execution of a Cloud Run job, else a worker pool's revision, else `local`."""
    assert Identity(environment).instance_id == name


@pytest.mark.parametrize(
    ("environment", "service", "revision"),
    [
        ({}, "local", None),
        ({"K_SERVICE": "api", "K_REVISION": "api-00042-abc"}, "api", "api-00042-abc"),
        ({"CLOUD_RUN_JOB": "nightly", "CLOUD_RUN_EXECUTION": "nightly-x7"}, "nightly", None),
        ({"CLOUD_RUN_WORKER_POOL": "ticks", "CLOUD_RUN_REVISION": "ticks-00007-xyz"}, "ticks", "ticks-00007-xyz"),
    ],
)
def test_what_an_instance_runs_in(environment: dict[str, str], service: str, revision: str | None) -> None:
    """The service, job or worker pool; an execution of a job is no revision, because each start would be a new one."""
    assert find_service(environment) == service
    assert find_revision(environment) == revision


def test_elsewhere_an_instance_has_a_random_id() -> None:
    """Without Cloud Run, nobody is asked: twelve characters, another for each, the same on every look."""
    with metadata_server() as (host, asked):
        one, other = Identity({"GCE_METADATA_HOST": host}), Identity({})
        assert one.instance == one.instance != other.instance
    assert asked == []
    assert len(one.instance) == 12
    assert one.instance.isalnum()


@pytest.mark.parametrize("variable", ["K_SERVICE", "CLOUD_RUN_JOB", "CLOUD_RUN_WORKER_POOL"])
def test_on_cloud_run_the_metadata_server_is_asked(variable: str) -> None:
    """Cloud Run's id of the instance, cut to twelve characters; asked once, with the header that it wants."""
    with metadata_server() as (host, asked):
        identity = Identity({variable: "api", "GCE_METADATA_HOST": host})
        assert identity.known.wait(20)
        assert identity.instance == identity.instance == "00bf4b9c3f2a"
    assert asked == [("/computeMetadata/v1/instance/id", "Google")]


@pytest.mark.parametrize(
    ("status", "body"),
    [(404, "not found here"), (500, INSTANCE), (200, ""), (200, " \n"), (200, "<!doctype html><title>Sign in")],
)
def test_an_answer_that_is_no_id_is_not_used(status: int, body: str) -> None:
    """What isn't an id is replaced by a random one."""
    with metadata_server(status, body) as (host, _):
        instance = Identity({"K_SERVICE": "api", "GCE_METADATA_HOST": host}).instance
    assert len(instance) == 12
    assert instance.isalnum()
    assert not body.startswith(instance)


class Patient(threading.Event):
    """An event that notes how long it was waited for, and is never set by the thread that asks."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(None if self.is_set() else timeout)
        return self.is_set()


def test_a_metadata_server_that_hangs_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that takes the connection and says nothing costs the first caller a second, and later ones nothing."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host = f"127.0.0.1:{silent.getsockname()[1]}"
        identity = Identity({"K_SERVICE": "api", "GCE_METADATA_HOST": host})
        (asking,) = [thread for thread in threading.enumerate() if thread.name == "firecron-identity"]
        assert asking.daemon, "it must not keep the process from ending"
        patient = Patient()
        identity.known = patient
        first, second = identity.instance, identity.instance
    assert first == second
    assert patient.waits == [1.0]


def test_an_answer_that_comes_too_late_changes_nothing() -> None:
    """Who has been told a random id isn't told another one later."""
    with metadata_server() as (host, asked):
        identity = Identity({})
        before = identity.instance
        identity.ask({"GCE_METADATA_HOST": host})
        assert identity.instance == before
    assert len(asked) == 1


def test_a_forked_child_waits_for_nobody() -> None:
    """The asking thread is the parent's; the child goes with what is known."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        identity = Identity({"K_SERVICE": "api", "GCE_METADATA_HOST": f"127.0.0.1:{silent.getsockname()[1]}"})
        child = identity.settled()
        assert child.known.is_set()
        assert len(child.instance) == 12


def test_holders_are_random() -> None:
    """A holder's token never repeats, is made of key characters, and the console shows it whole."""
    tokens = {new_holder() for _ in range(1_000)}
    assert len(tokens) == 1_000
    assert all(len(token) == 16 and token.replace("-", "").replace("_", "").isalnum() for token in tokens)


def test_a_request_takes_a_second_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """Elsewhere than on Cloud Run some network may swallow the request: it is given up after a second."""
    asked: list[tuple[str, dict[str, object]]] = []

    def get(url: str, **options: object) -> requests.Response:
        asked.append((url, options))
        raise requests.ConnectTimeout

    monkeypatch.setattr(requests, "get", get)
    assert ask_metadata("instance/id", {}) is None
    url = "http://metadata.google.internal/computeMetadata/v1/instance/id"
    assert asked == [(url, {"headers": {"Metadata-Flavor": "Google"}, "timeout": 1.0})]
