"""The rules that are shipped: what firecron's user may do under them, and what nobody may, request by request."""

from __future__ import annotations

import json
from calendar import monthrange
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import product
from typing import Any

import pytest
import requests
from tests.stores.least_privilege import (
    DECLARED,
    HELD,
    NOW,
    ONE_MORE,
    ORIGINAL,
    RULES,
    RUNNING,
    STAMP,
    TAKEN,
    Row,
    put,
    without,
)
from tests.stores.least_privilege_forbidden import FORBIDDEN as OTHERS_FORBIDDEN
from tests.stores.least_privilege_legal import LEGAL as OTHERS_LEGAL
from tests.stores.least_privilege_stored import (
    DECLARED as STORED_JOB,
)
from tests.stores.least_privilege_stored import (
    LOOSER,
    STORED_FORBIDDEN,
    STORED_LEGAL,
    as_entry,
)
from tests.stores.least_privilege_values import ASKED_SLOT, DAY, SENT_NOTICE, TAKEN_BY
from tests.stores.rule_mutants import Mutant, mutants, rules_of
from tests.stores.rule_questions import Question, evaluated, question

from firecron.cron.bounded import FIELDS
from firecron.jobs.catalogue import group_fields
from firecron.lock.fields import PAUSE_FIELDS
from firecron.lock.holds import JobHold
from firecron.lock.record import LOCK_FIELDS
from firecron.runs.entry import Entry
from firecron.steps.protocol import StepRecord
from rtdb_emulator import Emulator
from rtdb_emulator.pytest_plugin import Rtdb
from rtdb_emulator.rules import Rules
from rtdb_emulator.rules.document import as_json, read

LEGAL = [*OTHERS_LEGAL, *STORED_LEGAL, *as_entry(OTHERS_LEGAL)]
FORBIDDEN = [*OTHERS_FORBIDDEN, *STORED_FORBIDDEN, *as_entry(OTHERS_FORBIDDEN, LOOSER)]


class Clock:
    """The server's time, as a row sets it."""

    now = NOW

    def __call__(self) -> int:
        return self.now


@pytest.fixture(scope="module")
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="module")
def rtdb_emulator(clock: Clock) -> Iterator[Emulator]:
    with Emulator(now=clock) as emulator:
        yield emulator


@pytest.fixture(scope="module")
def shipped(rtdb_emulator: Emulator) -> Rtdb:
    """A database under the rules: one for all rows, because to parse them takes longer than a request."""
    database = Rtdb(rtdb_emulator, "shipped")
    database.set_rules(RULES)
    return database


@pytest.fixture(scope="module")
def session() -> Iterator[requests.Session]:
    with requests.Session() as session:
        yield session


def arrange(rtdb: Rtdb, clock: Clock, row: Row) -> object:
    """The database as the row needs it."""
    clock.now = row.now
    rtdb.set("/", None)
    rtdb.set(row.path, row.before)
    for path, node in row.beside.items():
        rtdb.set(path, node)
    return rtdb.get()


def ask(rtdb: Rtdb, session: requests.Session, row: Row) -> int:
    """The status of a request, as the Admin SDK sends it for a user."""
    reply = session.request(
        row.method,
        f"{rtdb.emulator.url}/{row.path}.json",
        params={"ns": rtdb.namespace, "auth_variable_override": json.dumps(row.auth)},
        headers={"Authorization": "Bearer owner"},
        data=None if row.body is None else json.dumps(row.body),
        timeout=10,
    )
    return reply.status_code


def child(node: object, path: str) -> object:
    """What is below a node."""
    for name in path.split("/"):
        node = node.get(name) if isinstance(node, dict) else None
    return node


def resolved(value: object, before: object) -> object:
    """What is stored for a value that is sent."""
    if value == ONE_MORE:
        return before + 1 if isinstance(before, int) else 1
    return NOW if value == STAMP else value


@pytest.mark.parametrize("row", LEGAL, ids=str)
def test_what_firecron_does_passes(shipped: Rtdb, clock: Clock, session: requests.Session, row: Row) -> None:
    """A request that the library makes by its contract is done, and what it brings is stored."""
    arrange(shipped, clock, row)
    assert ask(shipped, session, row) == 200
    stored = shipped.get(row.path)
    match row.method, row.body:
        case "DELETE", _:
            assert stored is None
        case "PUT", dict(body) if ".sv" not in body:
            assert stored == body
        case "PATCH", dict(body):
            assert {key: child(stored, key) for key in body} == {
                key: resolved(value, child(row.before, key)) for key, value in body.items()
            }


@pytest.mark.parametrize("row", FORBIDDEN, ids=str)
def test_what_firecron_never_does_is_refused(shipped: Rtdb, clock: Clock, session: requests.Session, row: Row) -> None:
    """A request that would do harm is answered with 401, and the data stay as they are."""
    before = arrange(shipped, clock, row)
    assert ask(shipped, session, row) == 401
    assert shipped.get() == before


LIVE: Mapping[str, Mapping[str, object]] = {
    "a run": RUNNING,
    "a plain lock": HELD,
    "the original's": ORIGINAL,
    "a minimum hold": {**HELD, "releasedAt": NOW - 1, "expiresAt": NOW + 90_000},
}


@pytest.mark.parametrize("live", LIVE.values(), ids=LIVE)
def test_a_live_lock_is_taken_by_nobody_else_over_two_writes_either(live: Mapping[str, object]) -> None:
    """Of all changes to a live lock's instants, only an unlock and a release let another take it by the next write."""
    rules = Rules.parse(RULES.read_text("utf-8"))
    released_at = live.get("releasedAt")
    ended = []
    for expires, released in product((None, 0, 1, NOW - 1, NOW, NOW + 1), (released_at, None, 1, NOW)):
        fields = {**live, "expiresAt": expires, "releasedAt": released}
        left = {key: value for key, value in fields.items() if value is not None}
        taken = {**without(left, "releasedAt"), **TAKEN, "fence": NOW}
        if question(put("end it", left, live))(rules) and question(put("take it", taken, left))(rules):
            ended.append((expires, released))
    assert (0, released_at) in ended
    assert all(expires == 0 or (released_at is None and released is not None) for expires, released in ended), ended


def month_ends() -> Iterator[tuple[str, int]]:
    """The last second of each month of some years, and of each February of the century, and its instant."""
    for year in range(2000, 2100):
        for month in range(1, 13) if 2023 <= year <= 2028 else [2]:
            end = datetime(year, month, monthrange(year, month)[1], 23, 59, 59, tzinfo=UTC)
            yield f"{end:%Y-%m-%dT%H:%M:%SZ}", round(end.timestamp() * 1000)


def test_the_digits_add_up_to_the_instant() -> None:
    """The rules take the last second of a month a day ahead of it, and not a millisecond before; and no later day."""
    rules = Rules.parse(RULES.read_text("utf-8"))
    for text, instant in month_ends():
        day = int(text[8:10])
        later = f"{text[:8]}{day + 1}{text[10:]}"
        claim = [
            put("claim", {"slot": slot}, now=now)
            for slot, now in ((text, instant - DAY), (text, instant - DAY - 1), (later, instant))
        ]
        assert [question(row)(rules) for row in claim] == [True, False, False], text


BESIDE = {"cancel", "cancelWhy", "failures", "kind", "pausedBefore", "resumedAt", *PAUSE_FIELDS} - {"paused"}
# Of a stored schedule alone.
OWN = {"nextAt", "since", "passed", "closed", "closedAt", "closedWhy"}
ENTRY = Entry(
    "key", "failed", "slot", "http", 1, 2, 1, 1, 1, 2, True, "bookkeeper", "revision", "instance", "error", "note"
)


@pytest.mark.parametrize(
    ("below", "fields"),
    [
        # `acquired` and `expires` are texts for people, and any value of `paused` means something.
        (("cron-locks", "$name"), (LOCK_FIELDS - {"acquired", "expires"}) | BESIDE),
        (
            ("cron-schedules", "$job", "$key"),
            (LOCK_FIELDS - {"acquired", "expires"}) | (BESIDE - {"kind"}) | {*FIELDS, "args", "by", *OWN},
        ),
        (("cron-acts", "$key"), {"act", "at", "name", "who", "why"}),
        (("cron-hold", "$hold"), set(JobHold("", "", 1, 1, "", "", "", leaders=True).to_node())),
        (("cron-mutes", "$name"), {"by", "until", "why"}),
        (("cron-told", "$name"), set(SENT_NOTICE)),
        (("cron-asks", "$name"), {*ASKED_SLOT, *TAKEN_BY}),
        (("cron-runs", "$name", "$key"), {*ENTRY.to_node(), "key"}),
        (("cron-steps", "$name", "$tick", "$step"), set(StepRecord(1, 1, 1, "me", 1, "1").to_node())),
        (("cron-instances", "$id"), {"seenAt", "startedAt", "instanceId", "jobs", "running"}),
        # `declaredAt` is judged with the whole.
        (("cron-jobs", "$name"), {*DECLARED, *STORED_JOB, "every", "starting"} - {"declaredAt"}),
        # `beats` and `seenAt` are judged together.
        (("cron-groups", "$group"), {*group_fields({}, "api", 30), "firstSeenAt"}),
    ],
)
def test_each_field_has_a_rule_of_its_own(below: tuple[str, ...], fields: set[str]) -> None:
    """A field that firecron writes is bounded by a rule: what has none may hold anything."""
    rules: Any = as_json(read(RULES.read_text("utf-8")))
    found = rules["rules"]
    for name in below:
        found = found[name]
    assert {name for name in found if name[0].isalpha()} == fields


def test_the_rows_mean_the_same_without_http() -> None:
    """What is judged of the mutants below is what the requests above are told, and to compile the rules anew changes
    nothing.
    """
    unchanged, *_ = mutants(RULES)
    for rules in (Rules.parse(RULES.read_text("utf-8")), unchanged.make()):
        assert [row for ask, row, shall_pass in questions() if ask(rules) is not shall_pass] == []


def questions() -> Iterator[tuple[Question, Row, bool]]:
    """Each row without HTTP, and whether it shall pass: first those that shall not."""
    for rows, shall_pass in ((FORBIDDEN, False), (LEGAL, True)):
        for row in rows:
            yield question(row), row, shall_pass


class Judges:
    """The mutants of each rule, and the questions that evaluate it."""

    def __init__(self) -> None:
        unchanged, *others = mutants(RULES)
        self.mutants: dict[str, list[Mutant]] = {}
        for mutant in others:
            self.mutants.setdefault(mutant.where, []).append(mutant)
        self.questions: dict[str, list[tuple[Question, Row, bool]]] = {}
        rules = unchanged.make()
        for asked in questions():
            for where in evaluated(asked[0], rules):
                self.questions.setdefault(where, []).append(asked)

    def unnoticed(self, where: str) -> list[str]:
        """The mutants of this rule with which all questions are answered as without."""
        field = where.split("/")[-2]

        def is_far(row: Row) -> bool:
            return not (isinstance(row.body, dict) and field in row.body)

        # Which are asked first makes it quick and nothing else. What has noticed a mutant may notice the next one.
        near = sorted(self.questions[where], key=lambda asked: (asked[2], is_far(asked[1])))
        return [str(mutant) for mutant in self.mutants.get(where, ()) if not self._is_noticed(mutant.make(), near)]

    @staticmethod
    def _is_noticed(rules: Rules, near: list[tuple[Question, Row, bool]]) -> bool:
        for number, (ask, _, shall_pass) in enumerate(near):
            if ask(rules) is not shall_pass:
                near.insert(0, near.pop(number))
                return True
        return False


@pytest.fixture(scope="module")
def judges() -> Judges:
    return Judges()


@pytest.mark.parametrize("where", [where for where, _ in rules_of(RULES)])
def test_each_condition_of_the_rules_matters(judges: Judges, where: str) -> None:
    """With one condition of a rule taken for true, or one number a little off, some row is answered otherwise."""
    assert judges.unnoticed(where) == []


def test_most_rules_have_conditions(judges: Judges) -> None:
    """What was asked above is asked of more than a thousand conditions and numbers."""
    assert sum(map(len, judges.mutants.values())) > 1_000
    assert set(judges.mutants) <= {where for where, _ in rules_of(RULES)}
