"""What listens over a socket are told of writes, and when the rules end them."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode

import pytest
import requests

from rtdb_emulator import Emulator
from rtdb_emulator.pytest_plugin import Rtdb
from rtdb_emulator_tests.helpers.sockets import PATIENCE, SocketClient, socket_client, until


def rest(rtdb: Rtdb, method: str, path: str, body: object) -> None:
    url = f"{rtdb.emulator.url}{path}.json?ns={rtdb.namespace}"
    data = None if method == "DELETE" else json.dumps(body)
    answer = requests.request(method, url, data=data, headers={"authorization": "Bearer owner"}, timeout=PATIENCE)
    assert answer.status_code == 200


WRITES = [
    # What is written where, and what a listen at /l, which is {"a": 1, "b": {"c": 2}}, is told.
    ("PUT", "/l/b/c", 5, ["d", "l/b/c", 5]),
    ("PUT", "/l/b/c", 2, None),
    ("PUT", "/other", 5, None),
    ("PUT", "/l", {"a": 1, "b": {"c": 2}}, None),
    ("PUT", "/l", "all", ["d", "l", "all"]),
    ("PUT", "/", {"l": "all"}, ["d", "l", "all"]),
    ("DELETE", "/l/a", None, ["d", "l/a", None]),
    ("DELETE", "/", None, ["d", "l", None]),
    ("PUT", "/l/a/.priority", 3, ["d", "l/a", {".value": 1, ".priority": 3}]),
    ("PUT", "/l/.priority", 3, ["d", "l", {"a": 1, "b": {"c": 2}, ".priority": 3}]),
    ("PATCH", "/l", {"a": 2, "b/c": None}, ["m", "l", {"a": 2, "b/c": None}]),
    ("PATCH", "/l", {"a": 1, "b/c": 9}, ["m", "l", {"a": 1, "b/c": 9}]),
    ("PATCH", "/l/b", {"c": 3, "d": 4}, ["m", "l/b", {"c": 3, "d": 4}]),
    ("PATCH", "/l", {"a": 1}, None),
    ("PATCH", "/", {"l/a": 2, "x": 1}, ["m", "l", {"a": 2}]),
    ("PATCH", "/", {"l": "all", "x": 1}, ["d", "l", "all"]),
    ("PATCH", "/l", {".priority": 1, "a": 7}, ["d", "l", {"a": 7, "b": {"c": 2}, ".priority": 1}]),
    ("PATCH", "/l", {"b/.priority": 1, "b/c": 7}, ["m", "l", {"b": {"c": 7, ".priority": 1}}]),
    ("PATCH", "/l", {"a": None, "b": None, "c": 1}, ["m", "l", {"a": None, "b": None, "c": 1}]),
    ("PUT", "/l/t", {".sv": {"increment": 2}}, ["d", "l/t", 2]),
]


@pytest.mark.parametrize(("method", "path", "body", "told"), WRITES)
def test_a_write_is_one_message(
    rtdb: Rtdb, method: str, path: str, body: object, told: list[object] | None, client: SocketClient
) -> None:
    """A listen is told the least, in one message, and nothing where nothing has changed."""
    rtdb.set("/l", {"a": 1, "b": {"c": 2}})
    assert client.ask("q", p="/l", h="") == ("ok", {})
    assert client.pushes.pop() == {"a": "d", "b": {"p": "l", "d": {"a": 1, "b": {"c": 2}}}}
    rest(rtdb, method, path, body)
    expected = [] if told is None else [{"a": told[0], "b": {"p": told[1], "d": told[2]}}]
    assert client.pushed() == expected


def test_a_priority_survives_a_merge_that_replaces_all(rtdb: Rtdb, client: SocketClient) -> None:
    """Where the last child goes as another comes, a client would lose the priority: it is told the whole node."""
    rtdb.set("/l", {"a": 1, ".priority": 5})
    client.ask("q", p="/l", h="")
    client.listen("/l", q={"i": ".key", "l": 1, "vf": "l"}, t=1)
    client.ask("m", p="/l", d={"b": 2, "a": None})
    assert [push["a"] for push in client.pushes] == ["d", "d"]
    assert [push["b"]["d"] for push in client.pushes] == [{"b": 2, ".priority": 5}] * 2


def test_an_equal_hash_needs_no_push(rtdb: Rtdb, client: SocketClient) -> None:
    """A client that has the value already is told nothing of it; for a query, the hash is that of its window."""
    rtdb.set("/q", {"k": 7, "l": 2})
    client.ask("q", p="/q", h="")
    client.ask("q", p="/q", q={"i": ".key", "l": 1, "vf": "l"}, t=1, h="")
    whole, window = client.pushes
    assert (whole["b"]["d"], window["b"]["d"]) == ({"k": 7, "l": 2}, {"k": 7})
    client.pushes.clear()
    client.ask("q", p="/q", h=_hash(rtdb, "/q"))
    rtdb.set("/copy", {"k": 7})
    client.ask("q", p="/q", q={"i": ".key", "l": 1, "vf": "l"}, t=1, h=_hash(rtdb, "/copy"))
    assert client.pushes == []


def test_one_place_may_have_several_listens(rtdb: Rtdb, client: SocketClient) -> None:
    """A plain listen and two queries of one place hear of one write each in its own way."""
    rtdb.set("/q", {"a": 1, "b": 2})
    first, last = {"i": ".key", "l": 1, "vf": "l"}, {"i": ".key", "l": 1, "vf": "r"}
    client.ask("q", p="/q", h="")
    client.ask("q", p="/q", q=first, t=1, h="")
    client.listen("/q", q=last, t=2)
    rtdb.set("/q/b", 3)
    assert sorted(push["b"].get("t", 0) for push in client.pushed()) == [0, 2]
    client.ask("n", p="/q", q=last, t=2)
    client.ask("n", p="/q")
    rtdb.set("/q", {"a": 5, "b": 5})
    assert [push["b"] for push in client.pushed()] == [{"p": "q/a", "d": 5, "t": 1}]
    client.ask("n", p="/q", q=dict(reversed(first.items())))
    assert rtdb.emulator.listeners(rtdb.namespace) == 0


def test_a_second_listen_replaces_the_first(rtdb: Rtdb, client: SocketClient) -> None:
    """The same place and query is one listen, whatever tag it comes with, and a tag is one listen's."""
    query = {"i": ".key", "l": 1, "vf": "l"}
    for tag in (1, 2):
        client.ask("q", p="/q", q=query, t=tag, h="")
    client.ask("q", p="/other", q=query, t=2, h="")
    client.ask("q", p="/other", h="")
    client.ask("q", p="/other", h="")
    assert rtdb.emulator.listeners(rtdb.namespace) == 2
    client.pushes.clear()
    rtdb.set("/q/a", 1)
    assert client.pushed() == []


def test_many_clients_are_sent_the_same(rtdb: Rtdb) -> None:
    """Clients with the same query get one change each with its own tag."""
    query = {"i": ".value", "l": 1, "vf": "r"}
    rtdb.set_rules({"rules": {".read": True, "q": {".indexOn": ".value"}}})
    with socket_client(rtdb.emulator, rtdb.namespace) as one, socket_client(rtdb.emulator, rtdb.namespace) as other:
        one.ask("q", p="/q", q=query, t=4, h="")
        other.ask("q", p="/q", q=query, t=9, h="")
        one.pushes.clear()
        other.pushes.clear()
        rtdb.set("/q", {"a": 1, "b": 2})
        assert one.pushed() == [{"a": "d", "b": {"p": "q", "d": {"b": 2}, "t": 4}}]
        assert other.pushed() == [{"a": "d", "b": {"p": "q", "d": {"b": 2}, "t": 9}}]


def test_without_an_index_a_query_gets_everything_once(rtdb: Rtdb, client: SocketClient) -> None:
    """The client is warned, and filters all children by itself; then it gets whole children as they move its window."""
    rtdb.set("/q", {"a": {"v": 2, "w": 1}, "b": {"v": 1}})
    asked = {"i": "v", "l": 1, "vf": "l"}
    assert client.ask("q", p="/q", q=asked, t=1, h="") == ("ok", {"w": ["no_index"]})
    assert client.pushes.pop()["b"]["d"] == {"a": {"v": 2, "w": 1}, "b": {"v": 1}}
    rtdb.set("/q/a/w", 2)
    assert client.pushed() == []
    rtdb.set("/q/a/v", 0)
    assert client.pushed() == [{"a": "d", "b": {"p": "q", "d": {"a": {"v": 0, "w": 2}}, "t": 1}}]
    assert client.ask("q", p="/q", q=asked, t=2, h=_hash(rtdb, "/copy")) == ("ok", {"w": ["no_index"]})
    assert client.pushes.pop()["b"]["d"] == {"a": {"v": 0, "w": 2}, "b": {"v": 1}}
    rtdb.set("/copy", {"a": {"v": 0, "w": 2}})
    assert client.ask("q", p="/q", q=asked, t=3, h=_hash(rtdb, "/copy")) == ("ok", {"w": ["no_index"]})
    assert client.pushes == []


def test_signing_in_and_out_ends_listens(rtdb: Rtdb, client: SocketClient) -> None:
    """After the answer, each listen that the new user may not have is ended, by the very query that the client sent."""
    rtdb.set_rules({"rules": {"u": {"$u": {".read": "auth.uid == $u"}}}})
    query = {"vf": "l", "l": 1, "i": ".key"}
    assert client.ask("q", p="/u/ann", h="")[0] == "permission_denied"
    assert client.ask("auth", cred=token("ann"))[0] == "ok"
    client.ask("q", p="/u/ann", h="")
    client.listen("/u/ann", q=query, t=3)
    client.ask("auth", cred=token("ann"))
    assert client.pushed() == []
    client.ask("auth", cred=token("bob"))
    assert client.pushed() == [{"a": "c", "b": {"p": "u/ann"}}, {"a": "c", "b": {"p": "u/ann", "q": [query]}}]
    client.ask("gauth", cred="owner")
    client.ask("q", p="/u/ann", h="")
    assert client.ask("unauth") == ("ok", "")
    assert [push["a"] for push in client.pushed()] == ["d", "c"]
    assert rtdb.emulator.listeners(rtdb.namespace) == 0


def test_other_rules_end_listens(rtdb: Rtdb) -> None:
    """New rules are asked about every listen; an admin's stays."""
    with socket_client(rtdb.emulator, rtdb.namespace) as client, socket_client(rtdb.emulator, rtdb.namespace) as admin:
        admin.ask("gauth", cred="owner")
        for listener in (client, admin):
            listener.listen("/a")
        rtdb.set_rules({"rules": {"b": {".read": True}}})
        assert client.pushed() == [{"a": "c", "b": {"p": "a"}}]
        rtdb.set("/a", 1)
        assert client.pushed() == []
        assert admin.pushed() == [{"a": "d", "b": {"p": "a", "d": 1}}]


def test_a_write_that_revokes_a_listen_is_not_told_to_it(rtdb: Rtdb, client: SocketClient) -> None:
    """A rule that reads data is asked again after each write, before the write is told."""
    rtdb.set("/", {"doc": {"text": "old"}, "members": {"ann": True}})
    rtdb.set_rules({"rules": {"doc": {".read": "root.child('members').child(auth.uid).val() == true"}}})
    client.ask("auth", cred=token("ann"))
    client.listen("/doc")
    rtdb.set("/doc/text", "new")
    rest(rtdb, "PATCH", "/", {"doc/text": "secret", "members/ann": None})
    assert client.pushed() == [{"a": "d", "b": {"p": "doc/text", "d": "new"}}, {"a": "c", "b": {"p": "doc"}}]


def test_new_rules_and_users_are_asked_again_after_writes(rtdb: Rtdb) -> None:
    """A listen that no write could end when it began is ended by one, if its rules or its user have changed since."""
    rtdb.set("/", {"doc": 1, "open": True})
    with (
        socket_client(rtdb.emulator, rtdb.namespace) as client,
        socket_client(rtdb.emulator, rtdb.namespace) as former_admin,
    ):
        former_admin.ask("gauth", cred="owner")
        for listener in (client, former_admin):
            listener.listen("/doc")
        rtdb.set_rules({"rules": {"doc": {".read": "root.child('open').val() == true"}}})
        former_admin.ask("unauth")
        rtdb.set("/open", False)
        rtdb.set("/doc", 2)
        for listener in (client, former_admin):
            assert listener.pushed() == [{"a": "c", "b": {"p": "doc"}}]


@pytest.mark.parametrize(
    ("before", "patch", "told"),
    [
        (None, {"b": 1, "c": 2}, {"b": 1, "c": 2}),
        ({"z": 0}, {"b": 1, "c": 2}, {"b": 1, "c": 2}),
        ({"b": 1, "c": 2}, {"b": None, "c": None}, None),
        ({"b": 1, "c": 2, "z": 0}, {"b": None, "c": None, "z": 5}, None),
    ],
)
def test_a_window_that_was_or_becomes_empty_is_put_whole(
    rtdb: Rtdb, before: object, patch: dict[str, object], told: object, client: SocketClient
) -> None:
    """One `d` at the query's place, and no merge; what is outside the query's range doesn't count."""
    rtdb.set("/q", before)
    client.listen("/q", q={"i": ".key", "ep": "y", "l": 3, "vf": "l"}, t=7)
    assert client.ask("m", p="/q", d=patch) == ("ok", "")
    [push] = client.pushed()
    assert (push["a"], push["b"]) == ("d", {"p": "q", "d": told, "t": 7})


def test_a_tag_alone_ends_its_listen(rtdb: Rtdb, client: SocketClient) -> None:
    """Also where the query is spelled in other words than when the listen began."""
    client.ask("q", p="/q", q={"i": ".key", "l": 1, "vf": "l"}, t=1, h="")
    client.listen("/q", q={"i": ".key", "l": 2, "vf": "l"}, t=2)
    client.ask("n", p="/q", q={"l": 1, "vf": "l", "i": ".key", "sp": "[MIN_NAME]"}, t=1)
    rtdb.set("/q/a", 1)
    assert [push["b"]["t"] for push in client.pushed()] == [2]


def test_who_asks_is_told_why(rtdb: Rtdb) -> None:
    """With `explain`, a refused operation and an ended listen bring the rule's reasons to the client's console."""
    with Emulator(explain=True) as emulator, socket_client(emulator, "demo") as client:
        client.listen("/a")
        emulator.set_rules("demo", {"rules": {"a": {".write": "newData.isNumber()"}}})
        told = client.pushed()
        assert [push["a"] for push in told] == ["sd", "c"]
        assert client.ask("p", p="/a", d="x")[0] == "permission_denied"
        assert "newData.isNumber()" in client.pushes.pop()["b"]["msg"]


@pytest.mark.parametrize("cred", ["", "no.token", "a.b.c", None, 5, {"a": 1}])
def test_a_token_that_is_none_is_invalid(rtdb: Rtdb, cred: object, client: SocketClient) -> None:
    """The client then fetches another one; it is still signed out."""
    status, text = client.ask("auth", cred=cred)
    assert status == "invalid_token"
    assert isinstance(text, str)


def test_an_override_needs_an_admin(rtdb: Rtdb, client: SocketClient) -> None:
    """A user may not become another one; an admin may become a user, or nobody, and then rules hold."""
    rtdb.set_rules({"rules": {".read": "auth.uid == 'ann'"}})
    assert client.ask("auth", cred=token("bob"), authvar={"uid": "ann"})[0] == "permission_denied"
    assert client.ask("g", p="/", q={})[0] == "permission_denied"
    assert client.ask("auth", cred="owner", authvar={"uid": "ann"}) == ("ok", {"auth": {"uid": "ann"}, "expires": None})
    assert client.ask("g", p="/", q={}) == ("ok", None)
    client.ask("gauth", cred="owner", noauth=True)
    assert client.ask("g", p="/", q={})[0] == "permission_denied"


def token(uid: str) -> str:
    """An unsigned ID token."""
    head, claims = (urlsafe_b64encode(json.dumps(part).encode()).decode() for part in ({"alg": "none"}, {"sub": uid}))
    return f"{head}.{claims}."


def _hash(rtdb: Rtdb, path: str) -> str:
    url = f"{rtdb.emulator.url}{path}.json?ns={rtdb.namespace}"
    return requests.get(url, headers={"X-Firebase-ETag": "true"}, timeout=PATIENCE).headers["etag"]


def test_a_listen_ends_with_its_client(rtdb: Rtdb) -> None:
    """Nothing is left of a client that is gone."""
    with socket_client(rtdb.emulator, rtdb.namespace) as client:
        client.ask("q", p="/a", h="")
        client.ask("q", p="/a/b", q={"l": 1, "vf": "l"}, t=1, h="")
        assert rtdb.emulator.listeners(rtdb.namespace) == 2
    assert until(lambda: rtdb.emulator.listeners(rtdb.namespace) == 0)
