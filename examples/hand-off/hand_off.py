"""A tick hands its work to a queue: one task a tenant. `firecron work hand_off:crons` runs it.

The tick only puts tasks into the queue, so it is short however many tenants there are. A task has the name of the tick
and the tenant: if the run dies and another instance begins it again, the queue refuses what it has already.
"""

from __future__ import annotations

import hashlib
import json
import os
import re

import grpc
from google.api_core.exceptions import AlreadyExists, DeadlineExceeded, ServiceUnavailable
from google.api_core.retry import Retry, if_exception_type
from google.cloud import tasks_v2
from google.cloud.tasks_v2.services.cloud_tasks.transports import CloudTasksGrpcTransport

from firecron import FireCron, Run, distributed_cron

LONGEST_ID = 500
# killed.py, which can't wait for the night, sets both.
SCHEDULE = os.environ.get("SCHEDULE", "0 2 * * *")
LOCK_TTL = float(os.environ.get("LOCK_TTL", "60"))


def task_id(key: str) -> str:
    """Return the key as a task's id: letters, digits, `-` and `_`. Two keys never have the same id.

    The id begins with a hash, because Cloud Tasks is slow with ids that begin alike. The rest is for people.
    """
    digest = hashlib.sha256(key.encode()).hexdigest()[:32]
    return f"{digest}-{re.sub('[^A-Za-z0-9_-]+', '-', key)}"[:LONGEST_ID]


def connect() -> tasks_v2.CloudTasksClient:
    """Return the client of Cloud Tasks, or of the stand-in at CLOUD_TASKS_EMULATOR_HOST."""
    host = os.environ.get("CLOUD_TASKS_EMULATOR_HOST")
    if host is None:
        return tasks_v2.CloudTasksClient()
    return tasks_v2.CloudTasksClient(transport=CloudTasksGrpcTransport(channel=grpc.insecure_channel(host)))


class Tasks:
    """A queue of Cloud Tasks, whose tasks a worker at `url` handles.

    Args:
        client: The client of Cloud Tasks.
        queue: The queue, as `projects/PROJECT/locations/REGION/queues/NAME`.
        url: The worker's address.
        account: The service account that Cloud Tasks calls the worker as; None for a worker that asks for no token.
        timeout: Seconds for one request; less for one that is sent again.
        patience: Seconds for all tries of one task.
    """

    def __init__(
        self,
        client: tasks_v2.CloudTasksClient,
        queue: str,
        url: str,
        account: str | None = None,
        timeout: float = 5,
        patience: float = 30,
    ) -> None:
        self._client, self._queue, self._url, self._account = client, queue, url, account
        self._timeout = timeout
        # By itself the client sends a task once. A task with a name may be sent again: at worst it is there already.
        again = if_exception_type(ServiceUnavailable, DeadlineExceeded)
        self._retry = Retry(predicate=again, initial=0.1, maximum=2, timeout=patience)

    def put(self, key: str, content: dict[str, str]) -> bool:
        """Put the task of this key into the queue. Return whether it is new; False if it was there already."""
        request = tasks_v2.HttpRequest(
            url=self._url,
            http_method=tasks_v2.HttpMethod.POST,
            headers={"Content-Type": "application/json"},
            body=json.dumps({"key": key, **content}).encode(),
        )
        if self._account is not None:
            # Cloud Run takes a token for the service, and by itself Cloud Tasks makes one for the whole URL.
            service = "/".join(self._url.split("/")[:3])
            request.oidc_token = tasks_v2.OidcToken(service_account_email=self._account, audience=service)
        task = tasks_v2.Task(name=f"{self._queue}/tasks/{task_id(key)}", http_request=request)
        try:
            self._client.create_task(parent=self._queue, task=task, retry=self._retry, timeout=self._timeout)
        except AlreadyExists:
            return False
        return True


class Reports:
    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks

    @distributed_cron("tenant-reports", SCHEDULE, lock_ttl=LOCK_TTL, on_abandoned="rerun")
    def hand_off(self, run: Run) -> None:
        new = 0
        # As a step, so that a rerun has the list of the first attempt, whoever signed up meanwhile.
        tenants = run.step("tenants", self.tenants)
        for tenant in tenants:
            run.check()  # raises once this instance stops, or has lost the lock
            new += self._tasks.put(run.key(tenant), {"tenant": tenant})
        print(f"attempt {run.attempt} at {run.idempotency_key}: {new} of {len(tenants)} tasks were new", flush=True)

    def tenants(self) -> list[str]:
        """Stands for a query: an id can have any characters."""
        return ["acme", "bäckerei-süß", "c/o carol", "d_d", "e e", "f.f", "g:g", "h"]


def make() -> FireCron:
    tasks = Tasks(
        connect(),
        os.environ["TASKS_QUEUE"],
        os.environ["WORKER_URL"],
        os.environ.get("WORKER_ACCOUNT"),
        timeout=float(os.environ.get("TASKS_TIMEOUT", "5")),
    )
    return FireCron(Reports(tasks))


if "TASKS_QUEUE" in os.environ:
    crons = make()
