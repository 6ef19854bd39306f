"""Writes trigger real functions of both generations, in the CLI's own functions emulator."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from rtdb_emulator_tests.firebase.conftest import HERE, INSTANCE, Firebase
from rtdb_emulator_tests.helpers.sockets import until

OWNER = {"Authorization": "Bearer owner"}


class Shop:
    """The database of the project, which runs with its functions."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}"

    def ask(self, method: str, path: str, data: object = None, *, admin: bool = False) -> Any:
        url = f"{self._url}{path}.json?ns={INSTANCE}"
        headers = OWNER if admin else {}
        return requests.request(method, url, data=json.dumps(data), headers=headers, timeout=10).json()

    def heard(self, *path: str) -> Any:
        """What a function has written of an event."""
        return until(lambda: self.ask("GET", f"/heard/{'/'.join(path)}", admin=True), patience=60)


@pytest.fixture
def shop(firebase: Firebase, project: Path) -> Iterator[Shop]:
    shutil.copytree(HERE / "functions", project / "functions")
    (project / "functions" / "node_modules").symlink_to(HERE / "node_modules")
    config = json.loads((project / "firebase.json").read_text("utf-8"))
    config["functions"] = {"source": "functions", "runtime": "nodejs20"}
    (project / "firebase.json").write_text(json.dumps(config), "utf-8")
    process = firebase("emulators:start", "--only", "functions,database")
    assert process.stdout is not None
    said = ""
    while "All emulators ready" not in said:
        line = process.stdout.readline()
        assert line, said
        said += line
    yield Shop(config["emulators"]["database"]["port"])
    process.terminate()
    process.communicate()


@pytest.mark.timeout(120)
def test_functions_are_called_as_the_official_emulator_calls_them(shop: Shop) -> None:
    """A creation, a change of one child and a deletion, each by the functions that are for it, with the value before
    and after, the parameters of the path and who wrote.
    """
    shop.ask("PUT", "/orders/a", {"total": 1, "items": ["pen", "ink"]})
    order = {"total": 1, "items": ["pen", "ink"]}
    assert shop.heard("created", "a") == {"now": order, "as": "unauthenticated", "in": INSTANCE, "at": "a"}
    assert shop.heard("written", "a") == {"after": order, "at": "a"}
    first = shop.heard("first", "a")
    assert first == {"after": order, "at": "a", "as": "UNAUTHENTICATED", "type": "google.firebase.database.ref.write"}
    shop.ask("PATCH", "/orders/a", {"total": 2, "items/1": None}, admin=True)
    assert shop.heard("updated", "a") == {"before": order, "after": {"total": 2, "items": ["pen"]}, "at": "a"}
    assert shop.heard("firstTotal", "a") == {"before": 1, "after": 2, "at": "total"}
    shop.ask("DELETE", "/orders/a", admin=True)
    assert shop.heard("deleted", "a") == {"was": {"total": 2, "items": ["pen"]}, "at": "a"}
    # A write of two is an event for each, and nobody has called the function of another region.
    shop.ask("PATCH", "/orders", {"b": {"total": 3}, "c": {"total": 4}}, admin=True)
    assert [shop.heard("created", key)["now"]["total"] for key in "bc"] == [3, 4]
    assert shop.heard("created", "b")["as"] == "admin"
    assert shop.ask("GET", "/heard/elsewhere", admin=True) is None
