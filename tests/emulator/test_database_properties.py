"""Whatever is updated: an update is its writes, one after another."""

from hypothesis import given
from hypothesis import strategies as st

from rtdb_emulator.database import ADMIN, Database
from rtdb_emulator.errors import BadRequest
from rtdb_emulator.tree import Path

KEYS = st.sampled_from(["a", "b", "0"])
PATHS = st.lists(KEYS, min_size=1, max_size=3).map(tuple)
LEAVES = st.none() | st.booleans() | st.integers(0, 9) | st.text("xy", max_size=2)
SERVER_VALUES = st.sampled_from([{".sv": "timestamp"}, {".sv": {"increment": 2}}])
DATA = st.recursive(
    LEAVES | SERVER_VALUES | st.builds(lambda value: {".value": value, ".priority": 1}, LEAVES),
    lambda inner: st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)


def database(before: object) -> Database:
    made = Database("test", lambda: 7)
    made.write((), before, ADMIN)
    return made


def are_disjoint(paths: list[Path]) -> bool:
    return not any(
        one[: len(other)] == other
        for index, one in enumerate(paths)
        for place, other in enumerate(paths)
        if index != place
    )


@given(DATA, st.lists(KEYS, max_size=1).map(tuple), st.dictionaries(PATHS, DATA, max_size=4))
def test_update_is_its_writes(before: object, base: Path, changes: dict[Path, object]) -> None:
    """An update of disjoint paths leaves what the single writes leave, in any order; of others it writes nothing."""
    updated = database(before)
    root = updated.root
    data = {"/".join(path): value for path, value in changes.items()}
    if not are_disjoint(list(changes)):
        try:
            updated.update(base, data, ADMIN)
        except BadRequest:
            assert updated.root is root
            return
        raise AssertionError("one of the paths is above another")
    answer = updated.update(base, data, ADMIN)
    for order in (list(changes), list(reversed(changes))):
        one_by_one = database(before)
        for path in order:
            one_by_one.write((*base, *path), changes[path], ADMIN)
        assert updated.root == one_by_one.root
        assert updated.root.hash == one_by_one.root.hash
    assert answer == {"/".join(path): updated.root.at((*base, *path)) for path in changes}
