"""A stand-in for Cloud Tasks on this machine: it knows the names of its tasks, and posts each task to its worker.

It speaks gRPC, as the real client does, and has the real service's faults: it is UNAVAILABLE, it answers too late after
it has stored a task, and it posts a task twice.
"""

from __future__ import annotations

import threading
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias
from urllib.error import URLError

import grpc
from google.cloud.tasks_v2 import CreateTaskRequest, Task

SERVICE = "google.cloud.tasks.v2.CloudTasks"
TRIES = 200

Fault: TypeAlias = Callable[[grpc.ServicerContext], None]


def unavailable(context: grpc.ServicerContext) -> None:
    """Refuse the request, as a service does that is overloaded for a moment."""
    context.abort(grpc.StatusCode.UNAVAILABLE, "try again")


class StandIn:
    """The server. `host` is its address.

    Args:
        before: By the number of the request, from 0: what happens before its task is stored.
        after: The same, for what happens between that and the response.
        deliveries: How often each task is posted to its worker; 0 for never.
    """

    def __init__(
        self, before: dict[int, Fault] | None = None, after: dict[int, Fault] | None = None, deliveries: int = 1
    ) -> None:
        self._before, self._after, self._deliveries = before or {}, after or {}, deliveries
        self._lock = threading.Lock()
        self._requests = 0
        self._stopped = threading.Event()
        # The tasks by name. One that was posted keeps its name, as for a while at Cloud Tasks.
        self.tasks: dict[str, Task] = {}
        self.existing = 0  # how many requests were answered with ALREADY_EXISTS
        self._posting = ThreadPoolExecutor(4)
        self._server = grpc.server(ThreadPoolExecutor(8))
        create = grpc.unary_unary_rpc_method_handler(
            self._create, request_deserializer=CreateTaskRequest.deserialize, response_serializer=Task.serialize
        )
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {"CreateTask": create}),))
        self.host = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"

    def __enter__(self) -> StandIn:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._server.stop(None).wait()
        self._posting.shutdown(cancel_futures=True)

    def _create(self, request: CreateTaskRequest, context: grpc.ServicerContext) -> Task:
        with self._lock:
            number, self._requests = self._requests, self._requests + 1
        self._before.get(number, _nothing)(context)
        task = request.task
        with self._lock:
            is_new = task.name not in self.tasks
            self.tasks.setdefault(task.name, task)
            self.existing += not is_new
        if not is_new:
            context.abort(grpc.StatusCode.ALREADY_EXISTS, f"{task.name} exists, or existed recently")
        for _ in range(self._deliveries):
            self._posting.submit(self._post, task)
        self._after.get(number, _nothing)(context)
        return task

    def _post(self, task: Task) -> None:
        """Post the task until its worker has taken it, at most TRIES times."""
        post = urllib.request.Request(  # noqa: S310 - it is the address of a worker on this machine
            task.http_request.url, task.http_request.body, dict(task.http_request.headers), method="POST"
        )
        for _ in range(TRIES):
            try:
                with urllib.request.urlopen(post, timeout=10):  # noqa: S310 - as above
                    return
            except (URLError, OSError):
                if self._stopped.wait(0.1):
                    return


def _nothing(_: grpc.ServicerContext) -> None:
    pass
