"""The disk as the rest of storage sees it; the only place that opens files.

Rules:
- A file grows only at its end. What was written is never overwritten: `sendfile` sends live pages of the page cache.
- A `File` closes itself when its last user lets go of it. So a slice that waits in a socket keeps its file readable
  whatever the cache of handles or the deletion of a segment does meanwhile, and nobody counts references by hand.
- Nothing is durable before `sync` (a file's bytes) and `sync_dir` (names: creations, renames, removals).
- Errors are OSError, as the operating system raises them; a `writev` that raised may have left a torn tail.
"""

import errno
import fcntl
import os
from collections.abc import Sequence
from typing import NamedTuple, Protocol

Buffer = bytes | bytearray | memoryview

TEMPORARY_SUFFIX = ".tmp"

_APPEND_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC


class File(Protocol):
    def writev(self, buffers: Sequence[Buffer]) -> int:
        """Appends all bytes or raises."""
        ...

    def pread(self, size: int, position: int) -> bytes:
        """Up to `size` bytes; fewer only at the end of the file."""
        ...

    def size(self) -> int: ...

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None: ...

    def close(self) -> None: ...

    def fileno(self) -> int:
        """For `os.sendfile`; only real files have one."""
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
        """Replaces the target if there is one."""
        ...

    def remove(self, path: str) -> None:
        """No error if it is gone already."""
        ...

    def rmtree(self, path: str) -> None:
        """No error if it is gone already."""
        ...

    def sync_dir(self, path: str) -> None: ...

    def sync_all(self) -> None:
        """Everything, files and names, of all dirs. It does not tell whether that worked."""
        ...

    def free_bytes(self, path: str) -> int: ...

    def total_bytes(self, path: str) -> int: ...

    def lock(self, path: str) -> Lock:
        """BlockingIOError if another process, or another broker of this one, holds it."""
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


class OsFile:
    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def writev(self, buffers: Sequence[Buffer]) -> int:
        total = len(buffers[0]) if len(buffers) == 1 else sum(map(len, buffers))
        written = os.writev(self._fd, buffers)
        if written != total:
            self._write_rest(buffers, written)
        return total

    def _write_rest(self, buffers: Sequence[Buffer], written: int) -> None:
        """The kernel cuts a write short when the disk is full, and above 2 GiB; trying again tells which."""
        rest = memoryview(b"".join(buffers))[written:]
        while rest:
            written = os.write(self._fd, rest)
            if not written:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            rest = rest[written:]

    def pread(self, size: int, position: int) -> bytes:
        return os.pread(self._fd, size, position)

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def sync(self) -> None:
        os.fdatasync(self._fd)

    def fileno(self) -> int:
        return self._fd

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        self.close()


class OsLock:
    __slots__ = ("_fd",)

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._fd)
            raise

    def release(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


class OsFiles:
    """The production disk."""

    __slots__ = ()

    def open(self, path: str, *, create: bool = False) -> OsFile:
        return OsFile(os.open(path, _APPEND_FLAGS | os.O_CREAT if create else _APPEND_FLAGS, 0o644))

    def read_bytes(self, path: str) -> bytes:
        file = OsFile(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        return file.pread(file.size(), 0)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def file_size(self, path: str) -> int:
        return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def listdir(self, path: str) -> list[str]:
        return os.listdir(path)

    def scandir(self, path: str) -> list[DirEntry]:
        with os.scandir(path) as entries:
            return [DirEntry(entry.name, -1 if entry.is_dir() else entry.stat().st_size) for entry in entries]

    def makedirs(self, path: str) -> None:
        try:
            os.mkdir(path)
        except FileExistsError:
            pass
        except FileNotFoundError:
            os.makedirs(path, exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        os.rename(source, target)

    def remove(self, path: str) -> None:
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass

    def rmtree(self, path: str) -> None:
        from shutil import rmtree

        try:
            rmtree(path)
        except FileNotFoundError:
            pass

    def sync_dir(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def sync_all(self) -> None:
        os.sync()

    def free_bytes(self, path: str) -> int:
        status = os.statvfs(path)
        return status.f_bavail * status.f_frsize

    def total_bytes(self, path: str) -> int:
        status = os.statvfs(path)
        return status.f_blocks * status.f_frsize

    def lock(self, path: str) -> OsLock:
        return OsLock(path)


def write_file(files: Files, path: str, data: Buffer, *, sync: bool) -> None:
    """A new file with these bytes. It may stand there torn after a crash: its reader must be able to tell."""
    files.remove(path)
    file = files.open(path, create=True)
    file.writev([data])
    if sync:
        file.sync()


def replace_file(files: Files, path: str, data: Buffer) -> None:
    """The file holds either its old bytes or all of these, even after a power cut, and these once this returns."""
    temporary = path + TEMPORARY_SUFFIX
    write_file(files, temporary, data, sync=True)
    files.rename(temporary, path)
    files.sync_dir(os.path.dirname(path))


def make_durable_dir(files: Files, path: str) -> None:
    """The directory and those above it that are missing, with names that a power cut does not take."""
    parent = os.path.dirname(path)
    if parent and not files.exists(parent):
        make_durable_dir(files, parent)
    files.makedirs(path)
    files.sync_dir(parent or ".")
