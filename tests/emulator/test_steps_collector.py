"""The collector of cyclic garbage doesn't visit an imported tree; it does visit what else there is."""

from __future__ import annotations

import pytest
from tests.conftest import Run

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
