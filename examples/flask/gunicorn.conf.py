"""gunicorn loads the application once and forks its workers from it; the jobs tick in the workers only."""

from __future__ import annotations

import os

bind = os.environ.get("BIND", f"0.0.0.0:{os.environ.get('PORT', '8080')}")
preload_app = True
workers = 2
threads = 8
# Cloud Run kills ten seconds after its SIGTERM; gunicorn would wait for thirty.
graceful_timeout = 9


def on_starting(server: object) -> None:
    # init_app has started them with the application, which is loaded by now; nothing is forked yet.
    from app import crons  # type: ignore[import-not-found]  # it is beside this file, where gunicorn looks

    crons.stop()


def post_fork(server: object, worker: object) -> None:
    from app import crons

    crons.start()
