"""`firecron hold` and `unhold`: which locks they change, what they name, and how they end."""

from __future__ import annotations

from typing import Any

import pytest
from tests.catalogued import HOUR, Catalogue, now
from tests.cli.calls import answer, call, checked, complaint, stored
from tests.cli.schemas import CHANGED, HELD, MUTED, STATUS, UNHELD
from tests.stores.least_privilege import RULES
from tests.stores.least_privilege_before import before

from firecron.errors import Denied, Unavailable
from firecron.lock.holds import Edits
from firecron.lock.lease import Lease
from firecron.locks import LockService
from firecron.ops.views import claimed_user
from firecron.rtdb.store import RtdbStore
from rtdb_emulator.pytest_plugin import Rtdb

HOUR_LONG = ("--until", "1h", "--why", "migrating")


@pytest.fixture
def catalogue(rtdb: Rtdb) -> Catalogue:
    """Three jobs, two of them of one service."""
    found = Catalogue(rtdb)
    for name, service in (("mail-digest", "api"), ("mail-bounces", "worker"), ("import", "api")):
        found.declare(name, service=service)
    return found


def held(*arguments: str) -> dict[str, Any]:
    """What `hold` says that it has done."""
    return answer(HELD, "hold", *(arguments or HOUR_LONG))


def unheld(*arguments: str) -> list[dict[str, Any]]:
    """What `unhold` says that it has done, a value a hold."""
    return list(answer(UNHELD, "unhold", *arguments)["holds"])


def lock(rtdb: Rtdb, name: str) -> dict[str, Any]:
    return stored(rtdb, f"/cron-locks/{name}")


def paused(rtdb: Rtdb) -> dict[str, Any]:
    """Each lock with the hold that it is paused with."""
    found = rtdb.get("/cron-locks")
    return {name: node.get("pausedWith") for name, node in found.items()} if isinstance(found, dict) else {}


@pytest.mark.usefixtures("catalogue")
def test_a_hold_pauses_every_job_and_says_who(rtdb: Rtdb) -> None:
    """In the fields of a pause, with the hold's name; the hold itself says who, when, until when, why and what."""
    began = now()
    value = held()
    [(name, node)] = stored(rtdb, "/cron-hold").items()
    assert node == {"by": claimed_user(), "at": node["at"], "until": node["until"], "why": "migrating"}
    assert began <= node["at"] <= now()
    assert abs(node["until"] - node["at"] - HOUR) < 5_000
    assert (value["hold"], value["what"], value["recorded"]) == (name, "every job", True)
    assert value["held"] == ["import", "mail-bounces", "mail-digest"]
    assert lock(rtdb, "import") == {
        "paused": True,
        "pausedBy": node["by"],
        "pausedAt": node["at"],
        "pausedWhy": "migrating",
        "pausedUntil": node["until"],
        "pausedWith": name,
    }
    assert {row["verdict"] for row in answer(STATUS, "status")["jobs"]} == {"paused"}
    (done,) = unheld()
    assert (done["hold"], done["resumed"]) == (name, value["held"])
    assert lock(rtdb, "import").keys() == {"resumedAt"}
    assert rtdb.get("/cron-hold") is None


@pytest.mark.usefixtures("catalogue")
def test_a_hold_and_its_end_leave_one_act_each(rtdb: Rtdb) -> None:
    """With what is held in words, who and why; the locks leave none."""
    held()
    unheld("--why", "done")
    acts = stored(rtdb, "/cron-acts")
    found = [(acts[key]["act"], acts[key]["name"], acts[key]["who"], acts[key]["why"]) for key in sorted(acts)]
    who = claimed_user()
    assert found == [("hold", "every job", who, "migrating"), ("unhold", "every job", who, "done")]


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (("--service", "api"), {"import", "mail-digest"}),
        (("--match", "mail-*"), {"mail-bounces", "mail-digest"}),
        (("--match", "mail-*", "--service", "api"), {"mail-digest"}),
        (("--leaders",), {"chief", "import", "mail-bounces", "mail-digest"}),
        (("--leaders", "--match", "c*"), {"chief"}),
    ],
)
@pytest.mark.usefixtures("catalogue")
def test_some_jobs_are_held(rtdb: Rtdb, options: tuple[str, ...], names: set[str]) -> None:
    """Those of a service, those whose names match, and leaders if that is said; the others stay as they are."""
    leader = {"kind": "leader", "fence": 5, "holder": "x", "acquiredAt": 5, "expiresAt": 6, "releasedAt": 6}
    plain = {"fence": 5, "holder": "x", "acquiredAt": 5, "expiresAt": 6, "releasedAt": 6}
    rtdb.set("/cron-locks", {"chief": leader, "cache": plain})
    value = held(*HOUR_LONG, *options)
    assert set(value["held"]) == names
    assert {name for name, hold in paused(rtdb).items() if hold == value["hold"]} == names
    unheld()
    assert set(paused(rtdb).values()) == {None}
    assert {**lock(rtdb, "chief"), "resumedAt": 0} == {**leader, "resumedAt": 0}
    assert lock(rtdb, "cache") == plain


WRONG = [
    (("--until", "1h"), "Missing option '--why'"),
    (("--why", "x"), "Missing option '--until'"),
    ((*HOUR_LONG[:3], " "), "a hold needs a reason"),
    (("--until", "0s", "--why", "x"), "--until '0s'"),
    (("--until", "2020-01-01T00:00:00Z", "--why", "x"), "is over already"),
    ((*HOUR_LONG[:3], "x" * 501), "at most 500"),
    ((*HOUR_LONG, "--service", "none"), "the services are api, worker"),
    ((*HOUR_LONG, "--match", "none-*"), "the jobs that match none-*"),
    ((*HOUR_LONG, "--match", ""), "from 1 to 100 characters"),
    ((*HOUR_LONG, "--match", "x" * 101), "from 1 to 100 characters"),
    ((*HOUR_LONG, "--leaders", "--service", "api"), "no leader says which service"),
]


@pytest.mark.usefixtures("catalogue")
def test_a_hold_that_is_asked_for_wrongly_changes_nothing(rtdb: Rtdb) -> None:
    """It is wrong usage, and the complaint names the option or what there is."""
    for arguments, said in WRONG:
        result = call("hold", *arguments)
        assert (result.exit_code, said in result.stderr) == (2, True), result.stderr
    assert (rtdb.get("/cron-hold"), rtdb.get("/cron-locks"), rtdb.get("/cron-acts")) == (None, None, None)


def test_there_is_nothing_to_hold_in_an_empty_database(rtdb: Rtdb) -> None:
    """A wrong prefix is no hold that holds nothing."""
    assert "there is nothing to hold: every job" in complaint(2, "hold", *HOUR_LONG)
    assert rtdb.get("/") is None or rtdb.get("/cron-hold") is None


@pytest.mark.usefixtures("catalogue")
def test_what_was_paused_before_is_left_or_put_back(rtdb: Rtdb) -> None:
    """A longer pause stays in force and is named; a shorter one is in force again after the hold."""
    call("pause", "import", "--why", "the feed is down")
    call("pause", "mail-digest", "--why", "broken", "--until", "30m")
    before = {name: lock(rtdb, name) for name in ("import", "mail-digest")}
    value = held()
    assert value["held"] == ["mail-bounces", "mail-digest"]
    [left] = value["left"]
    assert left["job"] == "import"
    assert "the feed is down" in left["why"]
    assert lock(rtdb, "mail-digest")["pausedWhy"] == "migrating"
    (done,) = unheld()
    assert done["resumed"] == ["mail-bounces"]
    assert [one["job"] for one in done["paused"]] == ["mail-digest"]
    assert {name: lock(rtdb, name) for name in before} == before


@pytest.mark.usefixtures("catalogue")
def test_the_status_of_named_jobs_has_their_holds_alone() -> None:
    """Also that of a job which the hold is to pause, and doesn't: somebody has resumed it."""
    api, mail = held(*HOUR_LONG, "--service", "api"), held("--until", "2h", "--why", "more", "--match", "mail-*")
    expected = {
        "import": [api["hold"]],
        "mail-bounces": [mail["hold"]],
        "mail-digest": [api["hold"], mail["hold"]],
    }
    for name, holds in expected.items():
        assert [one["hold"] for one in answer(STATUS, "status", name)["holds"]] == holds
    answer(CHANGED, "resume", "import")
    assert [one["hold"] for one in answer(STATUS, "status", "import")["holds"]] == [api["hold"]]
    assert [one["hold"] for one in answer(STATUS, "status")["holds"]] == [api["hold"], mail["hold"]]


@pytest.mark.usefixtures("catalogue")
def test_of_several_holds_one_has_to_be_named(rtdb: Rtdb) -> None:
    """Without a name the holds are listed; a name that is none is wrong usage; what the other one holds stays held."""
    first, second = held(*HOUR_LONG, "--service", "api"), held("--until", "2h", "--why", "more")
    complained = complaint(2, "unhold")
    assert f"firecron unhold {first['hold']}   the jobs of api, by {claimed_user()}: migrating" in complained
    assert f"firecron unhold {second['hold']}   every job" in complained
    assert "there is no hold 0000" in complaint(2, "unhold", "0000")
    (done,) = unheld(second["hold"])
    assert done["resumed"] == ["mail-bounces"]
    assert paused(rtdb) == {"import": first["hold"], "mail-digest": first["hold"], "mail-bounces": None}
    both = held("--until", "2h", "--why", "once more")
    assert {one["hold"] for one in unheld(first["hold"], both["hold"])} == {first["hold"], both["hold"]}
    assert set(paused(rtdb).values()) == {None}
    assert unheld() == []
    assert "there is no hold: nothing was changed" in call("unhold").stdout


@pytest.mark.usefixtures("catalogue")
def test_runs_under_way_go_on_unless_they_are_cancelled(rtdb: Rtdb) -> None:
    """They are named; with --cancel each that would notice is asked to end, also where another pause stays."""
    locks = LockService()
    assert locks.acquire("mail-digest", 3600, fenced=True)  # nobody renews it
    with locks.hold("import", 3600, fenced=True) as lease:
        value = held()
        assert value["running"] == [
            {"job": "import", "cancelled": False, "why": None},
            {"job": "mail-digest", "cancelled": False, "why": value["running"][1]["why"]},
        ]
        assert "does not renew" in value["running"][1]["why"]
        assert isinstance(lease, Lease)
        assert lease.renew()
        assert not lease.cancelled
        unheld()
        call("pause", "import")
        assert [one["cancelled"] for one in held(*HOUR_LONG, "--cancel")["running"]] == [True, False]
        assert "cancel" not in lock(rtdb, "mail-digest")
        assert lock(rtdb, "import")["cancelWhy"] == "migrating"
        assert lease.renew()
        assert lease.cancelled


@pytest.mark.usefixtures("catalogue")
def test_people_are_told_what_was_held(rtdb: Rtdb) -> None:
    """How many, until when, what is left, what runs on, and how it is taken back."""
    call("pause", "import", "--why", "the feed is down")
    with LockService().hold("mail-digest", 3600, fenced=True):
        said = call("hold", *HOUR_LONG).stdout
    [name] = stored(rtdb, "/cron-hold")
    assert "every job: held until " in said
    assert f"2 jobs paused by {claimed_user()}: migrating" in said
    assert "import: left as it is: it is paused by" in said
    assert "still running: mail-digest. To end one: firecron cancel NAME" in said
    assert f"to take it back: firecron unhold {name}" in said
    said = call("unhold").stdout
    assert said.splitlines() == ["every job: taken back", "  2 jobs resumed"]


def failing(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Writes to this lock fail from now on."""
    swap = RtdbStore.swap

    def broken(self: RtdbStore, path: str, *others: Any) -> object:
        if path == f"cron-locks/{name}":
            raise Unavailable("no reply")
        return swap(self, path, *others)

    monkeypatch.setattr(RtdbStore, "swap", broken)
    monkeypatch.setenv("FIRECRON_REQUEST_TIMEOUT", "0.5")
    monkeypatch.setenv("FIRECRON_ACQUIRE_TIMEOUT", "0.5")


@pytest.mark.usefixtures("catalogue")
def test_what_could_not_be_written_is_named(rtdb: Rtdb, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command ends with 1, the others are held; and the same of an unhold, which can be called again."""
    with monkeypatch.context() as patch:
        failing(patch, "import")
        result = call("hold", *HOUR_LONG, "--json")
        value = checked(HELD, result.stdout)
        assert (result.exit_code, [one["job"] for one in value["failed"]]) == (1, ["import"])
        assert value["held"] == ["mail-bounces", "mail-digest"]
        assert "import: could not be paused: no reply" in call("hold", *HOUR_LONG).stdout
    assert {name for name, hold in paused(rtdb).items() if hold} == {"mail-bounces", "mail-digest"}
    call("unhold", value["hold"])
    last = held("--until", "3h", "--why", "x")
    with monkeypatch.context() as patch:
        failing(patch, "import")
        result = call("unhold", last["hold"], "--json")
        [done] = checked(UNHELD, result.stdout)["holds"]
        assert (result.exit_code, [one["job"] for one in done["failed"]]) == (1, ["import"])
        assert rtdb.get(f"/cron-hold/{last['hold']}/until") == 0
    assert paused(rtdb)["import"] == last["hold"]
    (done,) = unheld(last["hold"])
    assert done["resumed"] == ["import"]
    assert rtdb.get(f"/cron-hold/{last['hold']}") is None


@pytest.mark.usefixtures("catalogue")
def test_an_unhold_that_is_denied_once_tries_again(rtdb: Rtdb, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rules refuse to put back what is taken back at this very moment: the next look knows better."""
    held()
    swap, denied = RtdbStore.swap, list[str]()

    def once(self: RtdbStore, path: str, *others: Any) -> object:
        if path.startswith("cron-locks/") and path not in denied:
            denied.append(path)
            raise Denied("the rules")
        return swap(self, path, *others)

    monkeypatch.setattr(RtdbStore, "swap", once)
    (done,) = unheld()
    assert (done["resumed"], len(denied)) == (["import", "mail-bounces", "mail-digest"], 3)


@pytest.mark.usefixtures("catalogue")
def test_a_hold_that_is_taken_back_meanwhile_holds_nothing(rtdb: Rtdb, monkeypatch: pytest.MonkeyPatch) -> None:
    """It finds that out at its end, takes back what it has written since, and says so."""
    make = Edits.make

    def overtaken(self: Edits, *arguments: Any) -> object:
        monkeypatch.setattr(Edits, "make", make)
        call("unhold")
        return make(self, *arguments)

    monkeypatch.setattr(Edits, "make", overtaken)
    result = call("hold", *HOUR_LONG)
    assert result.exit_code == 1
    assert "was taken back meanwhile, so nothing is held" in result.stderr
    assert set(paused(rtdb).values()) == {None}
    assert {"paused" in lock(rtdb, name) for name in paused(rtdb)} == {False}


@pytest.mark.usefixtures("catalogue")
def test_what_is_held_while_a_hold_is_taken_back_is_resumed_as_well(
    rtdb: Rtdb, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unhold reads the locks again until none has the hold: one that was written late does not stay."""
    value = held()
    late, make = lock(rtdb, "import"), Edits.make

    def written_late(self: Edits, *arguments: Any) -> object:
        found = make(self, *arguments)
        monkeypatch.setattr(Edits, "make", make)
        rtdb.set("/cron-locks/late", late)
        return found

    monkeypatch.setattr(Edits, "make", written_late)
    (done,) = unheld(value["hold"])
    assert done["resumed"] == ["import", "late", "mail-bounces", "mail-digest"]
    assert set(paused(rtdb).values()) == {None}


@pytest.mark.usefixtures("catalogue")
def test_a_hold_is_found_in_the_locks_where_its_node_is_gone(rtdb: Rtdb) -> None:
    """Somebody has deleted it in the console: it is listed, and can be taken back."""
    value = held()
    rtdb.set("/cron-hold", None)
    (done,) = unheld()
    assert (done["hold"], done["what"]) == (value["hold"], f"hold {value['hold']}")
    assert set(paused(rtdb).values()) == {None}


@pytest.mark.usefixtures("catalogue")
def test_a_hold_removes_those_that_are_over(rtdb: Rtdb) -> None:
    """The next hold deletes the nodes of holds that are over, and leaves those that stand."""
    first = held()["hold"]
    over = held("--until", "1s", "--why", "x")["hold"]
    rtdb.set(f"/cron-hold/{over}/until", now() - 1)
    second = held()["hold"]
    assert stored(rtdb, "/cron-hold").keys() == {first, second}


def as_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRECRON_UID", "firecron")


@pytest.mark.usefixtures("catalogue")
def test_the_rules_let_hold_and_unhold(rtdb: Rtdb, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the user whom they are for: two holds over a pause, and both taken back."""
    as_user(monkeypatch)
    rtdb.set_rules(RULES)
    call("pause", "mail-digest", "--until", "30m")
    node = lock(rtdb, "mail-digest")
    with LockService().hold("import", 3600, fenced=True):
        first, second = held()["hold"], held("--until", "2h", "--why", "more", "--cancel")["hold"]
    unheld(second)
    assert set(paused(rtdb).values()) == {first}
    unheld()
    assert lock(rtdb, "mail-digest") == node
    assert rtdb.get("/cron-hold") is None


@pytest.mark.usefixtures("catalogue")
def test_rules_that_do_not_know_holds_deny_that_node_alone(rtdb: Rtdb, monkeypatch: pytest.MonkeyPatch) -> None:
    """The jobs are paused without it, and it is said; unhold finds the hold in the locks. Holds overlap as well."""
    as_user(monkeypatch)
    rtdb.set_rules(before())
    result = call("hold", *HOUR_LONG, "--json")
    assert result.exit_code == 0
    assert "the security rules don't know cron-hold: the jobs are paused without it" in result.stderr
    value = checked(HELD, result.stdout)
    assert (value["recorded"], len(value["held"])) == (False, 3)
    assert rtdb.get("/cron-hold") is None
    longer = checked(HELD, call("hold", "--until", "2h", "--why", "more", "--json").stdout)["hold"]
    assert set(paused(rtdb).values()) == {longer}
    call("unhold", longer)
    assert set(paused(rtdb).values()) == {value["hold"]}
    assert "3 jobs resumed" in call("unhold").stdout
    assert set(paused(rtdb).values()) == {None}


@pytest.mark.usefixtures("catalogue")
def test_a_hold_without_a_node_goes_with_the_next_one(rtdb: Rtdb, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was made before the rules knew holds: by them nobody can put it back when a later hold is taken back."""
    as_user(monkeypatch)
    rtdb.set_rules(before())
    first = checked(HELD, call("hold", *HOUR_LONG, "--json").stdout)["hold"]
    rtdb.set_rules(RULES)
    second = checked(HELD, call("hold", "--until", "2h", "--why", "more", "--json").stdout)["hold"]
    assert set(paused(rtdb).values()) == {second}
    (done,) = unheld(second)
    assert (len(done["resumed"]), done["failed"], set(paused(rtdb).values())) == (3, [], {None})
    assert first not in str(rtdb.get("/cron-locks"))


@pytest.mark.usefixtures("catalogue")
def test_a_hold_whose_write_is_not_answered(rtdb: Rtdb) -> None:
    """It is read back: if it is there the jobs are held, if it is not nothing is, and that is an error."""
    rtdb.faults.drop_reply(method="PATCH", path="/")
    assert len(held()["held"]) == 3
    unheld()
    rtdb.faults.drop_request(method="PATCH", path="/")
    assert "nothing is held, because the hold could not be written" in complaint(69, "hold", *HOUR_LONG)
    assert set(paused(rtdb).values()) == {None}


def test_a_reply_to_the_end_of_a_hold_that_is_lost(rtdb: Rtdb, catalogue: Catalogue) -> None:
    """The node is read again, and the hold is taken back; the same of its deletion."""
    for method in ("PUT", "DELETE"):
        value = held()
        rtdb.faults.drop_reply(method=method, path=f"/cron-hold/{value['hold']}")
        assert len(unheld()[0]["resumed"]) == len(catalogue.names)
        assert rtdb.get("/cron-hold") is None


@pytest.mark.usefixtures("catalogue")
def test_the_status_shows_who_holds_what(rtdb: Rtdb) -> None:
    """With what is not held, and what a hold has left behind once its node is gone; also for people."""
    value = held()
    call("resume", "import")
    [hold] = answer(STATUS, "status")["holds"]
    assert (hold["hold"], hold["stands"], hold["held"], hold["notHeld"]) == (value["hold"], True, 2, ["import"])
    said, *rows = call("status").stdout.splitlines()
    assert said.startswith(f"every job: held by {claimed_user()} until ")
    assert said.endswith(f": migrating; not held: import; to take it back: firecron unhold {value['hold']}")
    assert len(rows) == 3
    rtdb.set("/cron-hold", None)
    assert call("status").stdout.splitlines()[0] == (
        f"2 jobs still paused with hold {value['hold']} by {claimed_user()}, which was taken back or deleted: "
        f"migrating; to resume them: firecron unhold {value['hold']}"
    )
    assert call("check").exit_code == 0


def test_a_muted_job_is_no_alarm(rtdb: Rtdb, catalogue: Catalogue) -> None:
    """`check` says nothing of it, `status` shows its verdict and the mute; after `unmute` it is an alarm again."""
    catalogue.ran("import", outcome="failed", failures=1)
    assert call("check").exit_code == 1
    value = answer(MUTED, "mute", "import", "--until", "3d", "--why", "a known defect")
    assert (value["changed"], value["muted"]["by"], value["muted"]["why"]) == (True, claimed_user(), "a known defect")
    result = call("check")
    assert (result.exit_code, result.stdout) == (0, "3 jobs: 1 failing, 2 ok\n")
    rows = {row["job"]: row for row in answer(STATUS, "status")["jobs"]}
    assert (rows["import"]["verdict"], rows["import"]["muted"], rows["mail-digest"]["muted"]) == (
        "failing",
        value["muted"],
        None,
    )
    assert f"; muted by {claimed_user()} until 20" in call("status", "import").stdout
    assert answer(MUTED, "unmute", "import", "--why", "mended") == {"changed": True, "job": "import", "muted": None}
    assert call("check").exit_code == 1
    assert answer(MUTED, "unmute", "import")["changed"] is False
    assert "it was not muted: nothing was changed" in call("unmute", "import").stdout
    assert "there is no job no-such" in complaint(2, "unmute", "no-such")
    for wrong in (("no-such", *HOUR_LONG), ("import", "--until", "0s", "--why", "x"), ("import", "--why", "x")):
        assert call("mute", *wrong).exit_code == 2
    assert rtdb.get("/cron-mutes") is None
    assert call("mute", "import", *HOUR_LONG).stdout.startswith("import: muted until ")
