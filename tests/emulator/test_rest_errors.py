"""What the database refuses: the status, the text, and that nothing is done."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest
from tests.emulator.test_rest_wire import OWNER, call, wire

from rtdb_emulator.pytest_plugin import Rtdb

NOT_JSON = "Invalid data; couldn't parse JSON object, array, or value."
NO_OBJECT = "Invalid data; couldn't parse JSON object. Are you sending a JSON object with valid key names?"
NO_DATA = "Error: No data supplied."
NO_QUERY_HERE = "Querying related parameters not supported on this request type"
NO_MIX_IF = (
    "Mixing 'shallow', querying parameters or 'print=silent' and if-match or if-none-match requests is not supported"
)
NO_MIX_SHALLOW_ETAG = "Mixing 'shallow' and etag requests is not supported"
NO_MIX_QUERY_ETAG = "Mixing querying parameters and ETag requests is not supported"
NO_PRIMITIVE = "Constraint index field must be a JSON primitive"
NO_KEY = "Constraint key field must be a valid key name"
EQUAL_TO = "equalTo cannot be specified in addition to startAfter, startAt, endAt, or endBefore"


@pytest.mark.parametrize(
    ("method", "body", "text"),
    [
        *[(method, "", NO_DATA) for method in ("PUT", "POST", "PATCH")],
        *[
            (method, body, NOT_JSON)
            for method in ("PUT", "POST")
            for body in (
                "{", "a", '{"a":}', "NaN", "[Infinity]", "1e999", '{"a.b":1}', '{"$x":1}', '{"":1}', '{"a/b":1}',
                '{".value":1,"a":2}', '{".value":{"a":1}}', '{".priority":true,"a":1}', '"\\ud800"', "[" * 9999,
            )
        ],
        *[
            ("PATCH", body, NO_OBJECT)
            for body in ("{", "a", "1", "[1]", "true", '"x"', '{"a.b":1}', '{"":1}', '{"/":1}', '{"a/$b":1}')
        ],
    ],
)  # fmt: skip
def test_a_body_that_can_not_be_stored_is_refused(rtdb: Rtdb, method: str, body: str, text: str) -> None:
    """A body that is missing, no JSON, or no data for the database is 400 with RTDB's text."""
    response = call(rtdb, method, "/n.json", body)
    assert (response.status_code, response.json()) == (400, {"error": text})
    assert rtdb.get() is None


def test_a_body_that_is_not_utf8_is_refused(rtdb: Rtdb) -> None:
    """JSON in another encoding than UTF-8 is 400."""
    response = call(rtdb, "PUT", "/n.json", '"é"'.encode("latin-1"))
    assert (response.status_code, response.json()) == (400, {"error": NOT_JSON})


@pytest.mark.parametrize(
    ("target", "text"),
    [
        *[
            (f"/{key}.json?", "Invalid path: Invalid token in path")
            for key in ("a%", "a%zz", "a%2Fb", "a.b", ".info/connected", "a%24", "%23", "%00", "%FF")
        ],
        ("/a.json?print=%zz&", "Invalid query: its percent-encoding is broken"),
        ("/a.json?cache=50%&", "Invalid query: its percent-encoding is broken"),
        ("/a.json?cache=%ff&", "Invalid query: its percent-encoding is broken"),
    ],
)
def test_a_target_that_names_no_place_is_refused(rtdb: Rtdb, target: str, text: str) -> None:
    """A path or query that can't be decoded, or has a character that no key may have, is 400; nothing is done."""
    with wire(rtdb.emulator) as connection:
        connection.ask("PUT", f"{target}ns={rtdb.namespace}", b"1")
        status, body = connection.answer()
    assert (status, json.loads(body)) == (400, {"error": text})
    assert rtdb.get() is None


@pytest.mark.parametrize("value", ['{".sv":"clock"}', '{"a":{".sv":{"increment":"1"}}}', '{".sv":{"decrement":1}}'])
def test_an_unknown_server_value_is_refused(rtdb: Rtdb, value: str) -> None:
    """A `.sv` other than timestamp and increment is 400."""
    response = call(rtdb, "PUT", "/n.json", value)
    assert response.status_code == 400
    assert "unrecognized server value" in response.json()["error"]


@pytest.mark.parametrize(
    ("query", "text"),
    [
        *[
            (f"{name}=1", "orderBy must be defined when other query parameters are defined")
            for name in ("startAt", "startAfter", "endAt", "endBefore", "equalTo", "limitToFirst", "limitToLast")
        ],
        *[
            (f"orderBy={order}", "orderBy must be a valid JSON encoded path")
            for order in ("", "age", "1", '""', '"a.b"', '"$id"', "['a']")
        ],
        ('orderBy="$key"&limitToFirst=1&limitToLast=1', "Only one of limitToFirst and limitToLast may be specified"),
        *[
            (f'orderBy="$key"&{name}={value}', f"{name} must be {what}")
            for name in ("limitToFirst", "limitToLast")
            for what, values in (("an integer", ("x", "1.5")), ("positive", ("0", "-1", "")))
            for value in values
        ],
        *[
            (f'orderBy="$key"&equalTo="a"&{name}="a"', EQUAL_TO)
            for name in ("startAfter", "startAt", "endAt", "endBefore")
        ],
        *[
            (f'orderBy="a"&{name}={value}', NO_PRIMITIVE)
            for name in ("startAt", "endAt", "equalTo")
            for value in ("abc", "{}", "[1]", "")
        ],
        *[(f'orderBy="a"&startAt=1,{key}', NO_KEY) for key in ("2", '""', '"a.b"', "null")],
        *[
            (f'orderBy="$key"&{name}=5', "Provided key index type is invalid, must be string")
            for name in ("startAt", "endBefore", "equalTo")
        ],
        ('orderBy="height"', 'Index not defined, add ".indexOn": "height", for path "/n", to the rules'),
        ('orderBy="a/b"&equalTo=1', 'Index not defined, add ".indexOn": "a/b", for path "/n", to the rules'),
        ('orderBy="$value"', 'Index not defined, add ".indexOn": ".value", for path "/n", to the rules'),
        *[
            (f'shallow=true&{query}', "Mixing 'shallow' and querying parameters is not supported")
            for query in ('orderBy="$key"', 'startAt="a"', 'endAt="a"', "equalTo=1", "limitToLast=1")
        ],
    ],
)  # fmt: skip
def test_a_query_that_makes_no_sense_is_refused(rtdb: Rtdb, query: str, text: str) -> None:
    """A wrong query, or one without its index, is 400 with RTDB's text, for an admin as well."""
    for headers in ({}, OWNER):
        response = call(rtdb, "GET", f"/n.json?{quote(query, safe='=&')}", None, headers)
        assert (response.status_code, response.json()) == (400, {"error": text})


@pytest.mark.parametrize("method", ["PUT", "POST", "PATCH", "DELETE"])
def test_a_write_can_not_be_a_query(rtdb: Rtdb, method: str) -> None:
    """A write with a query's parameters is 400, and nothing is done."""
    rtdb.set("/n", {"a": 1})
    response = call(rtdb, method, "/n.json?orderBy=%22$key%22", '{"a":2}')
    assert (response.status_code, response.json()) == (400, {"error": NO_QUERY_HERE})
    assert rtdb.get("/n") == {"a": 1}


@pytest.mark.parametrize("tag", ["null_etag", "nonsense"])
@pytest.mark.parametrize(
    ("method", "query", "header"),
    [
        *[
            (method, query, header)
            for query in ("shallow=true", 'orderBy="$key"', "print=silent")
            for method, header in (("GET", "if-none-match"), ("PUT", "if-match"), ("DELETE", "if-match"))
        ],
    ],
)
def test_a_precondition_goes_with_nothing_else(rtdb: Rtdb, method: str, query: str, header: str, tag: str) -> None:
    """if-match and if-none-match with shallow, a query or `print=silent` are 400, whether they match or not."""
    response = call(rtdb, method, f"/n.json?{quote(query, safe='=')}", "1", {header: tag})
    assert (response.status_code, response.json()) == (400, {"error": NO_MIX_IF})
    assert rtdb.get() is None


@pytest.mark.parametrize(
    ("query", "text"),
    [("shallow=true", NO_MIX_SHALLOW_ETAG), ("orderBy=%22$key%22", NO_MIX_QUERY_ETAG)],
)
def test_an_etag_is_of_a_whole_node(rtdb: Rtdb, query: str, text: str) -> None:
    """`X-Firebase-ETag` together with shallow or a query is 400."""
    response = call(rtdb, "GET", f"/n.json?{query}", None, {"X-Firebase-ETag": "true"})
    assert (response.status_code, response.json()) == (400, {"error": text})


@pytest.mark.parametrize("equal", [True, False])
@pytest.mark.parametrize("method", ["GET", "POST", "PATCH"])
def test_if_match_is_for_put_and_delete(rtdb: Rtdb, method: str, equal: bool) -> None:
    """if-match on GET, POST and PATCH is 400 "not supported", and nothing is done."""
    response = call(rtdb, method, "/n.json", '{"a":1}', {"if-match": "null_etag" if equal else "other"})
    assert response.status_code == 400
    assert "not supported" in response.json()["error"]
    assert rtdb.get() is None


@pytest.mark.parametrize(
    ("method", "query", "header"),
    [
        ("GET", "", ""),
        ("GET", "shallow=true", ""),
        ("GET", "shallow=true", "x-firebase-etag"),
        ("GET", "orderBy=%22$key%22", ""),
        ("GET", "orderBy=%22age%22", ""),
        ("GET", "print=silent", "if-none-match"),
        ("PUT", "", ""),
        ("PUT", "", "if-match"),
        ("PUT", "print=silent", "if-match"),
        ("POST", "", ""),
        ("PATCH", "", ""),
        ("DELETE", "", ""),
        ("DELETE", "", "if-match"),
        ("DELETE", "shallow=true", "if-match"),
    ],
)
def test_what_the_rules_forbid_is_401_before_all_else(rtdb: Rtdb, method: str, query: str, header: str) -> None:
    """Without permission the answer is 401 "Permission denied", also for a request that would be 400 or 412."""
    rtdb.emulator.set_rules(rtdb.namespace, {"rules": {"other": {".read": True, ".write": True}}})
    rtdb.set("/n", {"a": 1})
    response = call(rtdb, method, f"/n.json?{query}", '{"a":2}', {header: "true"} if header else None)
    assert (response.status_code, response.json()) == (401, {"error": "Permission denied"})
    assert rtdb.get("/n") == {"a": 1}


def test_a_failed_validation_reads_like_missing_permission(rtdb: Rtdb) -> None:
    """A `.validate` that fails is 401 "Permission denied", and an admin isn't asked."""
    rules = {"rules": {".write": True, "n": {".validate": "newData.isNumber()"}}}
    rtdb.emulator.set_rules(rtdb.namespace, rules)
    response = call(rtdb, "PUT", "/n.json", '"text"')
    assert (response.status_code, response.json()) == (401, {"error": "Permission denied"})
    assert call(rtdb, "PUT", "/n.json", "5").status_code == 200
    assert call(rtdb, "PUT", "/n.json", '"text"', OWNER).status_code == 200


@pytest.mark.parametrize(
    "token", ["legacy-secret", "a.b", "a.b.c", "a.!!!.c", "a.bnVsbA.c", "a.W10.c", "", "..", "é.é.é"]
)
def test_a_token_that_is_none_is_401(rtdb: Rtdb, token: str) -> None:
    """An `auth` that isn't three parts with a JSON object in the middle is 401, whatever the rules."""
    response = call(rtdb, "GET", f"/n.json?auth={quote(token)}")
    assert (response.status_code, response.json()) == (401, {"error": "Could not parse auth token."})
