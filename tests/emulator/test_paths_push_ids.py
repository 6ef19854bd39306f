"""Push ids: they sort by time, and by order within a millisecond."""

import pytest

from rtdb_emulator.ordering import key_order
from rtdb_emulator.paths import ALPHABET, PushIds, is_key

NOW = 1_700_000_000_000


def test_shape() -> None:
    """An id is 20 characters of the alphabet, whose order is that of ASCII; the first 8 are the time."""
    assert sorted(ALPHABET) == list(ALPHABET)
    assert len(set(ALPHABET)) == 64
    push_id = PushIds(lambda bits: 1 << (bits - 1)).next(NOW)
    assert push_id[8:] == "V" + "-" * 11
    assert sum(ALPHABET.index(digit) * 64**place for place, digit in enumerate(reversed(push_id[:8]))) == NOW
    assert len(push_id) == 20
    assert is_key(push_id)


def test_chance() -> None:
    """Two sources give different ids in the same millisecond."""
    assert PushIds().next(NOW) != PushIds().next(NOW)


def test_later_ids_sort_later() -> None:
    """Ids sort as they were made: over milliseconds, within one, and when the clock steps back."""
    chance = iter([900, 100, 500, 200])
    source = PushIds(lambda bits: next(chance))
    ids = [source.next(NOW + step) for step in (0, 1, 1, 1, 2, -1000, 1, 2, 64)]
    assert ids == sorted(set(ids), key=key_order)


def test_counts_up_within_a_millisecond() -> None:
    """The second id of a millisecond is the first one plus one, with a carry."""
    source = PushIds(lambda bits: 63)
    assert [source.next(NOW)[8:] for _ in range(2)] == ["-----------z", "----------0-"]


def test_time_after_a_step_back() -> None:
    """While the clock is behind, ids keep the last time; after that they have the clock's."""
    source = PushIds()
    times = [source.next(now)[:8] for now in (NOW, NOW - 5, NOW, NOW + 1)]
    assert times == [PushIds().next(now)[:8] for now in (NOW, NOW, NOW, NOW + 1)]


@pytest.mark.parametrize("now", [NOW, NOW - 1])
def test_used_up_millisecond(now: int) -> None:
    """When the chance part can't be counted up any more, the time is."""
    source = PushIds(lambda bits: 2**bits - 1)
    assert source.next(NOW)[8:] == "z" * 12
    assert source.next(now) == PushIds(lambda bits: 0).next(NOW + 1)
