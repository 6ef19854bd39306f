"""Triggers: an HTTP request runs a job, under the same lock as the job's ticks.

    POST /<name>     run the job; Cloud Scheduler's header says for which tick
    GET /            list the jobs with their states, last runs and next ticks

Triggers are for services that scale to zero, and for programs whose ticks come from Cloud Scheduler.
`FireCron.trigger_app` creates the trigger for ASGI, `FireCron.trigger_blueprint` for Flask. Both give the same
responses, which `handler` and `responses` decide. A trigger is never open by default: its creation has to say which
callers it serves.
"""
