"""What readers see of an archive, and folders that fail where a test says."""

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO

import duckdb
import pyarrow.dataset as dataset

from barnabas.pipelines.shared.files.folder import Folder

Seen = Counter[tuple[str, int, int]]
"""How often each (topic, partition, offset) is there."""


def seen_by_pyarrow(archive: Path) -> Seen:
    if not has_files(archive):
        return Counter()
    found = dataset.dataset(archive, format="parquet", partitioning="hive").to_table(["topic", "partition", "offset"])
    return Counter(zip(*(column.to_pylist() for column in found.columns)))


def seen_by_duckdb(archive: Path) -> Seen:
    if not has_files(archive):
        return Counter()
    files = f"read_parquet('{archive}/**/*.parquet', hive_partitioning = true)"
    found = duckdb.sql(f'SELECT topic, "partition", "offset" FROM {files}')
    assert found is not None
    return Counter(found.fetchall())


def has_files(archive: Path) -> bool:
    """Readers refuse a folder without files."""
    return any(archive.glob("**/*.parquet"))


def once_each(records: Iterable[tuple[str, int, int]]) -> Seen:
    return Counter(dict.fromkeys(records, 1))


class Killed(BaseException):
    """No `except Exception` survives a kill either."""


class WatchedFolder(Folder):
    """Tells a watcher before and after each change to the folder; what the watcher raises ends the writer there."""

    def __init__(self, folder: Folder, watcher: Callable[[str], None]) -> None:
        super().__init__(folder.root)
        self._folder = folder
        self._watcher = watcher

    def uri(self, path: str = "") -> str:
        return self._folder.uri(path)

    def names(self, path: str) -> list[str]:
        return self._folder.names(path)

    def exists(self, path: str) -> bool:
        return self._folder.exists(path)

    def read(self, path: str) -> str:
        return self._folder.read(path)

    def create(self, path: str, text: str) -> bool:
        self._watcher(f"before create {path}")
        created = self._folder.create(path, text)
        self._watcher(f"after create {path}")
        return created

    def replace(self, path: str, text: str) -> None:
        self._watcher(f"before replace {path}")
        self._folder.replace(path, text)
        self._watcher(f"after replace {path}")

    def move(self, source: str, target: str) -> None:
        self._watcher(f"before move {target}")
        self._folder.move(source, target)
        self._watcher(f"after move {target}")

    def link(self, path: str, target: str) -> None:
        self._watcher(f"before link {path}")
        self._folder.link(path, target)
        self._watcher(f"after link {path}")

    def remove(self, path: str) -> None:
        self._watcher(f"before remove {path}")
        self._folder.remove(path)
        self._watcher(f"after remove {path}")

    def remove_empty(self, path: str) -> None:
        self._watcher(f"before remove_empty {path}")
        self._folder.remove_empty(path)
        self._watcher(f"after remove_empty {path}")

    def sync(self, paths: Iterable[str]) -> None:
        self._watcher("before sync")
        self._folder.sync(paths)

    def lock(self, path: str) -> IO[str] | None:
        return self._folder.lock(path)
