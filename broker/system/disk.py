"""The production disk: files, directories and locks of the operating system."""

import errno
import fcntl
import os
from collections.abc import Sequence
from contextlib import suppress

from barnabas.base.files import Buffer, DirEntry

_APPEND_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC


class OsFile:
    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def writev(self, buffers: Sequence[Buffer]) -> int:
        if len(buffers) == 1:
            total = len(buffers[0])
            written = os.write(self._fd, buffers[0])  # one buffer is written in five sixths of the time
        else:
            total = sum(map(len, buffers))
            written = os.writev(self._fd, buffers)
        if written != total:
            self._write_rest(buffers, written)
        return total

    def _write_rest(self, buffers: Sequence[Buffer], written: int) -> None:
        """Writes the rest. The kernel cuts writes short when the disk is full, and above 2 GiB; trying shows which."""
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

    def drop_cache(self) -> None:
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._fd, 0, 0, os.POSIX_FADV_DONTNEED)

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
        found = []
        with os.scandir(path) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):  # it was removed meanwhile, or is a link to nothing
                    found.append(DirEntry(entry.name, -1 if entry.is_dir() else entry.stat().st_size))
        return found

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
