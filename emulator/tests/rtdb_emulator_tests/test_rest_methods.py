"""The methods of REST: how they and a place are named, parameters of the answer, and what the database refuses."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest

from rtdb_emulator.pytest_plugin import Rtdb
from rtdb_emulator_tests.helpers.wire import OWNER, call, wire


@pytest.mark.parametrize(
    ("method", "body", "reply", "stored"),
    [
        ("GET", None, {"a": 1, "b": {"c": 2}}, {"a": 1, "b": {"c": 2}}),
        ("PUT", '{"b":{"d":3}}', {"b": {"d": 3}}, {"b": {"d": 3}}),
        ("PUT", '"text"', "text", "text"),
        ("PUT", "null", None, None),
        ("PUT", "{}", None, None),
        ("PUT", '{"x":[null,1],"y":null,"z":{}}', {"x": [None, 1]}, {"x": [None, 1]}),
        ("PATCH", '{"b":{"d":3}}', {"b": {"d": 3}}, {"a": 1, "b": {"d": 3}}),
        ("PATCH", '{"b/d":3}', {"b/d": 3}, {"a": 1, "b": {"c": 2, "d": 3}}),
        ("PATCH", '{"a":null}', {"a": None}, {"b": {"c": 2}}),
        ("PATCH", '{"a":null,"b/c":null}', {"a": None, "b/c": None}, None),
        ("PATCH", "{}", {}, {"a": 1, "b": {"c": 2}}),
        ("PATCH", "null", None, None),
        ("DELETE", None, None, None),
    ],
)
def test_a_method_answers_200_and_stores(
    rtdb: Rtdb, method: str, body: str | None, reply: object, stored: object
) -> None:
    """GET shows, PUT replaces, PATCH replaces the named children, DELETE removes; all answer 200 and what is there."""
    rtdb.set("/n", {"a": 1, "b": {"c": 2}})
    response = call(rtdb, method, "/n.json", body)
    assert (response.status_code, response.json()) == (200, reply)
    assert response.headers["content-type"] == "application/json; charset=utf-8"
    assert rtdb.get("/n") == stored


def test_an_absent_node_is_null_and_not_404(rtdb: Rtdb) -> None:
    """GET of nothing is 200 `null`."""
    response = call(rtdb, "GET", "/no/such/place.json")
    assert (response.status_code, response.content) == (200, b"null")


def test_posted_children_are_in_the_order_of_their_posting(rtdb: Rtdb) -> None:
    """POST answers with the new child's name, unless it is silent, and names sort by time; nothing has no child."""
    names = [call(rtdb, "POST", "/queue.json", json.dumps(n)).json()["name"] for n in range(1, 30)]
    assert names == sorted(names)
    assert {len(name) for name in names} == {20}
    assert rtdb.get("/queue") == dict(zip(names, range(1, 30), strict=True))
    for body in ("null", "{}"):
        assert len(call(rtdb, "POST", "/nothing.json", body).json()["name"]) == 20
    assert rtdb.get("/nothing") is None
    assert call(rtdb, "POST", "/silent.json?print=silent", "7").status_code == 204
    silent = rtdb.get("/silent")
    assert isinstance(silent, dict)
    assert list(silent.values()) == [7]


def test_server_values_come_back_resolved(rtdb: Rtdb) -> None:
    """The reply to a PUT or PATCH shows what a server value has become."""
    rtdb.set("/n/count", 41)
    body = '{"at":{".sv":"timestamp"},"count":{".sv":{"increment":1}}}'
    for method in ("PUT", "PATCH"):
        reply = call(rtdb, method, "/n.json", body).json()
        assert reply == rtdb.get("/n")
        assert isinstance(reply["at"], int)
    assert rtdb.get("/n/count") == 43


@pytest.mark.parametrize("in_header", [True, False])
@pytest.mark.parametrize(
    ("override", "body", "stored"),
    [
        ("GET", None, {"a": 1}),
        ("PUT", '{"b":2}', {"b": 2}),
        ("PATCH", '{"b":2}', {"a": 1, "b": 2}),
        ("patch", '{"b":2}', {"a": 1, "b": 2}),
        ("DELETE", None, None),
    ],
)
def test_post_may_stand_for_another_method(
    rtdb: Rtdb, in_header: bool, override: str, body: str | None, stored: object
) -> None:
    """A POST that names another method, by header or by parameter, is done as that method."""
    rtdb.set("/n", {"a": 1})
    target = "/n.json" if in_header else f"/n.json?x-http-method-override={override}"
    response = call(rtdb, "POST", target, body, {"X-HTTP-Method-Override": override} if in_header else None)
    assert response.status_code == 200
    assert rtdb.get("/n") == stored


def test_only_post_can_stand_for_another_method(rtdb: Rtdb) -> None:
    """The override is without effect on other methods."""
    rtdb.set("/n", 1)
    assert call(rtdb, "GET", "/n.json", None, {"X-HTTP-Method-Override": "DELETE"}).json() == 1
    assert rtdb.get("/n") == 1


def test_the_preflight_allows_what_a_browser_asks_for(rtdb: Rtdb) -> None:
    """OPTIONS answers 200 without a body, with the methods there are and the headers that were asked for."""
    asked = {"Origin": "http://x", "Access-Control-Request-Headers": "if-match,x-firebase-etag"}
    response = call(rtdb, "OPTIONS", "/n.json", None, asked)
    assert (response.status_code, response.content) == (200, b"")
    assert response.headers["access-control-allow-origin"] == "*"
    assert response.headers["access-control-allow-methods"] == "GET, PUT, POST, PATCH, DELETE"
    assert response.headers["access-control-allow-headers"] == "if-match,x-firebase-etag"


def test_every_answer_is_readable_from_any_origin(rtdb: Rtdb) -> None:
    """Answers of every kind allow all origins and expose the ETag."""
    targets = ["/n.json", "/n", "/[.json", "/.settings/rules.json", "/n.json?print=silent", "/n.json?auth=x"]
    for response in [call(rtdb, method, target) for method in ("GET", "PUT", "DELETE") for target in targets]:
        assert response.headers["access-control-allow-origin"] == "*", response.request.url
        assert response.headers["access-control-expose-headers"] == "ETag", response.request.url
        assert response.headers["cache-control"] == "no-cache", response.request.url


def test_an_unknown_method_is_405(rtdb: Rtdb) -> None:
    """A method that REST doesn't have is refused by name."""
    response = call(rtdb, "PROPFIND", "/n.json")
    assert response.status_code == 405
    assert response.json() == {"error": "PROPFIND is not one of GET, PUT, POST, PATCH, DELETE"}


@pytest.mark.parametrize(
    ("target", "place"),
    [
        ("/.json", "/"),
        ("/a.json", "/a"),
        ("/a/.json", "/a"),
        ("//a///b.json", "/a/b"),
        ("/sp%20ace/%C3%A9/%25.json", "/sp ace/é/%"),
        ("/a%2Bb+c.json", "/a+b+c"),
        ("/json/x.json", "/json/x"),
    ],
)
def test_a_url_names_a_place(rtdb: Rtdb, target: str, place: str) -> None:
    """A path is decoded segment by segment, empty segments don't count, and `.json` is cut off."""
    with wire(rtdb.emulator) as connection:
        connection.ask("PUT", f"{target}?ns={rtdb.namespace}", b'{"x":1}')
        assert connection.answer() == (200, b'{"x":1}')
    assert rtdb.get(place) == {"x": 1}
    assert rtdb.count(method="PUT", path=place) == 1


@pytest.mark.parametrize("method", ["GET", "PUT", "POST", "PATCH", "DELETE"])
def test_a_path_without_json_is_404(rtdb: Rtdb, method: str) -> None:
    """Without `.json` the answer is a plain text that says so, and nothing is done."""
    rtdb.set("/n", 1)
    response = call(rtdb, method, "/n", "2")
    assert response.status_code == 404
    assert response.text == "append .json to your request URI to use the REST API."
    assert response.headers["content-type"] == "text/plain; charset=utf-8"
    assert rtdb.get("/n") == 1


def test_the_type_of_the_body_does_not_matter(rtdb: Rtdb) -> None:
    """A body is JSON also when it calls itself a form, as curl does."""
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert call(rtdb, "PUT", "/n.json", '{"a":1}', form).status_code == 200
    assert rtdb.get("/n") == {"a": 1}


def test_a_priority_can_be_put_and_read(rtdb: Rtdb) -> None:
    """`.priority` is a place of its own, that a plain read doesn't show."""
    rtdb.set("/n", {"a": 1})
    assert call(rtdb, "PUT", "/n/.priority.json", "5").json() == 5
    assert call(rtdb, "GET", "/n/.priority.json").json() == 5
    assert call(rtdb, "GET", "/n.json").json() == {"a": 1}
    assert call(rtdb, "GET", "/n.json?format=export").json() == {"a": 1, ".priority": 5}
    assert call(rtdb, "POST", "/n/.priority.json", "5").status_code == 400


def test_a_patch_of_null_removes_as_the_cli_does(rtdb: Rtdb) -> None:
    """`firebase database:remove` is a silent PATCH of null: a leaf and a tree are gone after it, if rules let it."""
    rtdb.set("/n", {"leaf": 1, "tree": {"a": 1}, "kept": 1})
    for name in ("leaf", "tree"):
        target = f"/n/{name}.json?print=silent&writeSizeLimit=tiny&disableTriggers=true"
        assert call(rtdb, "PATCH", target, "null").status_code == 204
    rtdb.set_rules({"rules": {"n": {".write": "newData.exists()"}}})
    assert call(rtdb, "PATCH", "/n/kept.json", "null").status_code == 401
    assert rtdb.get("/n") == {"kept": 1}


def test_a_patch_of_null_has_its_size_limit(rtdb: Rtdb) -> None:
    """What is more than `writeSizeLimit` is not removed at once: the CLI then removes it piece by piece."""
    rtdb.set("/n", {"a": "x" * (4 * 1024 * 1024), "b": 1})
    assert call(rtdb, "PATCH", "/n.json?writeSizeLimit=tiny", "null").status_code == 400
    assert call(rtdb, "PATCH", "/n/b.json?writeSizeLimit=tiny", "null").status_code == 200
    assert call(rtdb, "PATCH", "/n.json", "null").status_code == 200
    assert rtdb.get() is None


NOT_JSON = "Invalid data; couldn't parse JSON object, array, or value."
NO_OBJECT = "Invalid data; couldn't parse JSON object. Are you sending a JSON object with valid key names?"
NO_DATA = "Error: No data supplied."
NO_QUERY_HERE = "Querying related parameters not supported on this request type"
NO_MIX_IF = (
    "Mixing 'shallow', querying parameters or 'print=silent' and if-match or if-none-match requests is not supported"
)


WRITES = ("PUT", "POST", "PATCH", "DELETE")
BAD_BODIES = [
    "{", "a", '{"a":}', "NaN", "[Infinity]", "1e999", '{"a.b":1}', '{"$x":1}', '{"":1}', '{"a/b":1}',
    '{".value":1,"a":2}', '{".value":{"a":1}}', '{".priority":true,"a":1}', '"\\ud800"', "[" * 9999,
    '"é"'.encode("latin-1"),
]  # fmt: skip
NO_PATCHES = ["{", "a", "1", "[1]", "true", '"x"', '{"a.b":1}', '{"":1}', '{"/":1}', '{"a/$b":1}']
UNKNOWN = ['{".sv":"clock"}', '{"a":{".sv":{"increment":"1"}}}', '{".sv":{"decrement":1}}']
KEYED = "orderBy=%22$key%22"


@pytest.mark.parametrize(
    ("method", "query", "header", "body", "text"),
    [
        # A body that is missing, no JSON in UTF-8, or no data for the database.
        *((method, "", "", "", NO_DATA) for method in ("PUT", "POST", "PATCH")),
        *((method, "", "", body, NOT_JSON) for method in ("PUT", "POST") for body in BAD_BODIES),
        *(("PATCH", "", "", body, NO_OBJECT) for body in NO_PATCHES),
        *(("PUT", "", "", body, "unrecognized server value") for body in UNKNOWN),
        # Parameters and headers that don't go with the method, or with each other, whether a tag matches or not.
        *((method, KEYED, "", '{"a":2}', NO_QUERY_HERE) for method in WRITES),
        *(
            (method, "callback=got", "", '{"a":1}', f"callback is for GET requests, not for {method}")
            for method in WRITES
        ),
        *(
            (method, query, f"{header}: {tag}", "1", NO_MIX_IF)
            for query in ("shallow=true", KEYED, "print=silent")
            for method, header in (("GET", "if-none-match"), ("PUT", "if-match"), ("DELETE", "if-match"))
            for tag in ("null_etag", "nonsense")
        ),
        *(
            (method, "", f"if-match: {tag}", '{"a":1}', "not supported")
            for method in ("GET", "POST", "PATCH")
            for tag in ("null_etag", "other")
        ),
        ("GET", "shallow=true", "X-Firebase-ETag: true", None, "Mixing 'shallow' and etag requests is not supported"),
        ("GET", KEYED, "X-Firebase-ETag: true", None, "Mixing querying parameters and ETag requests is not supported"),
    ],
)
def test_a_request_that_can_not_be_served_is_refused(
    rtdb: Rtdb, method: str, query: str, header: str, body: str | bytes | None, text: str
) -> None:
    """The answer is 400 with RTDB's text, and nothing is done."""
    headers = dict([header.split(": ")]) if header else None
    response = call(rtdb, method, f"/n.json?{query}", body, headers)
    assert response.status_code == 400
    assert text in response.json()["error"]
    assert rtdb.get() is None


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


@pytest.mark.parametrize(
    ("query", "text"),
    [
        # The other texts are those of `test_query`.
        ("limitToFirst=1", "orderBy must be defined when other query parameters are defined"),
        ("orderBy=age", "orderBy must be a valid JSON encoded path"),
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


TOO_LARGE = "Data to write exceeds the maximum size that can be modified with a single request."


@pytest.mark.parametrize(
    ("method", "body", "stored"),
    [
        ("GET", None, {"a": 1}),
        ("HEAD", None, {"a": 1}),
        ("PUT", '{"b":2}', {"b": 2}),
        ("PATCH", '{"b":2}', {"a": 1, "b": 2}),
        ("DELETE", None, None),
    ],
)
def test_print_silent_is_204(rtdb: Rtdb, method: str, body: str | None, stored: object) -> None:
    """With `print=silent` a success is 204 without a body, and is done."""
    rtdb.set("/n", {"a": 1})
    response = call(rtdb, method, "/n.json?print=silent", body)
    assert (response.status_code, response.content) == (204, b"")
    assert "content-type" not in response.headers
    assert rtdb.get("/n") == stored


@pytest.mark.parametrize(
    ("method", "body", "status"),
    [("PUT", "{", 400), ("POST", "", 400), ("PATCH", "[]", 400), ("GET", None, 401), ("DELETE", None, 401)],
)
def test_print_silent_does_not_silence_errors(rtdb: Rtdb, method: str, body: str | None, status: int) -> None:
    """An error keeps its status and its text with `print=silent`."""
    if status == 401:
        rtdb.emulator.set_rules(rtdb.namespace, {"rules": {}})
    response = call(rtdb, method, "/n.json?print=silent", body)
    assert response.status_code == status
    assert response.json()["error"]


@pytest.mark.parametrize(
    ("method", "body", "shown"),
    [
        ("GET", None, b'{\n  "a" : 1\n}\n'),
        ("PUT", '{"a":[1,{"b":2}]}', b'{\n  "a" : [\n    1,\n    {\n      "b" : 2\n    }\n  ]\n}\n'),
        ("PATCH", '{"b":"x"}', b'{\n  "b" : "x"\n}\n'),
        ("DELETE", None, b"null\n"),
    ],
)
def test_print_pretty_works_for_every_method(rtdb: Rtdb, method: str, body: str | None, shown: bytes) -> None:
    """Every method's answer is indented with `print=pretty`."""
    rtdb.set("/n", {"a": 1})
    assert call(rtdb, method, "/n.json?print=pretty", body).content == shown


def test_print_pretty_works_for_a_failed_precondition(rtdb: Rtdb) -> None:
    """The current value that comes with a 412 is indented with `print=pretty`."""
    rtdb.set("/n", {"a": 1})
    response = call(rtdb, "PUT", "/n.json?print=pretty", "2", {"if-match": "null_etag"})
    assert (response.status_code, response.content) == (412, b'{\n  "a" : 1\n}\n')


@pytest.mark.parametrize(
    ("value", "query", "shown"),
    [
        ({"a": {"b": 1}, "c": 2}, "shallow=true", {"a": True, "c": True}),
        ([1, 2], "shallow=true", {"0": True, "1": True}),
        ("leaf", "shallow=true", "leaf"),
        (False, "shallow=true", False),
        (None, "shallow=true", None),
        ({"a": {"b": 1}}, "shallow=false", {"a": {"b": 1}}),
        ({"c": 1, "a": 1, "b": 1, "10": 1, "9": 1}, "shallow=true&limitToFirst=3", {"9": True, "10": True, "a": True}),
        ({"c": 1, "a": 1, "b": 1}, "shallow=true&limitToFirst=9&startAfter=a&timeout=60000ms", {"b": True, "c": True}),
        ({"c": 1, "a": 1, "b": 1}, 'shallow=true&startAfter="b"', {"c": True}),
        (None, "shallow=true&limitToFirst=1", None),
    ],
)
def test_shallow_shows_keys_alone(rtdb: Rtdb, value: object, query: str, shown: object) -> None:
    """`shallow=true` shows true for each child, the leaf itself, or null; the CLI's window of keys goes with it."""
    rtdb.set("/n", value)
    response = call(rtdb, "GET", f"/n.json?{query}")
    assert response.status_code == 200
    assert response.json() == shown
    if isinstance(shown, dict):
        assert list(response.json()) == list(shown)


def test_an_export_has_priorities_and_can_be_put_back(rtdb: Rtdb) -> None:
    """`format=export` shows priorities and no arrays, and a PUT of it restores the same tree."""
    exported = {"a": {".value": 1, ".priority": "x"}, "b": {"0": True, "1": False, ".priority": 2}}
    rtdb.set("/n", exported)
    assert call(rtdb, "GET", "/n.json").json() == {"a": 1, "b": [True, False]}
    assert call(rtdb, "GET", "/n.json?format=export").json() == exported
    assert call(rtdb, "PUT", "/m.json?writeSizeLimit=unlimited&disableTriggers=true", json.dumps(exported)).ok
    etags = [call(rtdb, "GET", f"/{name}.json", None, {"X-Firebase-ETag": "true"}).headers["etag"] for name in "nm"]
    assert etags[0] == etags[1]


@pytest.mark.parametrize(
    ("shape", "shown"),
    [("", {"0": [1, 2], "1": "b"}), ("&format=export", {"0": {"0": 1, "1": 2, ".priority": 5}, "1": "b"})],
)
def test_a_query_can_be_exported(rtdb: Rtdb, shape: str, shown: dict[str, object]) -> None:
    """What a query chooses is exported as a whole node is: with priorities, and without arrays at any depth."""
    rtdb.set("/n", {"0": {"0": 1, "1": 2, ".priority": 5}, "1": "b"})
    found = call(rtdb, "GET", f'/n.json?orderBy="$key"&limitToFirst=2{shape}').json()
    assert found == (list(shown.values()) if not shape else shown)


def test_a_download_is_an_attachment(rtdb: Rtdb) -> None:
    """`download=name` asks the browser to save the answer under that name."""
    response = call(rtdb, "GET", "/n.json?download=my%20backup%0A.json")
    assert response.status_code == 200
    assert response.headers["content-disposition"] == "attachment; filename=my%20backup%0A.json"
    assert "content-disposition" not in call(rtdb, "GET", "/n.json").headers


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("", b'/**/app.got({"a":"x\\u2028"});'),
        ("&print=pretty", b'/**/app.got({\n  "a" : "x\\u2028"\n}\n);'),
        ("&shallow=true", b'/**/app.got({"a":true});'),
        ('&orderBy="$key"', b'/**/app.got({"a":"x\\u2028"});'),
    ],
)
def test_a_callback_is_called_with_the_answer(rtdb: Rtdb, query: str, shown: bytes) -> None:
    """`callback=name` makes a script of a GET's answer, which calls that function with it."""
    rtdb.set("/n", {"a": "x\u2028"})
    response = call(rtdb, "GET", f"/n.json?callback=app.got{query}")
    assert (response.status_code, response.content) == (200, shown)
    assert response.headers["content-type"] == "application/javascript; charset=utf-8"
    assert call(rtdb, "GET", "/n.json?callback=app.got&print=silent").content == b""


@pytest.mark.parametrize("timeout", ["1ms", "3s", "15min", "900s", "900000ms"])
def test_a_timeout_may_be_given(rtdb: Rtdb, timeout: str) -> None:
    """A timeout in milliseconds, seconds or minutes up to 15 minutes is accepted."""
    assert call(rtdb, "GET", f"/n.json?timeout={timeout}").status_code == 200


BAD_NAMES = ["alert(1)", "a b", "1a", "a.", ".a", "a..b", "é", "a\n"]
BAD_TIMEOUTS = ["", "3", "ms", "0s", "-1s", "1.5s", "3h", "16min", "901s", "900001ms", "9" * 5000 + "s", "\uff13s"]


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        *(("callback", value, "must be the name") for value in BAD_NAMES),
        *(("timeout", value, "must be") for value in BAD_TIMEOUTS),
        *((name, value, "") for name, value in (("print", "loud"), ("writeSizeLimit", "huge"), ("format", "xml"))),
    ],
)
def test_a_bad_value_is_refused_by_its_name(rtdb: Rtdb, name: str, value: str, said: str) -> None:
    """A callback that could be any program, a timeout that is none, or too long, and what an option doesn't have: 400,
    with the parameter's name.
    """
    response = call(rtdb, "GET", f"/n.json?{name}={quote(value)}")
    assert response.status_code == 400
    assert response.json()["error"].startswith(f"{name} {said}".strip())


def test_unknown_parameters_do_not_matter(rtdb: Rtdb) -> None:
    """Parameters that the emulator doesn't know, or doesn't need, change nothing."""
    rtdb.set("/n", 1)
    assert call(rtdb, "GET", "/n.json?ac=token&disableTriggers=true&cache=5").json() == 1


@pytest.mark.parametrize("method", ["PUT", "POST", "PATCH"])
def test_a_write_may_not_exceed_its_size_limit(rtdb: Rtdb, method: str) -> None:
    """A body over `writeSizeLimit` is refused, and the same one passes under a larger limit."""
    body = json.dumps({"a": "x" * (4 * 1024 * 1024)})
    refused = call(rtdb, method, "/n.json?writeSizeLimit=tiny", body)
    assert (refused.status_code, refused.json()) == (400, {"error": TOO_LARGE})
    assert rtdb.get() is None
    assert call(rtdb, method, "/n.json?writeSizeLimit=small", body).status_code == 200


def test_a_delete_may_not_exceed_its_size_limit(rtdb: Rtdb) -> None:
    """A DELETE of a tree that is larger than `writeSizeLimit` is refused."""
    rtdb.set("/n", {"a": "x" * (4 * 1024 * 1024), "b": 1})
    refused = call(rtdb, "DELETE", "/n.json?writeSizeLimit=tiny")
    assert (refused.status_code, refused.json()) == (400, {"error": TOO_LARGE})
    assert call(rtdb, "DELETE", "/n/b.json?writeSizeLimit=tiny").status_code == 200
    assert rtdb.get("/n/a") is not None
    assert call(rtdb, "DELETE", "/n.json").status_code == 200
    assert rtdb.get("/n") is None
