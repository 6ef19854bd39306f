"""The worker: Cloud Tasks posts each task to it, and posts it again until the response is a 2xx.

Cloud Tasks may post a task twice, and forgets the name of a task some time after it is done. So the worker itself
writes the task's key in the same transaction as its result: the second time, nothing is left to do.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing

from fastapi import FastAPI
from pydantic import BaseModel

CREATE = "CREATE TABLE IF NOT EXISTS reports (key TEXT PRIMARY KEY, tenant TEXT NOT NULL, pages INTEGER NOT NULL)"
INSERT = "INSERT INTO reports (key, tenant, pages) VALUES (:key, :tenant, :pages) ON CONFLICT (key) DO NOTHING"

app = FastAPI()


class Task(BaseModel):
    key: str
    tenant: str


@app.post("/tasks/report")
def report(task: Task) -> dict[str, bool]:
    with closing(sqlite3.connect(os.environ["STORE"], timeout=10)) as store, store:
        store.execute(CREATE)
        pages = len(task.tenant)  # stands for the work
        written = store.execute(INSERT, {"key": task.key, "tenant": task.tenant, "pages": pages}).rowcount
    return {"done": written == 1}
