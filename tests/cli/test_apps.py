"""`firecron jobs` and `next`, which ask no database: what APP may be, and what is said of what can't be used."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.calls import answer, call, complaint, modules
from tests.cli.schemas import JOBS, NEXT

APPLICATION = """
print("importing")
from fastapi import FastAPI
from firecron import FireCron, distributed_cron

class Digests:
    @distributed_cron("digest", "0 9 * * *", timezone="America/New_York", role="batch")
    def send(self): ...

class Static:
    @staticmethod
    @distributed_cron("static", "@hourly", disabled=True, runbook="https://wiki.example.com/static")
    def send(): ...

@distributed_cron("function", "*/5 * * * *")
def function(): ...

class holder:
    digests = Digests()

crons = FireCron(Digests(), Static, function)
opened = FireCron(function, enabled=True)
web = FastAPI()
"""

FORGETFUL = """
from firecron import FireCron, distributed_cron

@distributed_cron("given", "0 9 * * *", timezone="America/New_York")
def given(): ...

@distributed_cron("forgotten", "@hourly")
def forgotten(): ...

crons = FireCron(given)
"""

EVEN = """
from firecron import distributed_cron

@distributed_cron("even", every=2700)
def even(): ...
"""


LEADING = """
from firecron import FireCron, Term, leader

@leader("price-feed", ttl=20, role="feeds", owner="trading")
async def price_feed(term: Term):
    "Follows the prices."

@leader("orders")
def orders(): ...

crons = FireCron(price_feed, orders)
"""


STORED = """
from firecron import scheduled

@scheduled("remind")
def remind(event: str) -> None: ...
"""

MODULES = {
    "stored": STORED,
    "someapp": APPLICATION,
    "forgetful": FORGETFUL,
    "leading": LEADING,
    "evenapp": EVEN,
    "broken": "import nosuchmodule\n",
    "raising": "\n1 / 0\n",
    "wrong": "import firecron\nfirecron.FireCron(around=[None])\n",
}


@pytest.fixture(autouse=True)
def application(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The module `someapp` in the current folder, and no database anywhere."""
    monkeypatch.delenv("RUNTIME_INSTANCE", raising=False)
    monkeypatch.delenv("K_SERVICE", raising=False)
    with modules(MODULES, tmp_path, monkeypatch):
        yield


@pytest.mark.parametrize(
    ("target", "names"),
    [
        ("someapp:crons", ["digest", "static", "function"]),
        ("someapp:holder.digests", ["digest"]),
        ("someapp:Static", ["static"]),
        ("someapp:function", ["function"]),
        ("someapp", ["function"]),
    ],
)
def test_whatever_firecron_takes_is_an_app(target: str, names: list[str]) -> None:
    """APP is a FireCron, an instance, a class, a function or a module, and its jobs are listed in their order."""
    sys.modules.pop("someapp", None)
    result = call("jobs", target, "--json")
    assert (result.exit_code, result.stderr) == (0, "importing\n")
    value = answer(JOBS, "jobs", target)
    assert [job["name"] for job in value["jobs"]] == names


def test_a_stored_job_says_where_its_schedules_are() -> None:
    """It is among the jobs, and has no line, no next tick and no end."""
    (job,) = answer(JOBS, "jobs", "stored")["jobs"]
    assert (job["name"], job["stored"], job["words"], job["next"]) == ("remind", True, "by stored schedules", [])
    shown = call("jobs", "stored").stdout
    assert "by stored schedules, in the database: firecron schedules remind" in shown
    assert "ended" not in shown


def test_what_is_said_of_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job is listed with its line, zone, role, place and next ticks in both times, and whether it runs here."""
    call("jobs", "someapp")
    value = answer(JOBS, "jobs", "someapp:crons", "-n", "2")
    digest, static, function = value["jobs"]
    assert (digest["line"], digest["timezone"], digest["role"]) == ("0 9 * * *", "America/New_York", "batch")
    assert digest["where"] == "someapp.Digests.send"
    assert [tick["local"][10:19] for tick in digest["next"]] == ["T09:00:00"] * 2
    assert [job["runsHere"] for job in (digest, static, function)] == [False, False, True]
    assert digest["words"] == "at 09:00 every day, New York"
    assert (digest["runbook"], static["runbook"]) == (None, "https://wiki.example.com/static")
    said = call("jobs", "someapp:crons").stdout
    assert said.startswith("Jobs don't tick in a server with this environment: ")
    assert "digest  0 9 * * *  America/New_York\n  at 09:00 every day, New York\n  someapp.Digests.send\n" in said
    assert "needs the role 'batch'" in said
    assert "it is disabled" in said
    monkeypatch.setenv("FIRECRON_ROLES", "batch")
    value = answer(JOBS, "jobs", "someapp:holder.digests", "-n", "0")
    assert value["roles"] == ["batch"]
    assert (value["jobs"][0]["runsHere"], value["jobs"][0]["next"]) == (True, [])


def test_a_job_at_even_distances_is_listed() -> None:
    """Instead of a line it has its words, and as JSON the distance and the start."""
    (job,) = answer(JOBS, "jobs", "evenapp:even")["jobs"]
    line, words = "every 45 minutes, from 1970-01-01 00:00 UTC", "every 45 minutes"
    assert (job["line"], job["words"], job["timezone"]) == (line, words, "UTC")
    assert (job["every"], job["starting"]) == (2700, "1970-01-01T00:00:00Z")
    assert f"even\n  {words}\n  evenapp.even\n" in call("jobs", "evenapp:even").stdout


def test_next_takes_even_distances() -> None:
    """`next --every` lists ticks from the start on, which is in UTC unless it says otherwise."""
    arguments = ("next", "--every", "2700", "--starting", "2026-11-18T09:00", "--after", "2026-11-18T09:00Z", "-n", "2")
    value = answer(NEXT, *arguments)
    assert (value["every"], value["starting"], value["changes"]) == (2700, "2026-11-18T09:00:00Z", [])
    assert call(*arguments).stdout.splitlines() == [
        "every 45 minutes, from 2026-11-18 09:00 UTC",
        "Wed 2026-11-18 09:45:00 +00:00   2026-11-18T09:45:00Z",
        "Wed 2026-11-18 10:30:00 +00:00   2026-11-18T10:30:00Z",
    ]


def test_next_takes_bounds() -> None:
    """`next` lists the ticks from `--starting` to `--until`, and says that there are no more."""
    arguments = (
        "next",
        "0 9 * * *",
        "--starting",
        "2026-12-01",
        "--until",
        "2026-12-02T09:00",
        "--after",
        "2026-11-18",
    )
    value = answer(NEXT, *arguments)
    assert (value["starting"], value["until"]) == ("2026-12-01T00:00:00Z", "2026-12-02T09:00:00Z")
    assert [tick["utc"] for tick in value["ticks"]] == ["2026-12-01T09:00:00Z", "2026-12-02T09:00:00Z"]
    ended = ("next", "0 9 * * *", "--until", "2020-01-01")
    assert (answer(NEXT, *ended)["ticks"], answer(NEXT, *ended)["changes"]) == ([], [])
    assert call(*ended).stdout.splitlines() == [
        "at 09:00 every day, UTC, until 2020-01-01 00:00",
        "no tick is to come: it has ended",
    ]


def test_next_names_the_days_without_ticks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`next APP NAME` says which days are excluded between the ticks that it lists, and why."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "closedapp.py").write_text(
        "from datetime import date\nfrom firecron import distributed_cron\n"
        "@distributed_cron('opens', '0 9 * * *', except_days={'holiday': [date(2026, 12, 25), date(2026, 12, 26)]})\n"
        "def opens(): ...\n"
    )
    arguments = ("next", "closedapp:opens", "opens", "--after", "2026-12-24T08:00Z", "-n", "2")
    value = answer(NEXT, *arguments)
    assert [tick["utc"][:10] for tick in value["ticks"]] == ["2026-12-24", "2026-12-27"]
    assert value["excluded"] == [{"date": f"2026-12-{day}", "why": "holiday"} for day in (25, 26)]
    assert value["exceptDays"] == ["holiday"]
    shown = call(*arguments).stdout.splitlines()
    assert shown[0] == "at 09:00 every day, UTC, except holiday"
    assert shown[-2:] == ["Fri 2026-12-25: no ticks (holiday)", "Sat 2026-12-26: no ticks (holiday)"]


def test_next_takes_the_name_for_a_hashed_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """`next` with a line that has an H shows the numbers of the name below this environment's prefix."""
    arguments = ("next", "H 3 * * *", "digest", "--after", "2026-11-18T09:00Z", "-n", "1")
    assert answer(NEXT, *arguments)["line"] == "3 3 * * *"
    monkeypatch.setenv("FIRECRON_PREFIX", "ops/cron")
    value = answer(NEXT, *arguments)
    assert (value["line"], value["ticks"][0]["utc"]) == ("51 3 * * *", "2026-11-19T03:51:00Z")
    assert answer(NEXT, *arguments, "--prefix", "")["line"] == "3 3 * * *"


@pytest.mark.parametrize("option", ["--prefix", "--context"])
def test_next_takes_the_prefix_of_its_options(option: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Also for the H of an application's job: `--context` names the prefix of that database."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "hashedapp.py").write_text(
        "from firecron import distributed_cron\n@distributed_cron('digest', 'H 3 * * *')\ndef digest(): ...\n"
    )
    database = "https://demo-firecron.firebaseio.com"
    call("context", "add", "prod", "--database", database, "--prefix", "ops/cron", "--json")
    named = (option, "prod" if option == "--context" else "ops/cron")
    for what in (("H 3 * * *", "digest"), ("hashedapp:digest", "digest")):
        assert answer(NEXT, "next", *what)["line"] == "3 3 * * *"
        assert answer(NEXT, "next", *what, *named)["line"] == "51 3 * * *"


def test_a_job_that_no_firecron_was_given_is_named() -> None:
    """What an application declares and gives to no FireCron is listed as what never runs; without a FireCron nobody
    knows.
    """
    value = answer(JOBS, "jobs", "forgetful:crons")
    assert value["unclaimed"] == [{"name": "forgotten", "where": "forgetful.forgotten"}]
    *_, name, where, why = call("jobs", "forgetful:crons").stdout.splitlines()
    assert (name, where.strip()) == ("forgotten", "forgetful.forgotten")
    assert "never" in why
    assert answer(JOBS, "jobs", "forgetful:given")["unclaimed"] == []


def test_next_takes_a_job_of_an_application() -> None:
    """`next APP NAME` shows the ticks of that job, in its own time zone."""
    value = answer(NEXT, "next", "forgetful:crons", "given", "--after", "2026-11-18T09:00:00Z", "-n", "1")
    assert (value["line"], value["timezone"]) == ("0 9 * * *", "America/New_York")
    assert value["ticks"] == [{"local": "2026-11-18T09:00:00-05:00", "utc": "2026-11-18T14:00:00Z"}]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("forgetful:crons",), "name one of its jobs as well: given"),
        (("forgetful:crons", "givne"), "there is no job 'givne'; the jobs are: given"),
        (("forgetful:crons", "given", "-z", "UTC"), "given has its own time zone"),
        (("30 2 * * *", "given"), "'30 2 * * *' is not a module:object"),
    ],
)
def test_next_says_what_is_missing(arguments: tuple[str, ...], words: str) -> None:
    """An application without a name, with a wrong one, or with a time zone is wrong usage that says what would do."""
    assert words in complaint(2, "next", *arguments)


def test_the_production_guard_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether jobs tick here is told with the variable that decides, or with the argument that overrides it."""
    call("jobs", "someapp")
    assert "RUNTIME_INSTANCE is not set" in call("jobs", "someapp:crons").stdout
    assert "enabled=True" in str(answer(JOBS, "jobs", "someapp:opened")["why"])
    monkeypatch.setenv("RUNTIME_INSTANCE", "production")
    assert answer(JOBS, "jobs", "someapp:crons")["ticksHere"] is True


@pytest.mark.parametrize(
    ("target", "code", "words"),
    [
        ("nosuchapp:crons", 2, "there is no module 'nosuchapp'"),
        ("someapp.sub:crons", 2, "there is no module 'someapp.sub'"),
        ("someapp.py:crons", 2, ": write someapp:crons"),
        ("someapp:nothing", 2, "no 'nothing' in someapp; did you mean someapp:crons or someapp:opened?"),
        ("someapp:web", 2, "someapp:web has no jobs: it is a FastAPI"),
        ("some app", 2, "is not a module:object"),
        (":crons", 2, "is not a module:object"),
        ("someapp:Digests", 2, "needs an instance"),
        ("broken:crons", 1, "No module named 'nosuchmodule'"),
        ("raising:crons", 1, "ZeroDivisionError: division by zero"),
        ("wrong:crons", 2, "ConfigurationError: around="),
    ],
)
def test_what_is_no_app_is_said(target: str, code: int, words: str) -> None:
    """What can't be found, imported or explored is one line that says what, and names what may have been meant."""
    call("jobs", "someapp")
    assert words in complaint(code, "jobs", target)


def test_next_ticks_are_in_both_times() -> None:
    """`next` shows so many ticks in the zone and in UTC, and what happens on a night when the clocks change."""
    arguments = ("next", "30 2 * * *", "-z", "Europe/Berlin", "--after", "2027-03-27T12:00", "-n", "2")
    value = answer(NEXT, *arguments)
    assert value["ticks"] == [
        {"local": "2027-03-28T03:00:00+02:00", "utc": "2027-03-28T01:00:00Z"},
        {"local": "2027-03-29T02:30:00+02:00", "utc": "2027-03-29T00:30:00Z"},
    ]
    assert [(change["kind"], change["times"]) for change in value["changes"]] == [("moved", ["2027-03-28T02:30:00"])]
    assert value["words"] == "at 02:30 every day, Berlin"
    assert call(*arguments).stdout.splitlines() == [
        "at 02:30 every day, Berlin",
        "Sun 2027-03-28 03:00:00 +02:00   2027-03-28T01:00:00Z",
        "Mon 2027-03-29 02:30:00 +02:00   2027-03-29T00:30:00Z",
        "2027-03-28: the clocks go from 02:00 to 03:00. 02:30 does not exist: moved to 03:00",
    ]


@pytest.mark.parametrize("after", ["2026-10-24T23:00:00Z", "2026-10-25T00:30:00Z", "2026-10-25T02:29:59+01:00"])
def test_a_repeated_hour_is_told_of_before_it_and_in_it(after: str) -> None:
    """A night is explained also where the ticks that are shown are but one pass of a repeated hour."""
    value = answer(NEXT, "next", "*/30 2 * * *", "-z", "Europe/Berlin", "--after", after, "-n", "1")
    assert [change["kind"] for change in value["changes"]] == ["repeated"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("61 * * * *",), "61 is not a valid minute"),
        (("* * *",), "has 3 fields"),
        (("* * * * *", "-z", "Mars/Base"), "there is no time zone 'Mars/Base'"),
        (("* * * * *", "--after", "soon"), "--after 'soon' is not an instant"),
        ((), "give a cron line, --every SECONDS, or APP NAME"),
        (("* * * * *", "--every", "60"), "the cron line '* * * * *' and every=60.0: leave one of them out"),
        (("* * * * *", "--until", "soon"), "--until 'soon' is not an instant"),
        (("* * * * *", "--starting", "2026-11-18", "--until", "2026-11-17"), "never fires: until="),
        (("--every", "60", "-z", "Europe/Berlin"), "timezone='Europe/Berlin' is only for a cron line"),
        (("--every", "1.5"), "every=1.5 must be whole seconds"),
        (("--every", "60", "--starting", "soon"), "--starting 'soon' is not an instant"),
        (("someapp:crons", "digest", "--every", "60"), "digest has its own schedule"),
        (("H * * * *",), "the H in 'H * * * *' is a number from a job's name: give the name after the line"),
        (("0 0 15W * *",), "W, the nearest weekday, is not supported"),
    ],
)
def test_what_is_no_schedule_is_wrong_usage(arguments: tuple[str, ...], words: str) -> None:
    """A line, a zone or an instant that can't be used is exit code 2, with what is wrong."""
    assert words in complaint(2, "next", *arguments)


def test_a_line_that_means_less_than_it_says_is_told() -> None:
    """A step that is too big is warned of, beside the answer."""
    result = call("next", "*/90 * * * *", "--json")
    assert (result.exit_code, "too big" in result.stderr) == (0, True)


COMMANDS = ("demo", "emulator", "jobs", "next", "locks", "runs", "pause", "resume", "unlock")


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_has_an_example(command: str) -> None:
    """`--help` of each command shows an example of it."""
    assert f"Example: firecron {command}" in call(command, "--help").stdout


@pytest.mark.parametrize(
    "arguments", [("nothing",), ("pause",), ("locks", "--interval", "0"), ("demo", "--ticks", "1")]
)
def test_wrong_usage_is_exit_code_2(arguments: tuple[str, ...]) -> None:
    """What the command line itself doesn't know is exit code 2, with a line on standard error."""
    result = call(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Error: " in result.stderr


def test_jobs_lists_leaders() -> None:
    """A leader is listed with its ttl, and whether it would stand in a server; an application may have leaders only."""
    value = answer(JOBS, "jobs", "leading:crons")
    assert value["leaders"] == [
        {
            "name": "price-feed",
            "ttl": 20,
            "role": "feeds",
            "disabled": False,
            "description": "Follows the prices.",
            "owner": "trading",
            "runbook": None,
            "standsHere": False,
            "where": "leading.price_feed",
        },
        {
            "name": "orders",
            "ttl": 15,
            "role": None,
            "disabled": False,
            **dict.fromkeys(("description", "owner", "runbook")),
            "standsHere": True,
            "where": "leading.orders",
        },
    ]
    assert "  Follows the prices.\n  owner trading\n  leading.price_feed" in call("jobs", "leading:crons").stdout
    shown = call("jobs", "leading:orders").stdout
    assert "orders  leader, ttl 15 s" in shown
    assert "doesn't stand there: it needs the role 'feeds'" in call("jobs", "leading:crons").stdout


def test_a_leader_is_not_run() -> None:
    """Who asks to run a leader is told that it is elected."""
    assert "orders is a leader, which is elected and not run" in complaint(2, "run", "leading:crons", "orders")
