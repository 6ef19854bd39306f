"""Large bodies: read and written in steps they are what they are at once, and others are served meanwhile."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtdb_emulator import large, tree
from rtdb_emulator.errors import BadRequest
from rtdb_emulator.http import server
from rtdb_emulator.jsondata import NeedsServer, as_array, decode, decode_patch, encode, parse, render
from rtdb_emulator.large import WIRE, Form, load_json, reading, reading_patch, writing, writing_keys
from rtdb_emulator.pytest_plugin import Rtdb
from rtdb_emulator.steps import in_slices
from rtdb_emulator.tree import Node, hashing
from rtdb_emulator.ws.messages import dumps
from rtdb_emulator_tests.helpers.wire import OWNER, call

T = TypeVar("T")

# A server value is left to the write: `test_what_only_the_write_can_say_is_left_to_it`.
WORDS = st.text(max_size=3).filter(lambda key: key != ".sv")
KEYS = st.one_of(WORDS, st.sampled_from(["a", "é😀", "0", "1", "2", ".priority", "007"]))
DATA = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(allow_nan=False), st.text(max_size=9)),
    lambda inner: st.one_of(st.lists(inner, max_size=5), st.dictionaries(KEYS, inner, max_size=5)),
    max_leaves=20,
)
# Whitespace wherever JSON allows it.
FORMS = st.sampled_from([None, 1, "\t"])


@pytest.fixture(autouse=True, scope="module")
def _small_pieces() -> Iterator[None]:
    """What has a few characters is large here, and comes by pieces of a few bytes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(large, "LARGE", 4)
        # Their own sizes are megabytes.
        patch.setattr(large, "CHUNK", 3)
        patch.setattr(large, "WEIGHT", 2)
        patch.setattr(large, "MOVED", 2)
        yield


def end_of(steps: Generator[None, None, T]) -> T:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            value: T = end.value
            return value


def outcome(read: object) -> object:
    """What a function gives, or the text of its refusal."""
    assert callable(read)
    try:
        return read()
    except BadRequest as refusal:
        return refusal.text


@given(DATA, FORMS, st.booleans())
def test_a_body_is_read_as_at_once(data: object, indent: int | str | None, ascii_only: bool) -> None:
    """In steps a body gives the node, or the refusal, that it gives at once."""
    body = json.dumps(data, indent=indent, ensure_ascii=ascii_only).encode()
    assert outcome(lambda: end_of(reading(body, 3))) == outcome(lambda: parse(decode(body), now=0, depth=3))


@given(st.one_of(st.binary(max_size=12), st.text('{}[]",:0 1eE.-+\\ntruefals', max_size=12).map(str.encode)))
def test_what_is_no_json_is_refused_as_at_once(body: bytes) -> None:
    """In steps any bytes give what they give at once."""
    if body:
        assert outcome(lambda: end_of(reading(body, 0))) == outcome(lambda: parse(decode(body), now=0))


@pytest.mark.parametrize(
    "body",
    [
        *(b'{"a":1}x', b'{"a":1,}', b'{"a" 1}', b"{1:2}", b'{"a":1', b'["a","b"', b'"aaaa', b'{"aaaa":tru}', b"[,]"),
        *(b'{"a":1,"a":null,"b":2}', b'{"a":{"b":1},"a":2}', b'{"a":"\\u00e9\\ud83d\\ude00"}', b"\xef\xbb\xbf[1,2,3]"),
        *(b'{"a":[1,2,{"c$":1}]}', b'{"a":' * 40 + b"1" + b"}" * 40, b"[12345678,1e5,-0.5,123]", b'{"a":1e999}'),
        *(b'{".priority":{"a":"b"},"a":1}', b'{"a":"\xff\xff"}', b'{"aa":"\\ud800"}', b" [ ] ", b' { "a" : [ ] } '),
        *(
            b"[" * 40 + b"1" + b"]" * 40,
            b'{"a":NaN}',
            b'["' + b"x" * 50 + b'"]',
            b'{"' + b"k" * 800 + b'":1}',
            b'{"a/b":[1]}',
        ),
    ],
)
def test_an_odd_body_is_read_as_at_once(body: bytes) -> None:
    """Errors at the end of a piece, keys that come twice, and all that is refused: as at once."""
    assert outcome(lambda: end_of(reading(body, 0))) == outcome(lambda: parse(decode(body), now=0))


@pytest.mark.parametrize(
    "body",
    [
        *(
            b'{"a":1,"b/c":{"d":[1,2,3]},"e":null}',
            b'{"a/.priority":"first","b":2,".priority":3}',
            b"[1,2,3]",
            b'"abcdef"',
        ),
        *(b'{"a":', b'{"a":{"b":"c"}}}', b'{"aaa":nul}', b'{"a/$b":12345,"a.b":{"c":"d"}}'),
    ],
)
def test_a_patch_is_read_as_at_once(body: bytes) -> None:
    """The values of a PATCH in steps are those at once; its paths are checked by who writes them."""
    at_once = outcome(lambda: decode_patch(body))
    stepwise = outcome(lambda: end_of(reading_patch(body, 0)))
    if isinstance(at_once, dict) and isinstance(stepwise, dict):
        plain = {key: value for key, value in at_once.items() if key.endswith(".priority")}
        assert {key: stepwise.pop(key) for key in plain} == plain
        at_once = {key: parse(value, now=0) for key, value in at_once.items() if key not in plain}
        stepwise = {key: parse(value, now=0) for key, value in stepwise.items()}
    assert stepwise == at_once


@pytest.mark.parametrize("body", [b'{"a":{".sv":"timestamp"},"b":12345}', b'{".value":"abcdef",".priority":1}'])
def test_what_only_the_write_can_say_is_left_to_it(body: bytes) -> None:
    """A server value, and a value with a priority around it, are not read in steps."""
    with pytest.raises(NeedsServer):
        end_of(reading(body, 0))
    assert load_json(body) == decode(body)


@given(DATA)
def test_a_node_is_written_as_at_once(data: object) -> None:
    """In pieces a node's JSON is what it is at once."""
    try:
        node = parse(data, now=0)
    except BadRequest:
        return
    assert b"".join(writing(node)) == encode(render(node, priorities=True))
    for priorities, arrays, pretty in product((False, True), repeat=3):
        form = Form(priorities, arrays, pretty)
        shown = render(node, priorities=priorities, arrays=arrays)
        assert b"".join(writing(node, form)) == encode(shown, pretty=pretty)
    assert b"".join(writing(node, WIRE)).decode() == dumps(render(node, priorities=True, arrays=False))
    keys = node.ordered_keys()[::2]
    some = {key: render(node.child(key)) for key in keys}
    for pretty in (False, True):
        assert b"".join(writing(node, Form(pretty=pretty), keys)) == encode(as_array(some), pretty=pretty)
        assert b"".join(writing_keys(keys, Form(pretty=pretty))) == encode(dict.fromkeys(keys, True), pretty=pretty)
    if node.members:
        for _ in hashing(node):
            pass
        assert node.hash == parse(data, now=0).hash


def test_many_members_are_read_and_written() -> None:
    """Hundreds of members, nested ones among them, come and go as they are, in the order of their keys."""
    data = {f"k{number}": {"a": {"b": [number, "x"]}} if number % 7 == 0 else number for number in range(700)}
    node = end_of(reading(json.dumps(data).encode(), 0))
    assert node == parse(data, now=0)
    assert node.ordered_keys() == sorted(data)
    assert json.loads(b"".join(writing(node))) == data
    assert load_json(json.dumps(data).encode()) == node


def test_long_work_lets_others_in() -> None:
    """Work in slices gives the loop to others each time that its slice is over, and returns its result."""
    turns: list[str] = []
    ticks = iter(range(1000))

    def work() -> Generator[None, None, str]:
        for _ in range(3):
            turns.append("work")
            yield
        return "done"

    async def other() -> None:
        for _ in range(3):
            turns.append("other")
            await asyncio.sleep(0)

    async def both() -> str:
        beside = asyncio.ensure_future(other())
        result = await in_slices(work(), clock=lambda: next(ticks))
        await beside
        return result

    assert asyncio.run(both()) == "done"
    assert turns == ["work", "other"] * 3


@pytest.mark.parametrize("method", ["PUT", "POST", "PATCH"])
def test_an_import_holds_nobody_up(rtdb: Rtdb, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    """While a large body is being read, another client's request is served; what it sees is from before the write."""
    begun, served = threading.Event(), threading.Event()

    def until_served(original: object) -> object:
        def steps(*given: object) -> Generator[None, None, object]:
            begun.set()
            while not served.wait(0.001):  # leaves the interpreter to the threads of this test
                yield
            assert callable(original)
            return (yield from original(*given))

        return steps

    monkeypatch.setattr(server, "LARGE", 4)
    for name in ("reading", "reading_patch"):
        monkeypatch.setattr(server, name, until_served(getattr(server, name)))
    with ThreadPoolExecutor(1) as pool:
        importing = pool.submit(call, rtdb, method, "/n.json", '{"a":[1,2],"b":{".priority":1,"c":"d"}}', OWNER)
        try:
            assert begun.wait(10)
            assert call(rtdb, "GET", "/n.json").json() is None
        finally:
            served.set()
        answer = importing.result().json()
    stored = rtdb.get("/n" if method != "POST" else f"/n/{answer['name']}")
    assert stored == {"a": [1, 2], "b": {"c": "d"}}
    if method != "POST":
        assert answer == {"a": [1, 2], "b": {"c": "d", ".priority": 1}}


@pytest.mark.parametrize(
    ("target", "body", "status"),
    [
        ("/n.json", '{"a":"abc"', 400),
        ("/n.json", '{"a":{".sv":"timestamp"}}', 200),
        ("/n/.priority.json", '"abcdef"', 200),
        ("/n$.json", '{"a":"abc"}', 400),
        ("/n.json?print=silent", '{"a":"abc"}', 204),
        ("/n.json?print=pretty", '{"a":"abc"}', 200),
        ("/n.json?auth=x", '{"a":"abc"', 401),
        ("/n.json?writeSizeLimit=tiny", '{"a":"abc"}', 200),
    ],
)
def test_a_large_write_is_answered_as_any(
    rtdb: Rtdb, monkeypatch: pytest.MonkeyPatch, target: str, body: str, status: int
) -> None:
    """A large body's errors, server values, priorities and forms of answer are those of any body."""
    small = call(rtdb, "PUT", target, body)
    before = rtdb.get()
    rtdb.set("/", None)
    monkeypatch.setattr(server, "LARGE", 4)
    answer = call(rtdb, "PUT", target, body)
    assert answer.status_code == small.status_code == status
    if "timestamp" not in body:
        assert (answer.content, rtdb.get()) == (small.content, before)


def test_a_large_write_is_logged_and_dripped_as_any(rtdb: Rtdb, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log has the bytes of a large body and of its answer, and a drip sends that as it is."""
    monkeypatch.setattr(server, "LARGE", 4)
    rtdb.faults.drip(0.0001)
    body = '{"a":"abc"}'
    for _ in range(2):
        assert call(rtdb, "PUT", "/n.json", body).text == body
    dripped, plain = rtdb.emulator.requests.matching(namespace=rtdb.namespace)
    assert dripped.request_bytes == plain.request_bytes > len(body)
    assert plain.response_bytes > len(body)


LEAF = "leaf"
FLAT = {"a": LEAF, "10": 1, "9": True}


@pytest.mark.parametrize("child", [LEAF, FLAT, {"a": FLAT}, dict.fromkeys(map(str, range(200)), LEAF)])
@pytest.mark.parametrize("priority", [False, True])
def test_what_is_read_knows_its_hash(monkeypatch: pytest.MonkeyPatch, child: object, priority: bool) -> None:
    """The ETag of a large body is computed in the same steps, so nobody waits for it after the reply."""
    data: dict[str, object] = {f"k{number}": LEAF if number % 9 else child for number in range(300)}
    if priority and isinstance(child, dict):
        data |= {f"k{number}": {**child, ".priority": number * 7 % 50} for number in range(0, 300, 9)}
    expected = parse(data, now=0).hash
    node = end_of(reading(json.dumps(data).encode(), 0))
    patched = end_of(reading_patch(json.dumps({"a/b": data}).encode(), 0))["a/b"]
    monkeypatch.delattr(tree, "b2a_base64")  # no hash can be computed from here on
    assert isinstance(patched, Node)
    assert node.hash == patched.hash == expected
