"""A mapping that is never changed: `updated` returns another one that shares almost everything with it.

The entries lie in a fixed number of buckets, plain dicts. An update copies the list of buckets and those buckets that
it touches, so changing one entry of ten thousand copies some forty, whatever else the map holds.
Iteration is in the order of the keys: Python's hashes differ from process to process, and a run must be repeatable.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Generic, TypeVar, overload

K = TypeVar("K", bound=Any)
V = TypeVar("V")
D = TypeVar("D")

BUCKETS = 256
_MASK = BUCKETS - 1


class PersistentMap(Mapping[K, V], Generic[K, V]):
    __slots__ = ("_buckets", "_size")

    def __init__(self) -> None:
        empty: dict[K, V] = {}
        self._buckets: list[dict[K, V]] = [empty] * BUCKETS
        self._size = 0

    def __getitem__(self, key: K) -> V:
        return self._buckets[hash(key) & _MASK][key]

    @overload
    def get(self, key: K, /) -> V | None: ...
    @overload
    def get(self, key: K, /, default: V | D) -> V | D: ...
    def get(self, key: K, /, default: Any = None) -> Any:
        return self._buckets[hash(key) & _MASK].get(key, default)

    def __contains__(self, key: object) -> bool:
        return key in self._buckets[hash(key) & _MASK]

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[K]:
        return iter(sorted(key for bucket in self._buckets for key in bucket))

    def updated(self, changes: Mapping[K, V | None]) -> "PersistentMap[K, V]":
        """Returns a map with every value of `changes` set, or removed where it is None."""
        if not changes:
            return self
        result: PersistentMap[K, V] = PersistentMap.__new__(PersistentMap)
        result._buckets = self._buckets.copy()
        result._size = self._size
        copied: set[int] = set()
        for key, value in changes.items():
            result._put(key, value, copied)
        return result

    def _put(self, key: K, value: V | None, copied: set[int]) -> None:
        index = hash(key) & _MASK
        if index not in copied:
            copied.add(index)
            self._buckets[index] = self._buckets[index].copy()
        bucket = self._buckets[index]
        self._size -= len(bucket)
        if value is None:
            bucket.pop(key, None)
        else:
            bucket[key] = value
        self._size += len(bucket)

    def __repr__(self) -> str:
        return f"PersistentMap({dict(self.items())!r})"
