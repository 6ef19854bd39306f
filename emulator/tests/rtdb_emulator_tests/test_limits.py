"""The limits of size: the largest that is served, and one more that is refused."""

from __future__ import annotations

import json

import pytest

from rtdb_emulator import large
from rtdb_emulator.http import messages, server
from rtdb_emulator.jsondata import parse
from rtdb_emulator.large import LARGE, MOST_AT_ONCE, is_large
from rtdb_emulator.pytest_plugin import Rtdb
from rtdb_emulator_tests.helpers.wire import OWNER, call, wire

MEBIBYTE = 1024 * 1024
WRITE_TOO_LARGE = "Data to write exceeds the maximum size that can be modified with a single request."
READ_TOO_LARGE = "Data requested exceeds the maximum size that can be accessed with a single request."


@pytest.mark.parametrize("above", [0, 1, 31, 32])
def test_a_tree_has_at_most_32_levels(rtdb: Rtdb, above: int) -> None:
    """32 levels, however many of them are in the path, are stored and served; one more in the data is 400."""
    place = "".join(f"/k{level}" for level in range(above))

    def nested(levels: int) -> str:
        return '{"k":' * levels + "1" + "}" * levels

    assert call(rtdb, "PUT", f"{place}/.json", nested(32 - above)).status_code == 200
    assert call(rtdb, "GET", f"{place}/.json").json() == json.loads(nested(32 - above))
    refused = call(rtdb, "PUT", f"{place}/.json", nested(33 - above))
    assert refused.status_code == 400
    assert "33 levels deep, 32 are allowed" in refused.json()["error"]


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE"])
def test_a_path_has_at_most_32_levels(rtdb: Rtdb, method: str) -> None:
    """A path of 33 levels is 400 for every method."""
    response = call(rtdb, method, "/k" * 33 + ".json", '{"a":1}')
    assert response.status_code == 400
    assert "levels" in response.json()["error"]


def test_a_post_counts_its_own_level(rtdb: Rtdb) -> None:
    """A POST to the 31st level makes a child, one to the 32nd is 400."""
    assert call(rtdb, "POST", "/k" * 31 + ".json", "1").status_code == 200
    assert call(rtdb, "POST", "/k" * 32 + ".json", "1").status_code == 400


def test_a_body_has_at_most_256_mebibytes(rtdb: Rtdb, monkeypatch: pytest.MonkeyPatch) -> None:
    """A body over the limit is refused before it has come whole, and the connection can be used further."""
    assert messages.MAX_BODY == 256 * MEBIBYTE
    monkeypatch.setattr(server, "MAX_BODY", 1000)
    with wire(rtdb.emulator) as connection:
        connection.send(
            f"PUT /n.json?ns={rtdb.namespace} HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n".encode()
        )
        connection.send(b'"' + b"x" * 1000)
        status, body = connection.answer()
        assert (status, json.loads(body)) == (400, {"error": WRITE_TOO_LARGE})
        connection.send(b"x" * (100_000 - 1001))
        connection.ask("PUT", f"/n.json?ns={rtdb.namespace}", b'"' + b"y" * 998 + b'"')
        assert connection.answer()[0] == 200
    assert rtdb.get("/n") == "y" * 998


def test_an_admin_imports_more(rtdb: Rtdb, monkeypatch: pytest.MonkeyPatch) -> None:
    """A body over the limit is taken from an admin, unless they ask for a limit or act as somebody else."""
    monkeypatch.setattr(server, "MAX_BODY", 1000)
    monkeypatch.setitem(messages.WRITE_SIZE_LIMITS, "large", 1000)
    body = json.dumps("x" * 1000)
    assert call(rtdb, "PUT", "/n.json", body, OWNER).status_code == 200
    assert call(rtdb, "PUT", "/n.json?writeSizeLimit=unlimited", body, OWNER).status_code == 200
    for query in ("writeSizeLimit=large", "auth_variable_override=null", "auth_variable_override=x"):
        refused = call(rtdb, "PUT", f"/m.json?{query}", body, OWNER)
        assert (refused.status_code, refused.json()) == (400, {"error": WRITE_TOO_LARGE})
    assert rtdb.get() == {"n": "x" * 1000}


def test_an_answer_has_at_most_256_mebibytes(rtdb: Rtdb, monkeypatch: pytest.MonkeyPatch) -> None:
    """A read over the limit is refused, and its parts can still be read."""
    assert server.MAX_READ == 256 * MEBIBYTE
    monkeypatch.setattr(server, "MAX_READ", 20)
    monkeypatch.setattr(large, "LARGE", 19)
    rtdb.set("/n", {"a": "x" * 18, "b": 1})
    refused = call(rtdb, "GET", "/n.json")
    assert (refused.status_code, refused.json()) == (400, {"error": READ_TOO_LARGE})
    assert call(rtdb, "GET", "/n/a.json").json() == "x" * 18


def test_a_number_of_many_digits_is_refused_and_nothing_breaks(rtdb: Rtdb) -> None:
    """Digits without end are 400, in a body, in a bound and in a limit."""
    digits = "9" * 5000
    assert call(rtdb, "PUT", "/n.json", digits).status_code == 400
    assert call(rtdb, "GET", f"/n.json?orderBy=%22$priority%22&startAt={digits}").status_code == 400
    assert call(rtdb, "GET", f"/n.json?orderBy=%22$key%22&limitToFirst={digits}").status_code == 400


def test_many_children_are_served(rtdb: Rtdb) -> None:
    """Fifty thousand children are written and read in one request each."""
    children = {f"k{number:05}": number for number in range(50_000)}
    assert call(rtdb, "PUT", "/n.json?print=silent", json.dumps(children)).status_code == 204
    assert call(rtdb, "GET", "/n.json").json() == children
    shown = call(rtdb, "GET", "/n.json?orderBy=%22$key%22&limitToLast=2").json()
    assert shown == {"k49998": 49998, "k49999": 49999}


TEXT = "x" * LARGE
MANY = {f"k{number}": number for number in range(MOST_AT_ONCE)}


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (TEXT, True),
        (TEXT[:-1], False),
        ({"a": {"b": TEXT}}, True),
        ({"a": {".value": TEXT, ".priority": 1}}, True),
        (MANY, False),
        ({"a": MANY}, True),
        (None, False),
    ],
    ids=["text", "shorter", "below", "with a priority", "many", "more", "nothing"],
)
def test_much_text_or_many_nodes_are_large(data: object, expected: bool) -> None:
    """A node is written in steps if it has much text or many nodes, at whatever depth."""
    assert is_large(parse(data, now=0)) is expected
