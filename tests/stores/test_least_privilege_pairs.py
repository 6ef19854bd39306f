"""The shipped rules and two fields at a time: in which order, by whom, and what is a trap; and those before them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest
from tests.stores.least_privilege import CLAIMED, DID, NOW, READER, RULES, RUNNING, STAMP, TAKEN, Node, Row, patch, put
from tests.stores.least_privilege_before import before
from tests.stores.least_privilege_legal import LEGAL
from tests.stores.least_privilege_pairs import LOCK, PAIRS, STARTS, Pair
from tests.stores.least_privilege_values import DAY, MINUTE
from tests.stores.rule_questions import question

from firecron.base.clocks import Moment
from firecron.base.instants import to_text
from firecron.lock.fields import ONCE, PAUSE_FIELDS
from firecron.lock.record import Request, Take, decide
from rtdb_emulator.rules import Rules

SHIPPED = Rules.parse(RULES.read_text("utf-8"))
ONCE_DONE = "cron-steps/job/once/done"


def merged(node: Node | None, fields: Node) -> Node | None:
    """The node with these fields replaced: None removes one."""
    values = {**(node or {}), **fields}
    return {name: NOW if value == STAMP else value for name, value in values.items() if value is not None} or None


def passes(fields: Node, before: Node | None, now: int = NOW, rules: Rules = SHIPPED) -> bool:
    """Whether the service's own user may merge these fields into a lock's node."""
    return question(replace(patch("", fields, before), now=now))(rules)


def told(pair: Pair) -> Iterator[str]:
    """Which writes of the pair pass, in each order, and in one."""
    for writes in ((pair.a, pair.b), (pair.b, pair.a), ({**pair.a, **pair.b},)):
        node, marks = pair.before, ""
        for fields in writes:
            let = question(patch("", fields, node, pair.path, pair.beside))(SHIPPED)
            marks += "+" if let else "-"
            node = merged(node, fields) if let else node
        yield marks


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_two_fields_in_both_orders_and_at_once(pair: Pair) -> None:
    """Fields that exclude each other do so in each order; those that belong together are written together."""
    assert tuple(told(pair)) == pair.orders, pair.why


@pytest.mark.parametrize("auth", [READER, None], ids=["a reader", "nobody"])
def test_others_write_nothing(auth: Mapping[str, object] | None) -> None:
    """What the service's own user may write, and each write of the pairs, is refused to a reader and to nobody."""
    rows = [row for row in LEGAL if row.method != "GET"]
    rows += [
        patch(str(pair), fields, pair.before, pair.path, pair.beside) for pair in PAIRS for fields in (pair.a, pair.b)
    ]
    assert [row for row in rows if question(replace(row, auth=auth))(SHIPPED)] == []


def owner(node: Node | None) -> Request:
    """Whom the node belongs to: a job, a leader, what is done once, or anybody who asks for a lock."""
    fields = node or {}
    kind = fields.get("kind")
    is_job = kind is None and ("slot" in fields or "outcome" in fields)
    return Request(
        holder="later",
        ttl=MINUTE,
        instance_id="api-1",
        instance="0a",
        margin=1_000,
        fenced=kind is not None or is_job,
        slot=to_text(NOW) if is_job else None,
        renews=True,
        kind=None if kind is None else str(kind),
    )


def acquires(request: Request, node: Node | None, now: int, rules: Rules) -> bool:
    """Whether the library would take the lock, and the rules let it."""
    request = replace(request, slot=request.slot and to_text(now))
    decision = decide(node, request, Moment(now, 0.0), {})
    row = put("", decision.record.to_json(), node, now=now) if isinstance(decision, Take) else None
    return row is not None and question(row)(rules)


def gets_out(request: Request, node: Node | None, rules: Rules = SHIPPED) -> bool:
    """Whether the service's own user can make the lock be acquired again: it waits for a day at most, unlocks, resumes,
    and removes a field, as far as the rules let it.
    """
    now = NOW + DAY + 2 * MINUTE
    for fields in ({"expiresAt": 0}, dict.fromkeys(PAUSE_FIELDS)):
        if acquires(request, node, now, rules):
            return True
        node = merged(node, fields) if passes(fields, node, now, rules) else node
    return acquires(request, node, now, rules) or any(
        passes({name: None}, node, now, rules) and acquires(request, merged(node, {name: None}), now, rules)
        for name in node or {}
    )


WRITES = {json.dumps(fields): fields for pair in PAIRS if pair.path == LOCK for fields in (pair.a, pair.b)}


def traps(start: Node | None, rules: Rules = SHIPPED) -> Iterator[str]:
    """The writes to a node after which whom it belonged to, or belongs to now, can never acquire it again."""
    is_somebodys = start is not None and (start.keys() & {"kind", "slot", "outcome"})
    for name, fields in WRITES.items():
        if not passes(fields, start, rules=rules):
            continue
        after = merged(start, fields)
        if not gets_out(owner(start if is_somebodys else after), after, rules):
            yield name


@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS)
def test_the_user_gets_out_of_what_the_rules_let_it_write(start: Node | None) -> None:
    """After each write that passes, the owner of the name can acquire it again, without an administrator's help."""
    assert list(traps(start)) == []


def test_a_kind_that_only_one_field_looks_at_is_a_trap() -> None:
    """Without the slot's look at the kind a leader's node gets a slot, and without the way back nobody stands again."""
    text = RULES.read_text("utf-8")
    for look, instead in (
        ("(!newData.parent().child('kind').exists()", "(true"),
        ("(data.child('kind').exists() && newData.child('kind').exists())", "false"),
    ):
        assert text.count(look) == 1
        text = text.replace(look, instead)
    assert list(traps(STARTS["a leader"], Rules.parse(text)))


@pytest.mark.parametrize("pair", [pair for pair in PAIRS if pair.path == LOCK], ids=str)
def test_the_user_gets_out_of_two_writes(pair: Pair) -> None:
    """The same after both writes of a pair, in each order, and in one."""
    for writes in ((pair.a, pair.b), (pair.b, pair.a), ({**pair.a, **pair.b},)):
        node = pair.before
        for fields in writes:
            node = merged(node, fields) if passes(fields, node) else node
        assert gets_out(owner(node), node), writes


@pytest.mark.parametrize("result", ['{"cut', "[", '"', "-", "1 2"])
def test_a_result_that_only_begins_like_json_is_replaced_under_a_higher_fence(result: str) -> None:
    """Rules can't read JSON to its end. What the next holder of the lock calls anew replaces what it can't read."""
    broken = {**DID, "result": result}
    assert question(put("", broken, path=ONCE_DONE, beside={LOCK: RUNNING}))(SHIPPED)
    lock = {**TAKEN, "fence": NOW, "kind": ONCE}
    assert question(put("", {**DID, "fence": NOW}, broken, ONCE_DONE, beside={LOCK: lock}))(SHIPPED)


def test_a_claim_passes_at_all() -> None:
    """What the property above counts as a way out is a claim of the library's that these rules let pass."""
    assert acquires(owner(RUNNING), {**CLAIMED, "expiresAt": 0}, NOW + DAY, SHIPPED)
    assert not acquires(owner(RUNNING), {**RUNNING, "kind": "junk"}, NOW + DAY, SHIPPED)


def is_of_new_nodes(row: Row) -> bool:
    """Whether the request is one to the holds, the mutes, what was told or the asks: the version before has none."""
    paths = [row.path, *(row.body if isinstance(row.body, dict) and row.path == "" else ())]
    return any(path.startswith(("cron-hold", "cron-mutes", "cron-told", "cron-asks")) for path in paths)


def test_rules_of_the_version_before_deny_only_what_is_new() -> None:
    """They let pass all that jobs, locks and leaders write, also a pause with a hold. They deny the reader, the new
    nodes, and ways out of what they let in.
    """
    rules = Rules.parse(before())
    denied = [row for row in LEGAL if not question(row)(rules)]
    assert {row.title for row in denied if row.auth != READER and not is_of_new_nodes(row)} == {
        "record an act on a name of 161 characters",
        "record that a key was forgotten that can name no job",
        "delete what nobody can read, so that it is done again",
        "delete what is no text, so that it is done again",
        "delete what has no result, so that it is done again",
        "remove a kind beside a slot",
        "remove a slot beside a kind",
        "remove a kind that is none",
    }
    assert [row for row in LEGAL if (row.auth == READER or is_of_new_nodes(row)) and row not in denied] == []
