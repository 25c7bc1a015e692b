"""The disk as the broker sees it: what a file and a directory offer. The environment hands in the implementation.

Rules:
- A file grows only at its end. What was written is never overwritten: `sendfile` sends live pages of the page cache.
  A file that is cut back grows no more.
- A `File` closes itself when its last user lets go of it. So a slice that waits in a socket keeps its file readable
  whatever the cache of handles or the deletion of a segment does meanwhile, and nobody counts references by hand.
- Nothing is durable before `sync` (a file's bytes) and `sync_dir` (names: creations, renames, removals).
- Errors are OSError, as the operating system raises them; a `writev` that raised may have left a torn tail.
"""

import os
from collections.abc import Sequence
from typing import Protocol

from barnabas.protocol.named_tuple import NamedTuple

Buffer = bytes | bytearray | memoryview

TEMPORARY_SUFFIX = ".tmp"


class File(Protocol):
    def writev(self, buffers: Sequence[Buffer]) -> int:
        """Appends all bytes or raises."""
        ...

    def pread(self, size: int, position: int) -> bytes:
        """Reads up to `size` bytes; fewer only at the end of the file."""
        ...

    def size(self) -> int: ...

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None: ...

    def drop_cache(self) -> None:
        """Lets the next read come from the disk. What is still to be written may stay in the page cache."""
        ...

    def close(self) -> None: ...

    def fileno(self) -> int:
        """Returns the descriptor for `os.sendfile`; only real files have one."""
        ...


class Lock(Protocol):
    def release(self) -> None: ...


class DirEntry(NamedTuple):
    name: str
    size_bytes: int
    """-1 for a directory."""


class Files(Protocol):
    def open(self, path: str, *, create: bool = False) -> File: ...

    def read_bytes(self, path: str) -> bytes: ...

    def exists(self, path: str) -> bool: ...

    def file_size(self, path: str) -> int: ...

    def modified_ms(self, path: str) -> int: ...

    def set_modified_ms(self, path: str, modified_ms: int) -> None: ...

    def listdir(self, path: str) -> list[str]: ...

    def scandir(self, path: str) -> list[DirEntry]: ...

    def makedirs(self, path: str) -> None: ...

    def rename(self, source: str, target: str) -> None:
        """Renames the file; replaces the target if there is one."""
        ...

    def remove(self, path: str) -> None:
        """Removes the file. Does nothing if it is gone already."""
        ...

    def rmtree(self, path: str) -> None:
        """Removes the directory and everything in it. Does nothing if it is gone already."""
        ...

    def sync_dir(self, path: str) -> None: ...

    def sync_all(self) -> None:
        """Syncs everything, files and names, of all dirs. It does not say whether that worked."""
        ...

    def free_bytes(self, path: str) -> int: ...

    def total_bytes(self, path: str) -> int: ...

    def lock(self, path: str) -> Lock:
        """Locks the file. Raises BlockingIOError if another process, or another broker of this one, holds it."""
        ...


class FileSlice:
    """Bytes of a log: whole batches. Holds its file open; drop it when they are sent."""

    __slots__ = ("file", "position", "size")

    def __init__(self, file: File, position: int, size: int) -> None:
        self.file = file
        self.position = position
        self.size = size

    def fileno(self) -> int:
        return self.file.fileno()

    def read(self) -> bytes:
        return self.file.pread(self.size, self.position)

    def __len__(self) -> int:
        return self.size

    def __repr__(self) -> str:
        return f"FileSlice(position={self.position}, size={self.size})"


def write_file(files: Files, path: str, data: Buffer, *, sync: bool) -> None:
    """Writes a new file. A crash may leave it torn: its reader must be able to notice."""
    files.remove(path)
    file = files.open(path, create=True)
    file.writev([data])
    if sync:
        file.sync()


def replace_file(files: Files, path: str, data: Buffer) -> None:
    """Replaces the file: even after a power cut it holds either its old bytes or all of `data`, and `data` once this
    returns."""
    temporary = path + TEMPORARY_SUFFIX
    write_file(files, temporary, data, sync=True)
    files.rename(temporary, path)
    files.sync_dir(os.path.dirname(path))


def make_durable_dir(files: Files, path: str) -> None:
    """Creates the directory and its missing parents, with names that survive a power cut."""
    parent = os.path.dirname(path)
    if parent and not files.exists(parent):
        make_durable_dir(files, parent)
    files.makedirs(path)
    files.sync_dir(parent or ".")
