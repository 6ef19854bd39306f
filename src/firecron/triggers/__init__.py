"""Triggers from outside: a job run by an HTTP request, under the lock that its ticks have.

    POST /<name>     run the job; Cloud Scheduler's header says for which tick
    GET /            the jobs, their states, last runs and next ticks

For services that scale to zero, and for whoever wants Cloud Scheduler to keep the time. Made by
`FireCron.trigger_app` (ASGI) and `FireCron.trigger_blueprint` (Flask); what is answered is decided in `handler` and
`responses`, the same for both. Nothing is open: who may call is said when they are made.
"""
