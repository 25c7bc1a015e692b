"""A disk in memory that forgets, tears, fills up, fails and rots.

Every file has two views: what a process reads, and what a power cut leaves. `sync` makes them equal for a file's bytes,
`sync_dir` for the names in a directory. Two things can happen to it:

- `kill`: the process dies. The page cache survives; a write that was under way may have got half through.
- `cut_power`: of everything that was not synced each write, truncation, creation, rename and removal may be kept, lost
  or torn, independently of the others: a later one may survive an earlier one.

With `crash_after(n)` the n-th change from now on does not return: it raises `Crash`, before or in the middle of its
work. Handles of the dead process are useless afterwards.
"""

import errno
import os
from collections.abc import Callable, Sequence
from random import Random

from barnabas.base.files import Buffer, DirEntry
from tests.simulation.inodes import Directory, Inode, Node, sync_all, used_bytes


class Crash(BaseException):
    """The process is gone; nobody may catch this as an error of the disk."""


class SimulatedFile:
    """A handle of one life of the process."""

    __slots__ = ("_disk", "_inode", "_life", "_path")

    def __init__(self, disk: "SimulatedFiles", inode: Inode, path: str) -> None:
        self._disk = disk
        self._inode = inode
        self._life = disk.life
        self._path = path

    def writev(self, buffers: Sequence[Buffer]) -> int:
        data = b"".join(buffers)
        self._check_alive()
        if self._disk.crashes_now():
            self._write(data[: self._disk.random.randrange(len(data) + 1)])
            raise Crash
        if self._disk.failing_writes and any(part in self._path for part in self._disk.failing_writes):
            self._write(data[: len(data) // 2])
            raise OSError(errno.EIO, os.strerror(errno.EIO), self._path)
        room = self._disk.capacity_bytes - self._disk.used_bytes()
        if len(data) > room:
            self._write(data[: max(room, 0)])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._path)
        self._write(data)
        return len(data)

    def closed_for_writing(self) -> None:
        """Says that the file was cut, and that this process writes no more to it: it may be sending what was there."""
        self._inode.closed_in_life = self._life

    def _write(self, data: bytes) -> None:
        assert self._inode.closed_in_life != self._life, f"I9: {self._path} was cut, and is written again"
        if data:
            self._inode.pending.append((len(self._inode.data), data))
            self._inode.data += data
            self._inode.modified_ms = self._disk.now_ms()
            if self._inode.has_name:
                self._disk.count(len(data))

    def pread(self, size: int, position: int) -> bytes:
        self._check_alive()
        self._disk.preads.append(size)
        return bytes(self._inode.data[position : position + size])

    def size(self) -> int:
        return len(self._inode.data)

    def truncate(self, size: int) -> None:
        self._check_alive()
        self._disk.change()
        if self._inode.has_name:
            self._disk.count(min(size - len(self._inode.data), 0))
        del self._inode.data[size:]
        self._inode.pending.append((size, None))

    def sync(self) -> None:
        self._check_alive()
        self._disk.change()
        if self._disk.failing_syncs and any(part in self._path for part in self._disk.failing_syncs):
            self._inode.fail_to_sync()
            raise OSError(errno.EIO, os.strerror(errno.EIO), self._path)
        self._inode.sync()

    def drop_cache(self) -> None:
        self._check_alive()
        self._inode.drop_cache()

    def fileno(self) -> int:
        raise AssertionError("a simulated file has no descriptor")

    def close(self) -> None: ...

    def _check_alive(self) -> None:
        assert self._life == self._disk.life, f"{self._path} is used by a process that is dead"


class SimulatedLock:
    def __init__(self, disk: "SimulatedFiles", path: str) -> None:
        self._disk = disk
        self._path = path

    def release(self) -> None:
        self._disk.locks.discard(self._path)


class SimulatedFiles:
    def __init__(self, random: Random, capacity_bytes: int = 1 << 40, now_ms: Callable[[], int] = lambda: 0) -> None:
        self.random = random
        self.now_ms = now_ms
        self.capacity_bytes = capacity_bytes
        self.failing_syncs: set[str] = set()
        """Parts of paths whose fsync fails."""
        self.failing_writes: set[str] = set()
        """Parts of paths whose writes fail half way."""
        self.failing_creates: set[str] = set()
        """Parts of paths that cannot be created: there are no inodes left."""
        self.preads: list[int] = []
        """How many bytes each read asked for."""
        self.life = 0
        self.locks: set[str] = set()
        self._root = Directory()
        self._changes_left = -1
        self._used_bytes = 0

    # ---- faults

    def crash_after(self, changes: int) -> None:
        self._changes_left = changes

    def crashes_now(self) -> bool:
        if self._changes_left < 0:
            return False
        self._changes_left -= 1
        return self._changes_left < 0

    def change(self) -> None:
        if self.crashes_now():
            raise Crash

    def kill(self) -> None:
        """The process is gone, the kernel is not."""
        self.life += 1
        self.locks.clear()
        self.preads.clear()
        self._changes_left = -1

    def cut_power(self) -> None:
        self.kill()
        self._cut_power(self._root)
        self._used_bytes = used_bytes(self._root)

    def _cut_power(self, directory: Directory) -> None:
        directory.entries = directory.after_power_cut(self.random)
        directory.sync()
        for node in directory.entries.values():
            if isinstance(node, Directory):
                self._cut_power(node)
            else:
                node.data = bytearray(node.after_power_cut(self.random))
                node.synced = bytearray(node.data)
                node.pending.clear()
                node.has_name = True

    def flip_bit(self, path: str, position: int, bit: int | None = None) -> None:
        """Flips any bit, or this one."""
        inode, mask = self._inode(path), 1 << (self.random.randrange(8) if bit is None else bit)
        for data in (inode.data, inode.synced):
            if position < len(data):
                data[position] ^= mask
        inode.is_rotten = True

    def used_bytes(self) -> int:
        return self._used_bytes

    def count(self, grown_bytes: int) -> None:
        self._used_bytes += grown_bytes

    # ---- the seam

    def open(self, path: str, *, create: bool = False) -> SimulatedFile:
        directory, name = self._parent(path)
        if create and name not in directory.entries:
            self._check_creatable(path)
            directory.set(name, Inode(self.now_ms()))
        return SimulatedFile(self, self._inode(path), path)

    def read_bytes(self, path: str) -> bytes:
        return bytes(self._inode(path).data)

    def exists(self, path: str) -> bool:
        try:
            self._node(path)
        except FileNotFoundError:
            return False
        return True

    def file_size(self, path: str) -> int:
        return len(self._inode(path).data)

    def modified_ms(self, path: str) -> int:
        return self._inode(path).modified_ms

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        self._inode(path).modified_ms = modified_ms

    def listdir(self, path: str) -> list[str]:
        return list(self._directory(path).entries)

    def scandir(self, path: str) -> list[DirEntry]:
        nodes = self._directory(path).entries.items()
        return [DirEntry(name, len(node.data) if isinstance(node, Inode) else -1) for name, node in nodes]

    def makedirs(self, path: str) -> None:
        directory = self._root
        for name in _parts(path):
            if name not in directory.entries:
                self._check_creatable(path)
                directory.set(name, Directory())
            node = directory.entries[name]
            assert isinstance(node, Directory), f"{path}: {name} is a file"
            directory = node

    def rename(self, source: str, target: str) -> None:
        directory, name = self._parent(source)
        other, new_name = self._parent(target)
        assert directory is other, "nothing is moved between directories"
        if name not in directory.entries:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), source)
        self.change()
        if name != new_name:
            self._forget(directory.entries.get(new_name))
            directory.rename(name, new_name)

    def remove(self, path: str) -> None:
        directory, name = self._parent(path)
        if name in directory.entries:
            self.change()
            self._forget(directory.entries[name])
            directory.remove(name)

    def rmtree(self, path: str) -> None:
        self.remove(path)

    def sync_dir(self, path: str) -> None:
        directory = self._directory(path)
        self.change()
        if self.failing_syncs and any(part in path for part in self.failing_syncs):
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        directory.sync()

    def sync_all(self) -> None:
        self.change()
        sync_all(self._root)

    def free_bytes(self, path: str) -> int:
        return self.capacity_bytes - self.used_bytes()

    def total_bytes(self, path: str) -> int:
        return self.capacity_bytes

    def lock(self, path: str) -> SimulatedLock:
        if path in self.locks:
            raise BlockingIOError(errno.EWOULDBLOCK, os.strerror(errno.EWOULDBLOCK), path)
        self.locks.add(path)
        return SimulatedLock(self, path)

    def _check_creatable(self, path: str) -> None:
        self.change()
        if self.failing_creates and any(part in path for part in self.failing_creates):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    def _forget(self, node: "Node | None") -> None:
        """Stops counting what has no name any more."""
        if isinstance(node, Inode):
            self._used_bytes -= len(node.data)
            node.has_name = False
        elif node is not None:
            for each in node.entries.values():
                self._forget(each)

    # ---- nodes

    def _node(self, path: str) -> Node:
        node: Node = self._root
        for name in _parts(path):
            if not isinstance(node, Directory) or name not in node.entries:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            node = node.entries[name]
        return node

    def _inode(self, path: str) -> Inode:
        node = self._node(path)
        assert isinstance(node, Inode), f"{path} is a directory"
        return node

    def _directory(self, path: str) -> Directory:
        node = self._node(path)
        assert isinstance(node, Directory), f"{path} is a file"
        return node

    def _parent(self, path: str) -> tuple[Directory, str]:
        parent, _, name = path.rpartition("/")
        return self._directory(parent), name


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part]
