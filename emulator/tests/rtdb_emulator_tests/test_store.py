"""What a store keeps beside its databases: the newest operations, and large nodes; the collector visits no tree."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from itertools import pairwise
from weakref import ref

import pytest

from rtdb_emulator import Emulator
from rtdb_emulator.database import Access
from rtdb_emulator.jsondata import parse
from rtdb_emulator.pytest_plugin import Rtdb
from rtdb_emulator.store import Discarded, Operation, Operations
from rtdb_emulator_tests.helpers.processes import Run
from rtdb_emulator_tests.helpers.sockets import SocketClient, until
from rtdb_emulator_tests.helpers.wire import OWNER, call

RULES = {"rules": {".read": True, "a": {".write": "auth.uid === 'alice'"}}}
ALICE = "e30." + urlsafe_b64encode(b'{"sub":"alice"}').decode().rstrip("=") + "."


def remembered(rtdb: Rtdb) -> list[dict[str, object]]:
    """The operations on the test's database, oldest first."""
    found = [operation for _, operation in rtdb.emulator.operations.since(0)]
    return [operation.as_json() for operation in found if operation.namespace == rtdb.namespace]


def test_each_request_has_its_verdict(rtdb: Rtdb) -> None:
    """Allowed, denied, stale, refused, failed, dropped; with who asked, and what else but credentials."""
    rtdb.set_rules(RULES)
    call(rtdb, "PUT", f"/a.json?auth={ALICE}&print=silent", "1")
    call(rtdb, "GET", "/a.json?shallow=true")
    call(rtdb, "PUT", "/a.json", "2", {**OWNER, "if-match": "another"})
    call(rtdb, "PUT", "/a.json", "{", OWNER)
    rtdb.faults.answer(503)
    call(rtdb, "GET", "/a.json")
    rtdb.faults.drop_reply()
    with pytest.raises(OSError, match="aborted"):
        call(rtdb, "PUT", "/a.json", "3", OWNER)
    call(rtdb, "GET", "/a.json?auth=nonsense")
    assert [(shown["how"], shown["who"], shown["verdict"], shown["detail"]) for shown in remembered(rtdb)] == [
        ("PUT", "alice", "allowed", "print=silent"),
        ("GET", "a client not signed in", "allowed", "shallow=true"),
        ("PUT", "admin", "stale", "if-match"),
        ("PUT", "admin", "refused", ""),
        ("GET", "a client not signed in", "failed", ""),
        ("PUT", "admin", "dropped", ""),
        ("GET", "an unreadable credential", "denied", ""),
    ]
    assert remembered(rtdb)[-1]["why"] == ["Could not parse auth token."]


def test_what_the_rules_deny_is_explained(rtdb: Rtdb, client: SocketClient) -> None:
    """Over REST and over a socket alike."""
    rtdb.set_rules(RULES)
    call(rtdb, "PUT", "/a/b.json", "1")
    assert client.ask("p", p="/a/b", d=1) == ("permission_denied", "Permission denied")
    rest, wire = remembered(rtdb)
    assert (rest["path"], rest["verdict"], wire["path"], wire["verdict"]) == ("/a/b", "denied", "/a/b", "denied")
    assert rest["why"] == wire["why"]
    assert "      auth.uid = null" in wire["why"]  # type: ignore[operator]  # a list


def test_what_a_socket_asks_of_the_data_is_remembered(rtdb: Rtdb, client: SocketClient) -> None:
    """With its query and condition; signing in and housekeeping are left out, unless they fail."""
    client.ask("s", c={})
    client.ask("gauth", cred="owner")
    client.ask("q", p="/a", q={"i": ".key", "l": 2}, t=1, h="")
    client.ask("p", p="/a", d=1, h="another")
    client.ask("m", p="/a", d={"b": 1})
    client.ask("g", p="/a", q={"i": "b", "l": 1})
    client.ask("n", p="/a", q={"i": ".key", "l": 2}, t=1)
    client.ask("auth", cred="nonsense")
    assert [(shown["how"], shown["verdict"], shown["detail"]) for shown in remembered(rtdb)] == [
        ("LISTEN", "allowed", '{"i": ".key", "l": 2}'),
        ("PUT", "stale", "conditional"),
        ("PATCH", "allowed", ""),
        ("GET", "refused", '{"i": "b", "l": 1}'),
        ("AUTH", "denied", ""),
    ]


def test_what_faults_make_of_a_sockets_request_is_remembered(rtdb: Rtdb, client: SocketClient) -> None:
    """What was answered, however slowly or early, was allowed; what was not, or with nonsense, was dropped."""
    rtdb.faults.drip(0)
    rtdb.faults.sockets.answer_first()
    rtdb.faults.garbage()
    rtdb.faults.sockets.swallow()
    for number in range(4):
        client.send("p", p="/a", d=number)
    shown = until(lambda: found if len(found := remembered(rtdb)) == 4 else [])
    assert [operation["verdict"] for operation in shown] == ["allowed", "allowed", "dropped", "dropped"]
    logged = rtdb.emulator.requests.matching(namespace=rtdb.namespace, method="PUT")
    assert [request.status for request in logged] == [200, 200, None, None]


def test_no_more_is_kept_of_a_request_than_is_shown(rtdb: Rtdb, client: SocketClient) -> None:
    """A message may have 16 MiB, and the log thousands of requests."""
    long = "x" * 100_000
    for action, body in (("g", {"p": long}), ("p", {"p": [long]}), ("q", {"p": "/", "q": {"i": long}}), (long, {})):
        client.ask(action, **body)
    kept = [found for _, found in rtdb.emulator.operations.since(0) if found.namespace == rtdb.namespace]
    assert len(kept) == 3
    assert max(len(operation.path) + len(operation.detail) + len(operation.text) for operation in kept) < 30_000
    logged = rtdb.emulator.requests.matching(namespace=rtdb.namespace)
    assert max(len(request.path) + len(request.method) for request in logged) < 30_000


def test_the_newest_are_kept() -> None:
    """Older ones are forgotten; numbers rise."""
    operations = Operations(limit=2)
    for path in ("/a", "/b", "/c"):
        operations.add(lambda path=path: Operation(0, "shop", "GET", path, None, "allowed"))  # type: ignore[misc]  # a default is no argument
    assert [(number, operation.path) for number, operation in operations.since(0)] == [(2, "/b"), (3, "/c")]
    assert [number for number, _ in operations.since(2)] == [3]


def test_an_operation_is_a_few_lines_on_a_screen() -> None:
    """Whatever a client asks for."""
    operation = Operation(
        0, "shop", "GET", "/" + "x" * 10_000, Access(False, {"a": "y" * 500}), "refused", text="z\n" * 99
    )
    shown = operation.as_json()
    assert len(json.dumps(shown)) < 5_000


class Text(str):
    """A text whose end can be seen."""


class Texts:
    """Many texts that are members of a tree, and how many of them are left."""

    def __init__(self) -> None:
        self._made: list[ref[Text]] = []

    @property
    def left(self) -> int:
        return sum(made() is not None for made in self._made)

    def tree(self) -> dict[str, object]:
        below = {f"a{number}": {"b": {f"c{more}": {"d": self._text()} for more in range(200)}} for number in range(20)}
        return {**below, "e": self._text()}

    def _text(self) -> Text:
        made = Text("x")
        self._made.append(ref(made))
        return made


def test_a_large_node_is_freed_in_steps() -> None:
    """Each step frees a few of the nodes, also of those far below; what a reader still holds stays."""
    texts, discarded, woken = Texts(), Discarded(), list[int]()
    discarded.attach(lambda: woken.append(1))
    node = parse(texts.tree(), now=0)
    held = node.at(["a3", "b"])
    discarded.add(node)
    discarded.add(parse({"small": {"a": 1}}, now=0))
    del node
    assert woken == [1]
    left = [texts.left for _ in discarded.freeing()]
    assert left[0] > 3_800
    assert max(before - after for before, after in pairwise(left)) < 200
    assert texts.left == len(held.members) == 200
    del held
    assert texts.left == 0


def test_a_deleted_tree_leaves_nothing() -> None:
    """An emulator frees in steps what was deleted or replaced; one that doesn't serve frees it at once."""
    texts = Texts()
    with Emulator() as emulator:
        for again in (1, None):
            emulator.set("demo", "/a", texts.tree())
            emulator.set("demo", "/a", again)
            until(lambda: texts.left == 0)
    emulator.set("demo", "/a", texts.tree())
    emulator.set("demo", "/a", None)
    assert texts.left == 0


# An emulator imports a thousand objects. The script prints how many nodes more a full collection visits then, and
# whether it finds a cycle that was made after the import.
SCRIPT = """
import gc, json, sys, weakref
import requests
from rtdb_emulator import Emulator, steps
from rtdb_emulator.http import server
from rtdb_emulator.tree import Node

class Cycle:
    def __init__(self):
        self.itself = self

if sys.argv[1] == "own":
    steps.own_process()
server.LARGE = 4

def put(emulator, body):
    url = emulator.url + "/.json?ns=n&print=silent"
    requests.put(url, body, headers={"Authorization": "Bearer owner"}, timeout=60).raise_for_status()

def visited():
    return sum(isinstance(found, Node) for found in gc.get_objects())

with Emulator() as emulator:
    before = visited()
    put(emulator, json.dumps({f"k{number}": {"a": number} for number in range(1000)}))
    imported = visited() - before
    dead = weakref.ref(Cycle())
    put(emulator, '{"a":1}')
    gc.collect()
    print(imported, dead() is None)
"""


@pytest.mark.parametrize(("whose", "most"), [("own", 10), ("others", 1001)])
def test_an_import_is_out_of_the_collectors_sight(run: Run, whose: str, most: int) -> None:
    """In the command's own process no collection visits an imported node, and cycles are still found; in a process of
    others every node is left as it is."""
    finished = run("-c", SCRIPT, whose)
    assert finished.returncode == 0, finished.stderr
    imported, is_found = finished.stdout.split()
    assert most - 10 <= int(imported) <= most
    assert is_found == "True"


def test_the_command_owns_its_process(run: Run) -> None:
    """The command says so before it serves, and after it has read what it begins with."""
    given = "host='127.0.0.1', port=0, project='p', rules=None, imported=None, export=None, say=print"
    serve = f"import gc; from rtdb_emulator.session import run; run({given}, wait=lambda: print(gc.get_freeze_count()))"
    finished = run("-c", serve)
    assert finished.returncode == 0, finished.stderr
    assert int(finished.stdout.split()[-1]) > 0
