"""Files on any file system that Spark can write to, by Hadoop's own classes.

What Hadoop says of a file that is missing or in the way becomes Python's FileNotFoundError and FileExistsError;
everything else is a Failure.
"""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

from barnabas.pipelines.shared.explain import SPARK_ERRORS, innermost, java_exception
from barnabas.pipelines.shared.failure import Failure


class Files:
    """The files of one file system. Paths are absolute, or below `root`; an empty one is the root."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        jvm: Any = spark._jvm
        self._jvm = jvm
        self._gateway: Any = spark.sparkContext._gateway
        self._conf = spark._jsc.hadoopConfiguration()
        with _explained("open", root):
            given = self._jvm.org.apache.hadoop.fs.Path(root)
            self._fs = given.getFileSystem(self._conf)
            self.root = str(self._fs.makeQualified(given).toString())

    def path(self, *parts: str) -> str:
        return "/".join((self.root.rstrip("/"), *parts)) if parts else self.root

    def exists(self, path: str) -> bool:
        with _explained("look for", path):
            return bool(self._fs.exists(self._path(path)))

    def names(self, path: str) -> list[str]:
        """Returns what the folder holds, sorted; nothing if it does not exist."""
        try:
            with _explained("list", path):
                return sorted(found.getPath().getName() for found in self._fs.listStatus(self._path(path)))
        except FileNotFoundError:
            return []

    def make_directory(self, path: str) -> None:
        """Creates a directory, and those above it."""
        with _explained("make", path):
            self._fs.mkdirs(self._path(path))

    def delete(self, path: str, recursive: bool = False) -> bool:
        """Returns False if there was nothing to delete."""
        with _explained("delete", path):
            return bool(self._fs.delete(self._path(path), recursive))

    def rename(self, source: str, target: str) -> None:
        """Raises FileExistsError if the target exists, FileNotFoundError if the source or the target's folder does not.

        HDFS does this in one step. A local file system looks first and renames then: two who try at once may both
        succeed there, and object stores copy.
        """
        self._rename(source, target, overwrite=False)

    def read_text(self, path: str) -> str:
        with _explained("read", path):
            stream = self._fs.open(self._path(path))
            try:
                return bytes(stream.readAllBytes()).decode()
            finally:
                stream.close()

    def write_text_atomically(self, path: str, text: str, *, overwrite: bool = False) -> None:
        """Writes a file that readers see whole or not at all. Raises FileExistsError if it exists and must stay."""
        target = self._path(path)
        half = self._jvm.org.apache.hadoop.fs.Path(target.getParent(), f".{target.getName()}.{uuid.uuid4().hex}.part")
        with _explained("write", path):
            stream = self._fs.create(half, False)
            try:
                stream.write(bytearray(text.encode()))
                if stream.hasCapability("hsync"):
                    stream.hsync()
            finally:
                stream.close()
        try:
            self._rename(half.toString(), path, overwrite=overwrite)
        except BaseException:
            self.delete(half.toString())
            raise

    def _rename(self, source: str, target: str, *, overwrite: bool) -> None:
        option = getattr(self._jvm, "org.apache.hadoop.fs.Options$Rename")
        options = self._gateway.new_array(option, 1)
        options[0] = option.OVERWRITE if overwrite else option.NONE
        with _explained(f"rename to {target}", source):
            # FileSystem.rename replaces what is there on some file systems and not on others; here we choose.
            context = self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(self._fs.getUri(), self._conf)
            context.rename(self._path(source), self._path(target), options)

    def _path(self, path: str) -> Any:
        made = self._jvm.org.apache.hadoop.fs.Path(path or self.root)  # Hadoop refuses an empty path
        return made if made.isAbsolute() else self._jvm.org.apache.hadoop.fs.Path(self.path(path))


@contextmanager
def _explained(what: str, path: str) -> Iterator[None]:
    try:
        yield
    except SPARK_ERRORS as error:
        if (thrown := java_exception(error)) is None:
            raise  # the JVM is gone
        kind = thrown.getClass().getSimpleName()
        if kind in ("FileNotFoundException", "NoSuchFileException"):
            raise FileNotFoundError(f"{path}: {innermost(error)}") from error
        if kind == "FileAlreadyExistsException":
            raise FileExistsError(f"{path}: {innermost(error)}") from error
        if kind == "UnsupportedFileSystemException":
            raise Failure(
                f"{path}: Spark has no file system for it ({innermost(error)}); "
                "add its package with --conf spark.jars.packages=…"
            ) from error
        raise Failure(f"could not {what} {path}: {innermost(error)}") from error
