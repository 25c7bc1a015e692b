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
from collections.abc import Sequence
from random import Random

from barnabas.storage.files import Buffer, DirEntry

SECTOR_BYTES = 64
"""Small, so that small batches tear in many ways."""


class Crash(BaseException):
    """The process is gone; nobody may catch this as an error of the disk."""


class _Inode:
    __slots__ = ("data", "modified_ms", "pending", "synced")

    def __init__(self, modified_ms: int) -> None:
        self.data = bytearray()
        self.synced = b""
        self.pending: list[tuple[int, bytes | None]] = []
        """Since the last sync: (position, bytes) written, or (size, None) truncated."""
        self.modified_ms = modified_ms

    def sync(self) -> None:
        self.synced = bytes(self.data)
        self.pending.clear()

    def after_power_cut(self, random: Random) -> bytes:
        content = bytearray(self.synced)
        habit = random.random()
        for position, data in self.pending:
            fate = habit if habit < 0.5 else random.random()
            if fate < 0.2:
                continue
            if data is None:
                del content[position:]
            else:
                _write(content, position, data, fate, random)
        return bytes(content)


def _write(content: bytearray, position: int, data: bytes, fate: float, random: Random) -> None:
    """All of it, a prefix, or some sectors with zeros where the others should be."""
    if fate > 0.7:
        data = data[: random.randrange(len(data) + 1)]
    end = position + len(data)
    if end > len(content):
        content.extend(bytes(end - len(content)))
    if fate < 0.4 or fate > 0.7:
        content[position:end] = data
        return
    at = position
    while at < end:
        stop = min(end, at - at % SECTOR_BYTES + SECTOR_BYTES)
        if random.random() < 0.7:
            content[at:stop] = data[at - position : stop - position]
        at = stop


class _Directory:
    __slots__ = ("entries", "pending", "synced")

    def __init__(self) -> None:
        self.entries: dict[str, _Node] = {}
        self.synced: dict[str, _Node] = {}
        self.pending: list[tuple[str, str, _Node | None]] = []
        """Since the last sync: (name it had, name it has, node); no node: removed."""

    def set(self, name: str, node: "_Node") -> None:
        self.entries[name] = node
        self.pending.append(("", name, node))

    def remove(self, name: str) -> None:
        del self.entries[name]
        self.pending.append((name, "", None))

    def rename(self, source: str, target: str) -> None:
        node = self.entries.pop(source)
        self.entries[target] = node
        self.pending.append((source, target, node))

    def sync(self) -> None:
        self.synced = dict(self.entries)
        self.pending.clear()

    def after_power_cut(self, random: Random) -> "dict[str, _Node]":
        entries = dict(self.synced)
        chance = random.choice((0.0, 0.5, 1.0))
        for source, target, node in self.pending:
            if random.random() < chance:
                entries.pop(source, None)
                if node is not None:
                    entries[target] = node
        return entries


_Node = _Inode | _Directory


class SimulatedFile:
    """A handle of one life of the process."""

    __slots__ = ("_disk", "_inode", "_life", "_path")

    def __init__(self, disk: "SimulatedFiles", inode: _Inode, path: str) -> None:
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
        if any(part in self._path for part in self._disk.failing_writes):
            self._write(data[: len(data) // 2])
            raise OSError(errno.EIO, os.strerror(errno.EIO), self._path)
        room = self._disk.capacity_bytes - self._disk.used_bytes()
        if len(data) > room:
            self._write(data[: max(room, 0)])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._path)
        self._write(data)
        return len(data)

    def _write(self, data: bytes) -> None:
        if data:
            self._inode.pending.append((len(self._inode.data), data))
            self._inode.data += data
            self._inode.modified_ms = self._disk.now_ms

    def pread(self, size: int, position: int) -> bytes:
        self._check_alive()
        self._disk.preads.append(size)
        return bytes(self._inode.data[position : position + size])

    def size(self) -> int:
        return len(self._inode.data)

    def truncate(self, size: int) -> None:
        self._check_alive()
        self._disk.change()
        del self._inode.data[size:]
        self._inode.pending.append((size, None))

    def sync(self) -> None:
        self._check_alive()
        self._disk.change()
        if any(part in self._path for part in self._disk.failing_syncs):
            raise OSError(errno.EIO, os.strerror(errno.EIO), self._path)
        self._inode.sync()

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
    def __init__(self, random: Random, capacity_bytes: int = 1 << 40) -> None:
        self.random = random
        self.capacity_bytes = capacity_bytes
        self.failing_syncs: set[str] = set()
        """Parts of paths whose fsync fails."""
        self.failing_writes: set[str] = set()
        """Parts of paths whose writes fail half way."""
        self.failing_creates: set[str] = set()
        """Parts of paths that cannot be created: there are no inodes left."""
        self.preads: list[int] = []
        """How many bytes each read asked for."""
        self.now_ms = 0
        self.life = 0
        self.locks: set[str] = set()
        self._root = _Directory()
        self._changes_left = -1

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

    def _cut_power(self, directory: _Directory) -> None:
        directory.entries = directory.after_power_cut(self.random)
        directory.sync()
        for node in directory.entries.values():
            if isinstance(node, _Directory):
                self._cut_power(node)
            else:
                node.data = bytearray(node.after_power_cut(self.random))
                node.sync()

    def flip_bit(self, path: str, position: int) -> None:
        self._inode(path).data[position] ^= 1 << self.random.randrange(8)

    def used_bytes(self) -> int:
        return _used_bytes(self._root)

    # ---- the seam

    def open(self, path: str, *, create: bool = False) -> SimulatedFile:
        directory, name = self._parent(path)
        if create and name not in directory.entries:
            self._check_creatable(path)
            directory.set(name, _Inode(self.now_ms))
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
        return [DirEntry(name, len(node.data) if isinstance(node, _Inode) else -1) for name, node in nodes]

    def makedirs(self, path: str) -> None:
        directory = self._root
        for name in _parts(path):
            if name not in directory.entries:
                self._check_creatable(path)
                directory.set(name, _Directory())
            node = directory.entries[name]
            assert isinstance(node, _Directory), f"{path}: {name} is a file"
            directory = node

    def rename(self, source: str, target: str) -> None:
        directory, name = self._parent(source)
        other, new_name = self._parent(target)
        assert directory is other, "nothing is moved between directories"
        if name not in directory.entries:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), source)
        self.change()
        directory.rename(name, new_name)

    def remove(self, path: str) -> None:
        directory, name = self._parent(path)
        if name in directory.entries:
            self.change()
            directory.remove(name)

    def rmtree(self, path: str) -> None:
        self.remove(path)

    def sync_dir(self, path: str) -> None:
        directory = self._directory(path)
        self.change()
        if any(part in path for part in self.failing_syncs):
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        directory.sync()

    def sync_all(self) -> None:
        self.change()
        _sync_all(self._root)

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
        if any(part in path for part in self.failing_creates):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    # ---- nodes

    def _node(self, path: str) -> _Node:
        node: _Node = self._root
        for name in _parts(path):
            if not isinstance(node, _Directory) or name not in node.entries:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            node = node.entries[name]
        return node

    def _inode(self, path: str) -> _Inode:
        node = self._node(path)
        assert isinstance(node, _Inode), f"{path} is a directory"
        return node

    def _directory(self, path: str) -> _Directory:
        node = self._node(path)
        assert isinstance(node, _Directory), f"{path} is a file"
        return node

    def _parent(self, path: str) -> tuple[_Directory, str]:
        parent, _, name = path.rpartition("/")
        return self._directory(parent), name


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part]


def _sync_all(directory: _Directory) -> None:
    directory.sync()
    for node in directory.entries.values():
        if isinstance(node, _Directory):
            _sync_all(node)
        else:
            node.sync()


def _used_bytes(directory: _Directory) -> int:
    return sum(
        _used_bytes(node) if isinstance(node, _Directory) else len(node.data) for node in directory.entries.values()
    )
