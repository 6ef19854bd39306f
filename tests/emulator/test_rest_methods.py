"""The methods of REST, and the ways to name a method and a place."""

from __future__ import annotations

import json

import pytest
from tests.emulator.test_rest_wire import call, wire

from rtdb_emulator.pytest_plugin import Rtdb


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
    """POST answers with the new child's name, and names sort by time."""
    names = [call(rtdb, "POST", "/queue.json", json.dumps(n)).json()["name"] for n in range(1, 30)]
    assert names == sorted(names)
    assert {len(name) for name in names} == {20}
    assert rtdb.get("/queue") == dict(zip(names, range(1, 30), strict=True))


@pytest.mark.parametrize("body", ["null", "{}"])
def test_a_post_of_nothing_answers_with_a_name(rtdb: Rtdb, body: str) -> None:
    """POST of null makes up a name and stores nothing."""
    response = call(rtdb, "POST", "/queue.json", body)
    assert response.status_code == 200
    assert len(response.json()["name"]) == 20
    assert rtdb.get() is None


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
