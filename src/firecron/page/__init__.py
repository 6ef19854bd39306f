"""The page: what the jobs do, live, in a browser, and the buttons to run, pause and unlock them.

    GET  /                      the page; its scripts and /page.css belong to it
    GET  /api/jobs, /api/…      what the page shows, as JSON for any program
    GET  /api/events            changes, as Server-Sent Events (ASGI only)
    GET  /health                200, or 503 if a job is not as it should be
    POST /api/jobs/<name>/<act> run, pause, resume, unlock, cancel

`FireCron.status_app` creates it for ASGI, `status_blueprint` for Flask, `status_urls` for Django, and `firecron page`
serves it alone. It needs no program of the jobs: the catalogue in the database says what they are. A page is never open
by default: its creation has to say which visitors it serves. Nothing here decides anything about a lock.
"""
