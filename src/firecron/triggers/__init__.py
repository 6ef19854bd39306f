"""Triggers: an HTTP request runs a job, under the same lock as the job's ticks.

    POST /<name>     run the job; Cloud Scheduler's header says for which tick
    GET /            list the jobs with their states, last runs and next ticks

Triggers are for services that scale to zero, and for programs whose ticks come from Cloud Scheduler.
`FireCron.trigger_app` creates the trigger for ASGI, `trigger_blueprint` for Flask, `trigger_urls` for Django. All give
the same replies, which `handler` decides. A trigger is never open by default: its creation has to say which callers it
serves.
"""
