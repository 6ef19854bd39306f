"""What the example of a hand-off puts into its queue: Google's own client, against the example's stand-in."""

from __future__ import annotations

import importlib
import json
import string
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import grpc
import pytest
from google.api_core.exceptions import PermissionDenied, RetryError
from hypothesis import given
from hypothesis import strategies as st

FOLDER = Path(__file__).parents[2] / "examples" / "hand-off"
QUEUE = "projects/p/locations/l/queues/q"
ALLOWED = {*string.ascii_letters, *string.digits, "-", "_"}
LONG = 20.0


def module(name: str) -> ModuleType:
    """A module of the example, whose files import each other by bare name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        patch.delenv("TASKS_QUEUE", raising=False)
        return importlib.import_module(name)


@contextmanager
def queue_at(
    stand_in: Any,
    timeout: float = LONG,
    patience: float = LONG,
    url: str = "http://127.0.0.1:1/",
    account: str | None = None,
) -> Iterator[Any]:
    """The example's queue, on this stand-in."""
    hand_off = module("hand_off")
    with stand_in, pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLOUD_TASKS_EMULATOR_HOST", stand_in.host)
        client = hand_off.connect()
        with client:
            yield hand_off.Tasks(client, QUEUE, url, account, timeout=timeout, patience=patience)


def test_a_task_is_put_once() -> None:
    """The second task of the same key is not stored, and is no error; another key's is."""
    stand_in = module("stand_in").StandIn(deliveries=0)
    with queue_at(stand_in) as queue:
        assert [queue.put(key, {"tenant": key}) for key in ("job:tick:a", "job:tick:a", "job:tick:b")] == [
            True,
            False,
            True,
        ]
    bodies = [json.loads(task.http_request.body) for task in stand_in.tasks.values()]
    assert bodies == [{"key": f"job:tick:{one}", "tenant": f"job:tick:{one}"} for one in "ab"]


def test_the_token_of_a_task_is_for_the_service() -> None:
    """The token's audience is the worker's service, as Cloud Run wants it, and not the whole URL."""
    stand_in = module("stand_in").StandIn(deliveries=0)
    with queue_at(stand_in, url="https://w-1.run.app/tasks/report", account="w@p.iam.gserviceaccount.com") as queue:
        queue.put("key", {})
    (task,) = stand_in.tasks.values()
    token = task.http_request.oidc_token
    assert (token.service_account_email, token.audience) == ("w@p.iam.gserviceaccount.com", "https://w-1.run.app")


def test_a_queue_that_is_away_for_a_moment_gets_the_task() -> None:
    """UNAVAILABLE is asked again."""
    stand_in = module("stand_in")
    server = stand_in.StandIn(before={0: stand_in.unavailable, 1: stand_in.unavailable}, deliveries=0)
    with queue_at(server) as queue:
        assert queue.put("key", {})
    assert len(server.tasks) == 1


def test_a_task_that_was_stored_without_a_reply_is_sent_again() -> None:
    """A request that takes too long may have been applied: the second one finds the task, and that is a success."""
    goes_on = threading.Event()
    server = module("stand_in").StandIn(after={0: lambda _: goes_on.wait(LONG)}, deliveries=0)
    with queue_at(server, timeout=0.3) as queue:
        assert not queue.put("key", {})
        goes_on.set()
    assert (len(server.tasks), server.existing) == (1, 1)


def test_a_queue_that_stays_away_fails_the_run() -> None:
    """At the end of its patience the error is the run's, and nothing was stored."""
    stand_in = module("stand_in")
    server = stand_in.StandIn(before=dict.fromkeys(range(1000), stand_in.unavailable), deliveries=0)
    with queue_at(server, patience=0.3) as queue, pytest.raises(RetryError):
        queue.put("key", {})
    assert server.tasks == {}


def test_an_error_that_stays_is_not_sent_again() -> None:
    """A refusal by IAM is the run's error at once."""
    asked: list[int] = []

    def deny(context: grpc.ServicerContext) -> None:
        asked.append(1)
        context.abort(grpc.StatusCode.PERMISSION_DENIED, "cloudtasks.tasks.create")

    server = module("stand_in").StandIn(before=dict.fromkeys(range(10), deny), deliveries=0)
    with queue_at(server) as queue, pytest.raises(PermissionDenied):
        queue.put("key", {})
    assert asked == [1]


@given(st.lists(st.text(max_size=600), min_size=2, max_size=2, unique=True))
def test_a_key_becomes_an_id(keys: list[str]) -> None:
    """An id has what Cloud Tasks allows, and two keys have two ids."""
    first, second = (module("hand_off").task_id(key) for key in keys)
    assert first != second
    assert set(first) <= ALLOWED
    assert 1 <= len(first) <= 500
