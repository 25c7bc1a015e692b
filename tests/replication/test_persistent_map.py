from hypothesis import given
from hypothesis import strategies as st

from barnabas.replication.metadata.persistent_map import PersistentMap

CHANGES = st.dictionaries(st.text(max_size=3), st.none() | st.integers())


@given(st.lists(CHANGES, max_size=8))
def test_it_behaves_as_a_dict_and_leaves_every_older_map_as_it_was(batches: list[dict[str, int | None]]) -> None:
    mapping: PersistentMap[str, int] = PersistentMap()
    expected: dict[str, int] = {}
    history = [(mapping, dict(expected))]
    for changes in batches:
        mapping = mapping.updated(changes)
        expected = {key: value for key, value in {**expected, **changes}.items() if value is not None}
        history.append((mapping, dict(expected)))
    for older, then in history:
        assert dict(older.items()) == then
        assert len(older) == len(then)
        assert list(older) == sorted(then)
        assert all(older.get(key) == then[key] and key in older for key in then)


def test_maps_with_the_same_entries_are_equal_whatever_their_history() -> None:
    grown = PersistentMap[str, int]().updated({"a": 1}).updated({"b": 2, "c": 3}).updated({"c": None})
    assert grown == PersistentMap[str, int]().updated({"b": 2, "a": 1})
    assert grown.get("c") is None
    assert grown.get("c", 5) == 5


def test_an_update_without_changes_is_the_same_map() -> None:
    mapping = PersistentMap[str, int]().updated({"a": 1})
    assert mapping.updated({}) is mapping


def test_one_change_among_ten_thousand_copies_one_bucket() -> None:
    before = PersistentMap[str, int]().updated({f"topic-{number}": number for number in range(10_000)})
    after = before.updated({"topic-77": -1})
    changed = [index for index, bucket in enumerate(after._buckets) if bucket is not before._buckets[index]]
    assert len(changed) == 1
    assert len(after._buckets[changed[0]]) < 200
