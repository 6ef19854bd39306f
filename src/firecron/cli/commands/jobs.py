"""`firecron jobs APP`: the jobs and leaders that the explorer finds, what their schedules mean, and whether they would
run here.

The command reads no database.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.text import Text

from firecron.app import FireCron
from firecron.cli.commands.next_ticks import schedule_value, tick_in_words, tick_value, ticks_after
from firecron.cli.loading import Loaded, load
from firecron.cli.options import AppPath, Json
from firecron.cli.output import Output, answering
from firecron.cron.words import in_words
from firecron.jobs.job import Job
from firecron.jobs.options import JobOptions
from firecron.leaders.decorator import LeaderOptions
from firecron.scheduler.guard import Verdict

Number = Annotated[int, typer.Option("-n", min=0, max=100, help="Number of ticks for each job.")]


def add_to(app: typer.Typer) -> None:
    app.command("jobs", epilog="Example: firecron jobs myservice.main:crons")(jobs)


def jobs(app: AppPath, number: Number = 1, as_json: Json = False) -> None:
    """List the jobs and leaders of an application, and next ticks.

    Also shows where each job is defined, and whether it would run here. The production guard and the job's role
    decide that. Reads no database.
    """
    output = Output(as_json=as_json)
    with answering(output):
        loaded = load(app)
        crons = loaded.crons
        verdict = crons.verdict
        now = datetime.now(UTC)
        found = {job.name: ticks_after(job.options.schedule, now, number) for job in crons.registry.jobs()}
        output.give(_value(loaded, verdict, found), _shown(loaded, verdict, found))


def _value(loaded: Loaded, verdict: Verdict, found: dict[str, list[datetime]]) -> object:
    crons = loaded.crons
    return {
        "ticksHere": verdict.may_tick,
        "why": verdict.why,
        "roles": list(crons.settings.roles),
        "jobs": [
            {
                "name": job.name,
                **schedule_value(job.options.schedule),
                "role": job.options.role,
                "disabled": job.options.disabled,
                "runsHere": _runs_here(crons, job),
                "where": job.where,
                "next": [tick_value(tick, job.options.schedule.timezone) for tick in found[job.name]],
            }
            for job in crons.registry.jobs()
        ],
        "leaders": [
            {
                "name": leader.name,
                "ttl": leader.options.election.ttl // 1000,
                "role": leader.options.role,
                "disabled": leader.options.disabled,
                "standsHere": crons.engine.leaders.stands_here(leader),
                "where": leader.where,
            }
            for leader in crons.engine.leaders.all()
        ],
        "unclaimed": [{"name": job.name, "where": job.where} for job in loaded.unclaimed],
    }


def _shown(loaded: Loaded, verdict: Verdict, found: dict[str, list[datetime]]) -> Text:
    crons = loaded.crons
    head = "Jobs tick here" if verdict.may_tick else "Jobs don't tick here"
    lines = [Text(f"{head}: {verdict.why}", "green" if verdict.may_tick else "yellow")]
    for job in crons.registry.jobs():
        schedule = job.options.schedule
        line = "" if schedule.every is not None else f"  {schedule.line}  {schedule.timezone}"
        lines.append(Text("\n").append(job.name, "bold").append(line))
        lines.append(Text(f"  {in_words(schedule)}"))
        lines.append(Text(f"  {job.where}", "dim"))
        if not _runs_here(crons, job):
            lines.append(Text(f"  doesn't run here: {_reason(job.options)}", "yellow"))
        lines += [Text(f"  {tick_in_words(tick, schedule.timezone)}") for tick in found[job.name]]
    for leader in crons.engine.leaders.all():
        ttl = f"  leader, ttl {leader.options.election.ttl / 1000:g} s"
        lines.append(Text("\n").append(leader.name, "bold").append(ttl))
        lines.append(Text(f"  {leader.where}", "dim"))
        if not crons.engine.leaders.stands_here(leader):
            lines.append(Text(f"  doesn't stand here: {_reason(leader.options)}", "yellow"))
    for forgotten in loaded.unclaimed:
        lines.append(Text("\n").append(forgotten.name, "bold"))
        lines.append(Text(f"  {forgotten.where}", "dim"))
        lines.append(Text("  never runs: it is declared, but was not given to a FireCron", "yellow"))
    return Text("\n").join(lines)


def _reason(options: JobOptions | LeaderOptions) -> str:
    return "it is disabled" if options.disabled else f"it needs the role {options.role!r}"


def _runs_here(crons: FireCron, job: Job) -> bool:
    return not job.options.disabled and crons.registry.runs_here(job)
