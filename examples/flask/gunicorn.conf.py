"""gunicorn loads the application once and forks its workers from it. The jobs tick only in the workers."""

from __future__ import annotations

import os

bind = os.environ.get("BIND", f"0.0.0.0:{os.environ.get('PORT', '8080')}")
preload_app = True
workers = 2
threads = 8
# Cloud Run sends SIGKILL ten seconds after SIGTERM; gunicorn's default is to wait for thirty.
graceful_timeout = 9


def on_starting(server: object) -> None:
    # The application is loaded, so init_app has started the jobs. No worker is forked yet.
    from app import crons  # type: ignore[import-not-found]  # app.py is beside this file, where gunicorn looks

    crons.stop()


def post_fork(server: object, worker: object) -> None:
    from app import crons

    crons.start()
