"""Whatever is written: who replays a stream has what a read would show."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Literal

from hypothesis import event, given, settings
from hypothesis import strategies as st

from rtdb_emulator.database import ADMIN, Commit, Database
from rtdb_emulator.errors import BadRequest
from rtdb_emulator.http.sse import Event, View
from rtdb_emulator.jsondata import parse, render
from rtdb_emulator.paths import split_path
from rtdb_emulator.query import Query, parse_query
from rtdb_emulator.tree import EMPTY, Node, Path, branch

KEYS = st.sampled_from(["a", "b", "0"])
PATHS = st.lists(KEYS, max_size=3).map(tuple)
PRIORITIES = st.none() | st.integers(0, 2) | st.sampled_from(["x", "y"])
LEAVES = st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["x", "y"])
DATA = st.recursive(
    LEAVES
    | st.just({".sv": {"increment": 1}})
    | st.builds(lambda value, priority: {".value": value, ".priority": priority}, LEAVES, PRIORITIES),
    lambda inner: (
        st.dictionaries(KEYS, inner, max_size=4)
        | st.lists(inner, max_size=3)
        | st.builds(lambda data, priority: {**data, ".priority": priority}, st.dictionaries(KEYS, inner), PRIORITIES)
    ),
    max_leaves=8,
)
# Trees that are full enough for a window to have an inside and an outside.
RECORD = st.fixed_dictionaries({"a": LEAVES, "b": LEAVES})
TABLE = st.fixed_dictionaries({"a": RECORD, "b": RECORD, "0": RECORD})
TREES = DATA | TABLE | st.fixed_dictionaries({"a": TABLE})


@dataclass(frozen=True)
class Operation:
    """A request: PUT (or DELETE, with null) or PATCH."""

    method: Literal["put", "patch"]
    path: Path
    data: object

    def run(self, database: Database) -> None:
        if self.method == "put":
            database.write(self.path, self.data, ADMIN)
        else:
            assert isinstance(self.data, dict)
            database.update(self.path, self.data, ADMIN)


RELATIVE = st.lists(KEYS, min_size=1, max_size=2).map("/".join)
CHANGES = st.dictionaries(RELATIVE, DATA, max_size=3) | st.builds(
    lambda data, path, priority: {**data, path: priority},
    st.dictionaries(RELATIVE, DATA, max_size=2),
    st.sampled_from([".priority", "a/.priority", "b/0/.priority"]),
    PRIORITIES,
)
OPERATIONS = st.lists(
    st.builds(Operation, st.just("put"), PATHS, DATA)
    | st.builds(Operation, st.just("put"), PATHS.map(lambda path: (*path, ".priority")), PRIORITIES)
    | st.builds(Operation, st.just("patch"), PATHS, CHANGES)
    | st.builds(Operation, st.just("patch"), PATHS, st.dictionaries(RELATIVE, LEAVES, min_size=1, max_size=3)),
    min_size=1,
    max_size=8,
)


@st.composite
def queries(draw: st.DrawFn) -> Query:
    order = draw(st.sampled_from(["$key", "$value", "$priority", "a", "a/b"]))
    keys, values = ['"a"', '"0"', '"b"'], ["1", '"x"', "true", "null", '1,"a"', '"x","0"']
    bounds = st.sampled_from(
        keys if order == "$key" else [value for value in values if order != "$priority" or value != "true"]
    )
    limits = {"limitToFirst": st.sampled_from("12"), "limitToLast": st.sampled_from("12")}
    starts = {"startAt": bounds, "startAfter": bounds}
    ends = {"endAt": bounds, "endBefore": bounds}
    parameters = {"orderBy": f'"{order}"'}
    for choices in (limits, starts, ends):
        name = draw(st.sampled_from(["", *choices]))
        if name:
            parameters[name] = draw(choices[name])
    query = parse_query(parameters)
    assert query is not None
    return query


VIEWS = st.builds(View, PATHS) | st.builds(View, st.sampled_from([(), ("a",)]), queries())


class Client:
    """Follows a view as an SDK does, from the events alone."""

    watching = 1

    def __init__(self, view: View, root: Node) -> None:
        self._view = view
        self.copy = EMPTY
        self._replay([view.first(root)])

    def committed(self, commit: Commit) -> None:
        events = self._view.events(commit)
        if selected(self._view, commit.before) == selected(self._view, commit.after):
            assert events == []
        self._replay(events)

    def rules_changed(self) -> None:
        raise AssertionError("nobody changes rules here")

    def _replay(self, events: Sequence[Event]) -> None:
        for told in events:
            path = split_path(told.path)
            if told.name == "put":
                self.copy = self.copy.put(path, parse(told.data, now=0))
                continue
            assert isinstance(told.data, dict)
            for key, data in told.data.items():
                self.copy = self.copy.put((*path, *split_path(key)), parse(data, now=0))


def selected(view: View, root: Node) -> Node:
    node = root.at(view.path)
    return node if view.query is None else branch({key: node.child(key) for key in view.query.keys(node)})


@settings(max_examples=600)
@given(TREES, OPERATIONS, st.lists(VIEWS, min_size=1, max_size=4))
def test_a_replayed_stream_is_the_tree(before: object, operations: list[Operation], views: list[View]) -> None:
    """After each write, a client that knows nothing but a view's events has what a read of the view gives."""
    database = Database("test", lambda: 7)
    database.write((), before, ADMIN)
    clients = [Client(view, database.root) for view in views]
    with ExitStack() as stack:
        for client in clients:
            stack.enter_context(database.listening(client))
        for operation in operations:
            try:
                operation.run(database)
            except BadRequest:
                event("refused")
            for client, view in zip(clients, views, strict=True):
                assert render(client.copy) == render(selected(view, database.root))
