"""Query parameters that change how an answer looks, or what a request may cost."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest
from tests.emulator.test_rest_wire import call

from rtdb_emulator.pytest_plugin import Rtdb

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


def test_print_silent_works_for_post(rtdb: Rtdb) -> None:
    """A silent POST is 204 and stores its child."""
    assert call(rtdb, "POST", "/n.json?print=silent", "7").status_code == 204
    children = rtdb.get("/n")
    assert isinstance(children, dict)
    assert list(children.values()) == [7]


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
    [
        ("", {"0": [1, 2], "1": "b"}),
        ("&format=export", {"0": {"0": 1, "1": 2, ".priority": 5}, "1": "b"}),
    ],
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


@pytest.mark.parametrize("name", ["alert(1)", "a b", "1a", "a.", ".a", "a..b", "é", "a\n"])
def test_a_callback_is_a_name(rtdb: Rtdb, name: str) -> None:
    """A callback that is no name of a function is 400: it could be any program."""
    response = call(rtdb, "GET", f"/n.json?callback={quote(name)}")
    assert response.status_code == 400
    assert response.json()["error"].startswith("callback must be the name")


@pytest.mark.parametrize("method", ["PUT", "POST", "PATCH", "DELETE"])
def test_a_callback_is_for_reading(rtdb: Rtdb, method: str) -> None:
    """A write with a callback is 400, and nothing is done."""
    response = call(rtdb, method, "/n.json?callback=got", '{"a":1}')
    assert (response.status_code, response.json()) == (
        400,
        {"error": f"callback is for GET requests, not for {method}"},
    )
    assert rtdb.get() is None


@pytest.mark.parametrize("timeout", ["1ms", "3s", "15min", "900s", "900000ms"])
def test_a_timeout_may_be_given(rtdb: Rtdb, timeout: str) -> None:
    """A timeout in milliseconds, seconds or minutes up to 15 minutes is accepted."""
    assert call(rtdb, "GET", f"/n.json?timeout={timeout}").status_code == 200


@pytest.mark.parametrize(
    "timeout", ["", "3", "ms", "0s", "-1s", "1.5s", "3h", "16min", "901s", "900001ms", "9" * 5000 + "s", "\uff13s"]
)
def test_a_bad_timeout_is_refused(rtdb: Rtdb, timeout: str) -> None:
    """A timeout that is none, or too long, is 400."""
    response = call(rtdb, "GET", f"/n.json?timeout={timeout}")
    assert response.status_code == 400
    assert response.json()["error"].startswith("timeout must be")


@pytest.mark.parametrize("query", ["print=loud", "writeSizeLimit=huge", "format=xml"])
def test_a_bad_option_is_refused_by_name(rtdb: Rtdb, query: str) -> None:
    """A value that an option doesn't have is 400, with the option's name."""
    response = call(rtdb, "GET", f"/n.json?{query}")
    assert response.status_code == 400
    assert response.json()["error"].startswith(query.partition("=")[0])


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
