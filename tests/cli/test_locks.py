"""`firecron locks` and `runs` against a database: what they show, for people and for programs, of whatever is there."""

from __future__ import annotations

import re
import time

import pytest
from tests.cli.calls import answer, become_nobody, call, complaint, stored
from tests.cli.schemas import LAST_RUNS, LOCKS, RUNS

from firecron.base.instants import to_text
from firecron.lock.lease import Lease
from firecron.locks import LockService
from firecron.ops.remedy import freeing
from rtdb_emulator.pytest_plugin import Rtdb

LONG_AGO = 1_600_000_000_000
SLOT = "2020-09-13T12:26:40Z"
DIED = {
    "acquiredAt": LONG_AGO,
    "expiresAt": LONG_AGO + 60_000,
    "holder": "secret-token",
    "instanceId": "api-1",
    "instance": "0a1b",
    "slot": SLOT,
    "unfinished": SLOT,
    "attempt": 2,
    "fence": LONG_AGO,
}


def live(**fields: object) -> dict[str, object]:
    """The record of DIED while it is held, for a minute from now on."""
    now = time.time_ns() // 1_000_000
    return {**DIED, "acquiredAt": now, "expiresAt": now + 60_000, **fields}


def states(*name: str) -> dict[str, str]:
    """The state of each lock that `locks` shows."""
    return {lock["name"]: lock["state"] for lock in answer(LOCKS, "locks", *name)["locks"]}


def test_an_empty_database_says_so(rtdb: Rtdb, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no lock has a node, `locks` and `runs` say which database has nothing, with exit code 0."""
    assert answer(LOCKS, "locks") == {"locks": []}
    assert answer(LAST_RUNS, "runs") == {"jobs": []}
    where = f"the emulator at {rtdb.emulator.url}, database {rtdb.namespace}"
    for command, words in (("locks", "no lock"), ("runs", "no run")):
        result = call(command)
        assert (result.exit_code, result.stderr) == (0, "")
        assert f"{words} in {where}" in result.stdout
    monkeypatch.setenv("FIRECRON_PREFIX", "ops/cron")
    assert f"{where}, below ops/cron/" in call("locks").stdout
    assert rtdb.get("/cron-locks") is None


@pytest.mark.parametrize("command", [("locks",), ("status",), ("doctor",), ("unlock", "job")])
def test_a_password_in_the_databases_url_is_shown_by_no_command(
    monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    """Each command refuses such a URL, says what to remove, and quotes nothing of it."""
    monkeypatch.setenv("FIRECRON_DATABASE_URL", "https://me:hunter2@x.firebaseio.com?auth=hunter2")
    result = call(*command)
    assert result.exit_code == 2
    assert "remove the user and the password" in " ".join(result.output.split())
    assert "hunter2" not in result.output


def test_a_lock_that_is_held_is_shown_with_its_owner(rtdb: Rtdb) -> None:
    """A held lock is shown with its owner, since when and until when, and its token is not."""
    locks = LockService()
    lease = locks.acquire("import", 3600, fenced=True)
    assert isinstance(lease, Lease)
    value = answer(LOCKS, "locks")
    node = stored(rtdb, "/cron-locks/import")
    (lock,) = value["locks"]
    assert (lock["state"], lock["instanceId"], lock["instance"]) == ("held", "local", locks.identity.instance)
    assert (lock["since"], lock["until"], lock["fence"]) == (node["acquired"], node["expires"], node["fence"])
    said = call("locks").stdout
    assert said.startswith(f"import: held by local/{locks.identity.instance}; since ")
    assert re.search(r"in (1 h|59 min)\b", said)
    assert lease.holder not in said + str(value)
    lease.release()
    assert states() == {"import": "free"}


@pytest.mark.parametrize(("name", "state"), [("dead", "died"), ("new", "absent")])
def test_one_lock_is_shown_by_its_name(rtdb: Rtdb, name: str, state: str) -> None:
    """`locks NAME` shows that lock alone, also where it is a job's that has no node yet."""
    rtdb.set("/cron-locks", {"dead": DIED, "paused": {"paused": True}})
    rtdb.set("/cron-jobs/new", {"line": "0 9 * * *"})
    assert states(name) == {name: state}
    [line] = call("locks", name).stdout.splitlines()
    assert line.startswith(f"{name}: ")


def test_each_kind_of_node_is_shown(rtdb: Rtdb) -> None:
    """Dead, paused, foreign, malformed and unlocked locks are told apart, and the urgent ones come first."""
    now = time.time_ns() // 1_000_000
    rtdb.set("/cron-locks/dead", DIED)
    rtdb.set("/cron-locks/paused", {"paused": True})
    rtdb.set("/cron-locks/foreign", {"acquiredAt": now, "expiresAt": now + 3_600_000, "instanceId": "old"})
    rtdb.set("/cron-locks/odd", "text")
    rtdb.set("/cron-locks/unlocked", {**DIED, "expiresAt": 0})
    expected = {"dead": "died", "paused": "free", "foreign": "held", "odd": "malformed", "unlocked": "unlocked"}
    assert states() == expected
    lines = call("locks").stdout.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["odd", "dead", "foreign", "paused", "unlocked"]
    assert "malformed" in lines[0]
    assert "died without releasing: api-1/0a1b" in lines[1]
    assert f"tick {SLOT}, attempt 2 did not run to its end" in lines[1]
    assert "old (a NestJS original)" in lines[2]
    assert "paused" in lines[3]
    assert "unlocked by an operator" in lines[4]
    rtdb.set("/cron-locks/odd", {"expiresAt": "tomorrow"})
    shown = call("locks", "odd").stdout
    assert "its field expiresAt is wrong: Input should be a valid integer, and is 'tomorrow'" in shown
    assert 'it is {"expiresAt": "tomorrow"}' in shown
    rtdb.set("/cron-locks/odd", {"expiresAt": "tomorrow", "slot": "yesterday", "fence": 7})
    rtdb.set("/cron-locks/odd/expiresAt", 0)  # as the remedy says
    rtdb.set("/cron-locks/odd/slot", None)
    assert states()["odd"] == "unlocked"


def test_a_lock_that_nobody_frees_is_said(rtdb: Rtdb) -> None:
    """A lock that expires in years, and one whose instance is silent, are a problem with a remedy in every view."""
    now = time.time_ns() // 1_000_000
    stuck = live(expiresAt=4_102_444_800_000)
    rtdb.set("/cron-locks", {"good": live(instance="0a1c"), "silent": live(), "stuck": stuck})
    rtdb.set("/cron-instances", {"0a1b-f3a9c2": {"seenAt": now - 120_000}, "0a1c-f3a9c2": {"seenAt": now}})
    found = {lock["name"]: (lock["stuck"], lock["problem"] is None) for lock in answer(LOCKS, "locks")["locks"]}
    assert found == {"good": (False, True), "silent": (False, False), "stuck": (True, False)}
    *lines, good = call("locks").stdout.splitlines()
    told = (("silent", "was last seen at"), ("stuck", "expires at 2100-01-01"))
    for (name, words), line in zip(told, lines, strict=True):
        for said in (line, call("locks", name).stdout, call("runs", name).stdout, call("doctor").stdout):
            assert words in said
            assert f"firecron unlock {name}" in said
    assert "firecron unlock" not in good
    assert call("doctor").exit_code == 1


def test_who_may_not_read_the_instances_sees_the_locks(rtdb: Rtdb) -> None:
    """Where rules hide the instances, locks are shown without a word about their holders."""
    rtdb.set("/cron-locks/job", live())
    rtdb.set("/cron-instances/0a1b-f3a9c2", {"seenAt": 1})
    clock = {"clock": {".read": True, ".write": True}}
    become_nobody(rtdb, {"cron-locks": {".read": True}, "cron-instances": clock})
    for command in (("locks",), ("locks", "job")):
        found = answer(LOCKS, *command)["locks"]
        assert [(lock["state"], lock["problem"]) for lock in found] == [("held", None)]


def test_the_prefix_is_heeded(rtdb: Rtdb, monkeypatch: pytest.MonkeyPatch) -> None:
    """With FIRECRON_PREFIX every command looks and writes below that path, and nowhere else."""
    monkeypatch.setenv("FIRECRON_PREFIX", "ops/cron")
    rtdb.set("/ops/cron/cron-locks/job", DIED)
    rtdb.set(f"/ops/cron/cron-runs/job/{SLOT}", {"outcome": "failed"})
    assert states() == {"job": "died"}
    assert answer(RUNS, "runs", "job")["counts"] == {"failed": 1}
    assert "job: " in call("runs").stdout
    assert call("pause", "job").exit_code == 0
    assert rtdb.get("/ops/cron/cron-locks/job/paused") is True
    assert rtdb.get("/cron-locks") is None


NOTE = "[b]1,204[/b] mails"


def entry(start: int, **fields: object) -> dict[str, object]:
    return {
        "outcome": "succeeded",
        "slot": to_text(start),
        "startedAt": start + 100,
        "endedAt": start + 1100,
        "durationMs": 1000,
        "attempt": 1,
        "fence": start,
        "trigger": "schedule",
        "instanceId": "api-1",
        "instance": "0a1b",
        **fields,
    }


def test_the_history_is_shown_newest_last(rtdb: Rtdb) -> None:
    """`runs` shows the newest entries, the newest last, whatever they hold, and counts all of them."""
    start = LONG_AGO
    entries: dict[str, object] = {
        to_text(start): entry(start, durationMs=4000),
        to_text(start + 60_000): entry(start + 60_000, outcome="failed", error="ValueError: [red]no[/]", attempt=2),
        to_text(start + 120_000): {"outcome": "missed", "slot": to_text(start + 120_000), "count": 12, "atLeast": True},
        f"{to_text(start + 180_000)}-manual-a1b2c3": entry(start + 180_000, slot=None, trigger="manual", note=NOTE),
        "x-odd": 7,
    }
    rtdb.set("/cron-runs/job", entries)
    value = answer(RUNS, "runs", "job", "-n", "4")
    runs = value["runs"]
    assert [run["outcome"] for run in runs] == ["failed", "missed", "succeeded", "malformed"]
    assert [run["note"] for run in runs] == [None, None, "[b]1,204[/b] mails", None]
    assert value["counts"] == {"failed": 1, "malformed": 1, "missed": 12, "succeeded": 2}
    lines = call("runs", "job").stdout.splitlines()
    assert [line.count("█") for line in lines] == [10, 2, 0, 2, 0, 0]
    assert "attempt 2; ValueError: [red]no[/]" in lines[1]
    assert "at least 12 ticks" in lines[2]
    assert "manual; [b]1,204[/b] mails" in lines[3]
    assert "malformed" in lines[4]
    assert lines[5] == "5 entries: 1 failed, 1 malformed, at least 12 missed, 2 succeeded"


NO_HEARTBEAT = "its instance has no heartbeat: it is dead, or it never had one (exec, a run by hand, a trigger)"


@pytest.mark.parametrize("older", [None, "succeeded"])
@pytest.mark.parametrize(
    ("fields", "is_live", "words"),
    [
        ({}, False, "started, not ended (on api-1/0a1b)"),
        ({"expiresAt": 0}, False, "started, not ended (on api-1/0a1b)"),
        ({"expiresAt": time.time_ns() // 1_000_000 + 3_600_000}, True, "under way since 2020-09-13 "),
    ],
    ids=["dead", "unlocked", "live"],
)
def test_a_run_that_is_not_recorded_yet_is_the_last_line(
    rtdb: Rtdb, fields: dict[str, object], is_live: bool, words: str, older: str | None
) -> None:
    """`runs` also shows the tick that the lock's node names as unfinished, below older entries and without any."""
    rtdb.set("/cron-locks/job", {**DIED, **fields})
    if older is not None:
        rtdb.set(f"/cron-runs/job/{to_text(LONG_AGO - 60_000)}", entry(LONG_AGO - 60_000, outcome=older))
    assert answer(RUNS, "runs", "job")["unfinished"] == {
        "slot": SLOT,
        "isLive": is_live,
        "since": SLOT,
        "instanceId": "api-1",
        "instance": "0a1b",
        "problem": NO_HEARTBEAT if is_live else None,
        "remedy": freeing("job").to_json() if is_live else None,
    }
    lines = call("runs", "job").stdout.splitlines()
    assert len(lines) == (1 if older is None else 3)
    line = lines[0 if older is None else 1]
    assert words in line
    assert "api-1/0a1b" in line


@pytest.mark.parametrize(("attempt", "is_shown"), [(1, True), (2, False), (3, False)])
def test_a_claim_that_is_recorded_is_shown_once(rtdb: Rtdb, attempt: int, is_shown: bool) -> None:
    """An unfinished tick with an entry for its last claim is that entry, and for an earlier claim a line of its own."""
    rtdb.set("/cron-locks/job", DIED)
    rtdb.set(f"/cron-runs/job/{SLOT}", entry(LONG_AGO, outcome="interrupted", slot=SLOT, attempt=attempt))
    assert (answer(RUNS, "runs", "job")["unfinished"] is not None) == is_shown
    assert ("started, not ended" in call("runs", "job").stdout) == is_shown


@pytest.mark.parametrize("node", [None, {"paused": True}, "text"])
def test_a_job_without_runs(rtdb: Rtdb, node: object) -> None:
    """Without any run, `runs` says that no tick was claimed, or where its lock has a node, how to look at that."""
    rtdb.set("/cron-jobs/job", {"line": "0 9 * * *"})
    rtdb.set("/cron-locks/job", node)
    none: dict[str, object] = {"name": "job", "counts": {}, "runs": [], "unfinished": None, "steps": None}
    none["tracebacks"] = None
    assert answer(RUNS, "runs", "job") == none
    said = call("runs", "job").stdout
    assert said.startswith("There is no run of job in the emulator at ")
    assert ("none of its ticks was claimed yet" if node is None else "see firecron locks job") in said


ONLY_THE_HISTORY: dict[str, object] = {"cron-runs": {".read": True}}


def test_who_may_not_read_the_locks_gets_the_history(rtdb: Rtdb) -> None:
    """Where the rules allow the history alone, `runs` shows it, and says that it can't tell what is under way."""
    rtdb.set(f"/cron-runs/job/{SLOT}", entry(LONG_AGO))
    become_nobody(rtdb, ONLY_THE_HISTORY)
    assert answer(RUNS, "runs", "job")["counts"] == {"succeeded": 1}
    said = call("runs", "job")
    assert (said.exit_code, "1 entry: 1 succeeded" in said.stdout) == (0, True)
    assert "It is not known whether a run is under way" in said.stdout


def test_the_last_run_of_each_job_is_shown(rtdb: Rtdb) -> None:
    """`runs` without a name shows the newest entry of every job, and what is under way or died without one."""
    now = time.time_ns() // 1_000_000
    rtdb.set(
        "/cron-runs",
        {
            "by-hand-since": {
                SLOT: entry(LONG_AGO, outcome="interrupted", slot=SLOT, attempt=2),
                "2020-09-14T00:00:00Z-manual-a1b2c3": entry(LONG_AGO, slot=None, trigger="manual"),
            },
            "failed": {SLOT: entry(LONG_AGO), "2020-09-14T00:00:00Z": entry(LONG_AGO, outcome="failed", error="no")},
            "running": {"2020-09-12T00:00:00Z": entry(LONG_AGO - 1)},
        },
    )
    held, free = live(instance="0c"), {"expiresAt": now, "releasedAt": now}
    locks = {"first": held, "running": held, "no-job": {**free, "fence": 1}, "slot-only": {**free, "slot": SLOT}}
    rtdb.set("/cron-locks", {**locks, "by-hand-since": DIED})
    jobs = answer(LAST_RUNS, "runs")["jobs"]
    shown = {job["name"]: (job["last"] and job["last"]["outcome"], job["unfinished"] is not None) for job in jobs}
    assert shown == {
        "by-hand-since": ("succeeded", False),
        "failed": ("failed", False),
        "first": (None, True),
        "running": ("succeeded", True),
        "slot-only": (None, False),
    }
    lines = call("runs").stdout.splitlines()
    told = (
        ("by-hand-since", "manual"),
        ("failed", "failed"),
        ("first", "under way"),
        ("running", "succeeded"),
        ("running", "on api-1/0c"),
        ("slot-only", "no run is recorded"),
    )
    for line, (name, words) in zip(lines, told, strict=True):
        assert line.partition(":")[0] == name
        assert words in line
    assert "█" not in "".join(lines)


def test_who_may_not_read_the_locks_sees_the_last_runs(rtdb: Rtdb) -> None:
    """Where the locks are denied, the last runs are shown, with a word about what isn't known."""
    rtdb.set("/cron-locks/job", DIED)
    rtdb.set(f"/cron-runs/job/{SLOT}", entry(LONG_AGO))
    become_nobody(rtdb, ONLY_THE_HISTORY)
    job, denied = call("runs").stdout.splitlines()
    assert job.startswith("job: ")
    assert "It is not known which runs are under way" in denied


def test_who_recorded_a_tick_is_not_where_it_ran(rtdb: Rtdb) -> None:
    """Beside a tick that did not run is who recorded that, for people and for programs."""
    fields = {"outcome": "missed", "slot": SLOT, "instanceId": "api-2", "instance": "0c", "recordedBy": "bookkeeper"}
    rtdb.set(f"/cron-runs/job/{SLOT}", fields)
    runs = answer(RUNS, "runs", "job")["runs"]
    assert runs[0]["recordedBy"] == "bookkeeper"
    first, total = call("runs", "job").stdout.splitlines()
    assert first.endswith("(recorded by api-2/0c)")
    assert total == "1 entry: 1 missed"


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_an_error_of_several_lines_is_one(rtdb: Rtdb, end: str) -> None:
    """The end of a line within an error is shown as a sign, so that the entry stays one line."""
    rtdb.set(f"/cron-runs/job/{SLOT}", entry(LONG_AGO, outcome="failed", error=f"ValueError: a{end}b"))
    assert "ValueError: a ⏎ b\n" in call("runs", "job").stdout


def test_a_database_of_another_shape_is_no_crash(rtdb: Rtdb) -> None:
    """A text where locks or a history should be is malformed, and names that are numbers are shown as names."""
    rtdb.set("/cron-runs/job", "text")
    rtdb.set("/cron-locks", "text")
    assert "cron-runs/job" in complaint(78, "runs", "job")
    assert "cron-locks" in complaint(78, "locks")
    rtdb.set("/cron-locks", None)
    rtdb.set("/cron-locks/0", {"paused": True})
    rtdb.set("/cron-locks/1", {"paused": True})
    assert states() == {"0": "free", "1": "free"}


def test_a_leader_is_shown_as_one(rtdb: Rtdb) -> None:
    """Whoever holds a leader's node leads, and its last run is a term."""
    with LockService().lead("price-feed") as terms:
        next(iter(terms))
        [lock] = answer(LOCKS, "locks")["locks"]
        assert (lock["kind"], lock["state"]) == ("leader", "held")
        assert "led by " in call("locks", "price-feed").stdout
    assert "last term succeeded" in call("locks", "price-feed").stdout


def step(start: int, **fields: object) -> dict[str, object]:
    return {"startedAt": start, "doneAt": start + 1200, "result": '"secret"', "fence": 5, "attempt": 1, **fields}


def test_the_steps_of_the_runs_shown_are_listed_without_their_results(rtdb: Rtdb) -> None:
    """`--steps` shows name, state, time and place of each step, in the order of the calls; no result is printed."""
    start = LONG_AGO
    tick = to_text(start)
    rtdb.set(f"/cron-runs/job/{tick}", entry(start))
    rtdb.set("/cron-runs/job/2000-01-01T00:00:00Z", entry(1))
    rtdb.set("/cron-steps/job/2000-01-01T00:00:00Z/old", step(1))
    rtdb.set(
        f"/cron-steps/job/{tick}",
        {
            "b%2Fc": step(start + 5000, attempt=2, instance="0a1b"),
            "a": step(start),
            "d": {"startedAt": start + 9000, "fence": 5},
            "e": 5,
        },
    )
    ((found, steps),) = (one.values() for one in answer(RUNS, "runs", "job", "--steps", "-n", "1")["steps"])
    assert found == tick
    names = ("name", "state", "started", "done", "attempt", "fence", "instance")
    begun, later, last = (to_text(start + after) for after in (0, 5000, 9000))
    done = [to_text(start + after) for after in (1200, 6200)]
    assert [tuple(one[name] for name in names) for one in steps] == [
        ("e", "malformed", None, None, None, None, None),
        ("a", "recorded", begun, done[0], 1, 5, None),
        ("b/c", "recorded", later, done[1], 2, 5, "0a1b"),
        ("d", "begun", last, None, None, 5, None),
    ]
    shown = call("runs", "job", "--steps").stdout
    assert "secret" not in shown
    lines = shown.splitlines()
    assert "2000-01-01T00:00:00Z: 1 step" in lines
    at = lines.index(f"{tick}: 4 steps")
    assert [line.split()[:2] for line in lines[at + 1 : at + 5]] == [[one["name"], one["state"]] for one in steps]
    assert "took 1.2 s, attempt 2, on 0a1b" in lines[at + 3]
    assert answer(RUNS, "runs", "job")["steps"] is None


def test_the_steps_of_an_unfinished_run_are_shown(rtdb: Rtdb) -> None:
    """What a run under way, or one that died, has done so far is what one wants to know."""
    tick = to_text(LONG_AGO)
    rtdb.set("/cron-locks/job", {"expiresAt": 1, "holder": "h", "slot": tick, "unfinished": tick})
    rtdb.set(f"/cron-steps/job/{tick}/a", step(LONG_AGO))
    assert f"{tick}: 1 step" in call("runs", "job", "--steps").stdout


def test_the_steps_of_a_run_by_hand_that_died_are_shown(rtdb: Rtdb) -> None:
    """It has no entry in the history, and its steps alone say what it has done. The age of what `-n` leaves out counts
    for it, too.
    """
    died = [f"{to_text(LONG_AGO + at)}-manual-a1b2c3" for at in (1000, 5000)]
    for tick in died:
        rtdb.set(f"/cron-steps/job/{tick}/a", {"startedAt": LONG_AGO, "fence": 5})
    assert f"{died[0]}: 1 step" in call("runs", "job", "--steps").stdout
    for at in (3000, 7000):
        rtdb.set(f"/cron-runs/job/{to_text(LONG_AGO + at)}", entry(LONG_AGO + at))
    for most, shown in [("1", died[1:]), ("2", died)]:
        value = answer(RUNS, "runs", "job", "--steps", "-n", most)
        assert [tick["tick"] for tick in value["steps"]] == shown


@pytest.mark.parametrize("option", ["--steps", "--tracebacks"])
def test_steps_and_tracebacks_are_those_of_one_job(option: str) -> None:
    """Without a name each of them is a wrong usage."""
    assert f"{option} needs the NAME" in complaint(2, "runs", option)


def test_the_tracebacks_of_the_runs_shown_are_shown(rtdb: Rtdb) -> None:
    """`--tracebacks` shows where each failed run has failed, below the runs, in safe texts; it is asked for alone."""
    ticks = [to_text(LONG_AGO), to_text(LONG_AGO + 60_000)]
    for tick in ticks:
        rtdb.set(f"/cron-runs/job/{tick}", {"outcome": "failed", "slot": tick, "error": "ValueError: no"})
        rtdb.set(f"/cron-errors/job/{tick}", f"Traceback\n  File \x1b[31m{tick}\nValueError: no")
    shown = call("runs", "job", "--tracebacks", "-n", "1").stdout
    assert (
        f"{ticks[1]}: failed\n  Traceback\n    File \N{REPLACEMENT CHARACTER}[31m{ticks[1]}\n  ValueError: no\n"
        in shown
    )
    assert f"File {ticks[0]}" not in shown
    value = answer(RUNS, "runs", "job", "--tracebacks")
    assert list(value["tracebacks"]) == ticks
    assert answer(RUNS, "runs", "job")["tracebacks"] is None
    rtdb.set("/cron-errors/job", "text")
    assert "cron-errors/job holds" in complaint(78, "runs", "job", "--tracebacks")
