"""gunicorn's configuration for an application that is loaded before the fork: each worker starts its jobs itself."""

from __future__ import annotations


def post_fork(server: object, worker: object) -> None:
    from tests.process.apps.flask_app import crons

    crons.start()
