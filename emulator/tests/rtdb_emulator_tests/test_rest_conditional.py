"""Conditional requests: the documented table, row by row, and the race that it exists for."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from rtdb_emulator.pytest_plugin import Rtdb
from rtdb_emulator_tests.helpers.wire import call, wire

ONE = "YPVfR2bXt/lcDjiQZ8pOkAd3qkQ="
TEN = "+r5aI9HvKKagELki8SYKBk0q7D4="
ASK = {"X-Firebase-ETag": "true"}


@pytest.mark.parametrize(
    ("value", "tag"),
    [
        (None, "null_etag"),
        (1, ONE),
        (600613, "ViJFJowpbyRvgGNPzPJdGeN+mCY="),
        ("", "Ki0Xy0V6morg0TO3Sxi/jwugYDQ="),
        ([1, 2, 3], "h6XOC3OcidJlNC1Velmi3gphgQk="),
        ({"k": {".value": "v", ".priority": 0}}, "WVjO3HtSG7mHjWlgXozdE4ft2ZY="),
    ],
)
def test_an_etag_is_the_hash_of_the_node(rtdb: Rtdb, value: object, tag: str) -> None:
    """GET with `X-Firebase-ETag: true` has the bare hash as ETag; without, it has none."""
    rtdb.set("/n", value)
    assert call(rtdb, "GET", "/n.json", None, ASK).headers["etag"] == tag
    assert "etag" not in call(rtdb, "GET", "/n.json").headers
    assert "etag" not in call(rtdb, "GET", "/n.json", None, {"X-Firebase-ETag": "false"}).headers


@pytest.mark.parametrize(
    ("method", "body", "tag"),
    [
        ("PUT", "10", TEN),
        ("PUT", "null", "null_etag"),
        ("PUT", "{}", "null_etag"),
        ("POST", "10", TEN),
        ("DELETE", None, "null_etag"),
        ("PATCH", '{"a":10}', None),
    ],
)
def test_a_write_tells_the_etag_when_asked(rtdb: Rtdb, method: str, body: str | None, tag: str | None) -> None:
    """PUT, POST and DELETE tell the ETag of what they have written, if asked for it; PATCH has none."""
    rtdb.set("/n", 1)
    assert call(rtdb, method, "/n.json", body, ASK).headers.get("etag") == tag
    assert "etag" not in call(rtdb, method, "/n.json", body).headers


def test_a_silent_write_tells_the_etag_when_asked(rtdb: Rtdb) -> None:
    """`print=silent` goes with `X-Firebase-ETag`: a 204 that has the ETag."""
    response = call(rtdb, "PUT", "/n.json?print=silent", "10", ASK)
    assert (response.status_code, response.headers["etag"]) == (204, TEN)


@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize(
    ("method", "before", "tag", "stored"),
    [
        ("PUT", 1, ONE, 10),
        ("PUT", None, "null_etag", 10),
        ("DELETE", 1, ONE, None),
        ("DELETE", None, "null_etag", None),
    ],
)
def test_a_precondition_that_holds(
    rtdb: Rtdb, method: str, before: object, tag: str, stored: object, asked: bool
) -> None:
    """PUT and DELETE with the current ETag are done and answered 200, with the new ETag only if asked for."""
    rtdb.set("/n", before)
    response = call(rtdb, method, "/n.json", "10", {"if-match": tag, **(ASK if asked else {})})
    assert (response.status_code, response.json()) == (200, stored)
    assert rtdb.get("/n") == stored
    new = TEN if stored else "null_etag"
    assert response.headers.get("etag") == (new if asked else None)


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
@pytest.mark.parametrize(
    ("before", "wrong", "current"),
    [
        (1, TEN, ONE),
        (1, "null_etag", ONE),
        (1, "invalid-etag", ONE),
        (1, f'"{ONE}"', ONE),
        (1, "*", ONE),
        (1, "", ONE),
        (None, ONE, "null_etag"),
        (None, "invalid-etag", "null_etag"),
    ],
)
def test_a_precondition_that_fails(rtdb: Rtdb, method: str, before: object, wrong: str, current: str) -> None:
    """PUT and DELETE with another ETag change nothing; the 412 has the current value and ETag, of nothing as well."""
    rtdb.set("/n", before)
    response = call(rtdb, method, "/n.json", "10", {"if-match": wrong})
    assert (response.status_code, response.json()) == (412, before)
    assert response.headers["etag"] == current
    assert response.headers["content-type"] == "application/json; charset=utf-8"
    assert rtdb.get("/n") == before


@pytest.mark.parametrize("name", ["if-match", "If-Match", "IF-MATCH"])
def test_header_names_are_in_any_case(rtdb: Rtdb, name: str) -> None:
    """A precondition counts however its name is spelt on the wire."""
    rtdb.set("/n", 1)
    with wire(rtdb.emulator) as connection:
        connection.ask("PUT", f"/n.json?ns={rtdb.namespace}", b"10", f"{name}: null_etag", "x-fIREbase-etag: TRUE")
        assert connection.answer() == (412, b"1")
        connection.ask("PUT", f"/n.json?ns={rtdb.namespace}", b"10", f"{name}: {ONE}")
        assert connection.answer() == (200, b"10")


@pytest.mark.parametrize("sent", [TEN, "invalid-etag", "", None])
@pytest.mark.parametrize(("value", "tag"), [(1, ONE), (None, "null_etag")])
def test_if_none_match(rtdb: Rtdb, value: object, tag: str, sent: str | None) -> None:
    """GET with if-none-match of the current ETag is 304 without a body, with another it is 200 with the value; each has
    the ETag, asked for or not.
    """
    rtdb.set("/n", value)
    response = call(rtdb, "GET", "/n.json", None, {"if-none-match": tag if sent is None else sent})
    assert response.headers["etag"] == tag
    if sent is None:
        assert (response.status_code, response.content) == (304, b"")
        assert "content-type" not in response.headers
    else:
        assert (response.status_code, response.json()) == (200, value)


def test_a_412_tells_nothing_to_who_may_not_read(rtdb: Rtdb) -> None:
    """A writer without the right to read gets 401 where the precondition fails, and 200 where it holds."""
    rtdb.emulator.set_rules(rtdb.namespace, {"rules": {".write": True}})
    rtdb.set("/n", 1)
    refused = call(rtdb, "PUT", "/n.json", "10", {"if-match": "null_etag"})
    assert (refused.status_code, refused.json()) == (401, {"error": "Permission denied"})
    assert "etag" not in refused.headers
    assert call(rtdb, "PUT", "/n.json", "10", {"if-match": ONE}).status_code == 200


RISING = {"rules": {".read": True, "n": {".write": "newData.val() === data.val() + 1"}}}


def test_the_precondition_comes_before_the_rules(rtdb: Rtdb) -> None:
    """A stale write that its rules would refuse is 412, and 401 once it is no longer stale."""
    rtdb.set_rules(RISING)
    rtdb.set("/n", 1)
    for method in ("PUT", "DELETE"):
        stale = call(rtdb, method, "/n.json", "10", {"if-match": "null_etag"})
        assert (stale.status_code, stale.json(), stale.headers["etag"]) == (412, 1, ONE)
        assert call(rtdb, method, "/n.json", "10", {"if-match": ONE}).status_code == 401
    assert call(rtdb, "PUT", "/n.json", "2", {"if-match": ONE}).status_code == 200


def test_the_rules_come_first_where_a_fault_wants_it(rtdb: Rtdb) -> None:
    """Under `faults.rules_first` a stale write that its rules refuse is 401, one that they grant is 412."""
    rtdb.set_rules(RISING)
    rtdb.set("/n", 1)
    with rtdb.faults.rules_first(times=None) as fault:
        for method in ("PUT", "DELETE"):
            assert call(rtdb, method, "/n.json", "10", {"if-match": "null_etag"}).status_code == 401
        assert call(rtdb, "PUT", "/n.json", "2", {"if-match": "null_etag"}).status_code == 412
        assert call(rtdb, "PUT", "/n.json", "2", {"if-match": ONE}).status_code == 200
        assert call(rtdb, "GET", "/n.json").json() == 2
    assert fault.hits == 5
    assert call(rtdb, "PUT", "/n.json", "10", {"if-match": "null_etag"}).status_code == 412


def test_one_of_sixteen_creates(rtdb: Rtdb) -> None:
    """Of sixteen clients that create the same node at once one gets 200; all others get 412 with the winner's value."""
    start = threading.Barrier(16)

    def create(number: int) -> tuple[int, object]:
        with wire(rtdb.emulator) as connection:
            start.wait(10)
            connection.ask("PUT", f"/n.json?ns={rtdb.namespace}", b"%d" % number, "if-match: null_etag")
            status, body = connection.answer()
            return status, json.loads(body)

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(create, range(16)))
    winner = rtdb.get("/n")
    assert sorted(answers, key=str) == sorted([(200, winner)] + [(412, winner)] * 15, key=str)


def test_concurrent_transactions_lose_nothing(rtdb: Rtdb) -> None:
    """Eight clients that count up by conditional PUTs arrive at the sum of all their steps."""

    def count(_: int) -> None:
        with wire(rtdb.emulator) as connection:
            done, value, tag = 0, 0, "null_etag"
            while done < 10:
                connection.ask("PUT", f"/n.json?ns={rtdb.namespace}", b"%d" % (value + 1), f"if-match: {tag}", *asking)
                head = connection.head().decode()
                fields = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if line)
                value, tag = json.loads(connection.read(int(fields["content-length"]))), fields["etag"]
                done += head.startswith("HTTP/1.1 200")

    asking = [f"{name}: {value}" for name, value in ASK.items()]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(count, range(8)))
    assert rtdb.get("/n") == 80
