"""The folder that a job commits to: what exactly-once asks of a file system, and nothing else.

Hadoop's classes reach every file system that Spark can write to, but on a local one they promise less than the
operating system does: two writers can both "create" a file, nothing is flushed, and nothing can be locked. So a local
folder is handled by the operating system itself.
"""

import fcntl
import os
import re
import shutil
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import IO

from pyspark.sql import SparkSession

from barnabas.pipelines.shared.failure import Failure
from barnabas.pipelines.shared.files.file_system import Files


class Folder(ABC):
    """One folder. Paths are below the root, or absolute: then they come from `sibling`. An empty one is the root."""

    def __init__(self, root: str) -> None:
        self.root = root.rstrip("/")

    def sibling(self, name: str) -> str:
        """Returns a path beside the root: on the same file system, and where no reader of the root looks."""
        parent, slash, last = self.root.rpartition("/")
        if not slash or not last or parent.endswith(":/"):
            raise Failure(f"{self.root or '/'} has no parent folder to prepare files in: name a folder below it")
        return f"{parent}/{name}"

    @abstractmethod
    def uri(self, path: str = "") -> str:
        """Returns the name that Spark has for it."""

    @abstractmethod
    def names(self, path: str) -> list[str]:
        """Returns what the folder holds, sorted; nothing if it does not exist."""

    @abstractmethod
    def exists(self, path: str) -> bool: ...

    @abstractmethod
    def read(self, path: str) -> str:
        """Returns the text of a file. Raises FileNotFoundError."""

    @abstractmethod
    def create(self, path: str, text: str) -> bool:
        """Creates a file, whole or not at all. Returns False if it exists already: of two who try, one succeeds."""

    @abstractmethod
    def replace(self, path: str, text: str) -> None:
        """Writes a file again: readers see the old text or the new."""

    @abstractmethod
    def move(self, source: str, target: str) -> None:
        """Moves a file; creates its new folder. Raises FileNotFoundError if there is no source; replaces nothing."""

    @abstractmethod
    def link(self, path: str, target: str) -> None:
        """Lets a name in the root lead to a folder below it, in one step, if the file system has links."""

    @abstractmethod
    def remove(self, path: str) -> None:
        """Removes a path with all that is in it; does nothing if it does not exist."""

    @abstractmethod
    def remove_empty(self, path: str) -> None:
        """Removes a folder that holds nothing; any other stays."""

    @abstractmethod
    def sync(self, paths: Iterable[str]) -> None:
        """Makes files and their names survive a power cut, where the file system has a way to do so."""

    @abstractmethod
    def lock(self, path: str) -> IO[str] | None:
        """Returns a lock that is held until it is closed or the process ends; None where there are no locks. Raises
        BlockingIOError."""


def open_folder(spark: SparkSession, path: str) -> Folder:
    if set(path) & set("*?[]{}"):
        raise Failure(f"{path}: Spark would read this as a pattern; choose a name without * ? [ ] {{ }}")
    return folder_of(Files(spark, path))


def folder_of(files: Files) -> Folder:
    local = re.fullmatch(r"file:(?://)?(/.*)", files.root)
    return LocalFolder(local[1]) if local else HadoopFolder(files)


class LocalFolder(Folder):
    def uri(self, path: str = "") -> str:
        return f"file://{self._at(path)}".rstrip("/")

    def names(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(self._at(path)))
        except FileNotFoundError:
            return []

    def exists(self, path: str) -> bool:
        return os.path.exists(self._at(path))

    def read(self, path: str) -> str:
        with open(self._at(path), encoding="utf-8") as file:
            return file.read()

    def create(self, path: str, text: str) -> bool:
        half, target = self._half(path, text), self._at(path)
        try:
            os.link(half, target)
        except FileExistsError:
            return False
        finally:
            os.unlink(half)
        _sync_directory(os.path.dirname(target))
        return True

    def replace(self, path: str, text: str) -> None:
        target = self._at(path)
        os.replace(self._half(path, text), target)
        _sync_directory(os.path.dirname(target))

    def move(self, source: str, target: str) -> None:
        moved = self._at(target)
        if os.path.lexists(moved):
            raise FileExistsError(moved)
        os.makedirs(os.path.dirname(moved), exist_ok=True)
        os.rename(self._at(source), moved)

    def link(self, path: str, target: str) -> None:
        half = self._at(f".{uuid.uuid4().hex}")
        os.symlink(target, half)
        os.replace(half, self._at(path))
        _sync_directory(self.root)

    def remove(self, path: str) -> None:
        at = self._at(path)
        if os.path.isdir(at) and not os.path.islink(at):
            shutil.rmtree(at, ignore_errors=True)
        elif os.path.lexists(at):
            os.unlink(at)

    def remove_empty(self, path: str) -> None:
        try:
            os.rmdir(self._at(path))
        except OSError:
            pass

    def sync(self, paths: Iterable[str]) -> None:
        files = [self._at(path) for path in paths]
        for file in files:
            _sync(file, os.O_RDONLY)
        for directory in sorted({os.path.dirname(file) for file in files}):
            _sync_up_to(directory, os.path.dirname(self.root))

    def lock(self, path: str) -> IO[str] | None:
        os.makedirs(os.path.dirname(self._at(path)), exist_ok=True)
        file = open(self._at(path), "a", encoding="utf-8")  # noqa: SIM115 - the caller holds it
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise
        return file

    def _at(self, path: str) -> str:
        return os.path.join(self.root, path)

    def _half(self, path: str, text: str) -> str:
        """Writes the text beside its target, under a name that no reader looks for."""
        target = self._at(path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        half = f"{os.path.dirname(target)}/.{uuid.uuid4().hex}"
        with open(half, "x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        return half


def _sync_up_to(directory: str, top: str) -> None:
    """Syncs all folders above a new file: it survives a power cut only if they do."""
    while len(directory) > len(top):
        _sync_directory(directory)
        directory = os.path.dirname(directory)


def _sync_directory(path: str) -> None:
    _sync(path, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: str, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class HadoopFolder(Folder):
    def __init__(self, files: Files) -> None:
        super().__init__(files.root)
        self._files = files

    def uri(self, path: str = "") -> str:
        return self._files.path(path) if path and ":" not in path else path or self.root

    def names(self, path: str) -> list[str]:
        return self._files.names(path)

    def exists(self, path: str) -> bool:
        return self._files.exists(path)

    def read(self, path: str) -> str:
        return self._files.read_text(path)

    def create(self, path: str, text: str) -> bool:
        try:
            self._files.write_text_atomically(path, text)
        except FileExistsError:
            return False
        return True

    def replace(self, path: str, text: str) -> None:
        self._files.write_text_atomically(path, text, overwrite=True)

    def move(self, source: str, target: str) -> None:
        self._files.make_directory(target.rpartition("/")[0])
        self._files.rename(source, target)

    def link(self, path: str, target: str) -> None:
        """Does nothing: there are no links."""

    def remove(self, path: str) -> None:
        self._files.delete(path, recursive=True)

    def remove_empty(self, path: str) -> None:
        """Does nothing: here no folder is created without a file in it."""

    def sync(self, paths: Iterable[str]) -> None:
        """Does nothing: a closed file is as durable here as it can be."""

    def lock(self, path: str) -> IO[str] | None:
        return None
