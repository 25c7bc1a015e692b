"""Files on any file system that Spark can write to, by Hadoop's own classes."""

import uuid
from typing import Any, NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from barnabas.pipelines.failure import Failure


class FileStatus(NamedTuple):
    path: str
    name: str
    is_directory: bool
    size_bytes: int
    modified_ms: int


class Files:
    """Paths are absolute, or below `root`."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        self._jvm: Any = spark._jvm
        self._gateway: Any = spark.sparkContext._gateway
        self._conf = spark._jsc.hadoopConfiguration()
        self.root = self._made_absolute(root)
        self._fs = self._path(self.root).getFileSystem(self._conf)

    def path(self, *parts: str) -> str:
        return "/".join((self.root.rstrip("/"), *parts)) if parts else self.root

    def exists(self, path: str) -> bool:
        return bool(self._fs.exists(self._path(path)))

    def list(self, path: str) -> list[FileStatus]:
        """By name; nothing if there is no such folder."""
        if not self.exists(path):
            return []
        return sorted((self._status(found) for found in self._fs.listStatus(self._path(path))), key=lambda s: s.name)

    def make_directory(self, path: str) -> None:
        self._fs.mkdirs(self._path(path))

    def delete(self, path: str, recursive: bool = False) -> bool:
        """False if there was nothing."""
        return bool(self._fs.delete(self._path(path), recursive))

    def rename(self, source: str, target: str) -> None:
        """Raises FileExistsError if the target exists, FileNotFoundError if the source does not."""
        self._rename(source, target, overwrite=False)

    def read_text(self, path: str) -> str:
        stream = self._fs.open(self._path(path))
        try:
            return bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()

    def write_text_atomically(self, path: str, text: str, *, overwrite: bool = False) -> None:
        """Readers see all of it or none. Raises FileExistsError if it exists and may not be replaced."""
        target = self._path(path)
        half = self._jvm.org.apache.hadoop.fs.Path(target.getParent(), f".{target.getName()}.{uuid.uuid4().hex}.part")
        stream = self._fs.create(half, True)
        try:
            stream.write(bytearray(text.encode()))
            stream.hsync()
        finally:
            stream.close()
        self._rename(half.toString(), path, overwrite=overwrite)

    def same_file_system(self, one: str, other: str) -> bool:
        def system(path: str) -> Any:
            return self._path(path).getFileSystem(self._conf).getUri()

        return bool(system(one).equals(system(other)))

    def _rename(self, source: str, target: str, *, overwrite: bool) -> None:
        option = getattr(self._jvm, "org.apache.hadoop.fs.Options$Rename")
        context = self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(self._fs.getUri(), self._conf)
        array = self._gateway.new_array(option, 1)
        array[0] = option.OVERWRITE if overwrite else option.NONE
        try:
            context.rename(self._path(source), self._path(target), array)
        except Py4JJavaError as error:
            kind = error.java_exception.getClass().getSimpleName()
            if kind == "FileAlreadyExistsException":
                raise FileExistsError(target) from error
            if kind == "FileNotFoundException":
                raise FileNotFoundError(source) from error
            raise Failure(f"{source} could not be renamed to {target}: {error.java_exception.getMessage()}") from error

    def _status(self, found: Any) -> FileStatus:
        path = found.getPath()
        return FileStatus(
            path.toString(), path.getName(), bool(found.isDirectory()), found.getLen(), found.getModificationTime()
        )

    def _path(self, path: str) -> Any:
        if not self._jvm.org.apache.hadoop.fs.Path(path).isAbsolute():
            path = self.path(path)
        return self._jvm.org.apache.hadoop.fs.Path(path)

    def _made_absolute(self, path: str) -> str:
        given = self._jvm.org.apache.hadoop.fs.Path(path)
        return str(given.getFileSystem(self._conf).makeQualified(given).toString())
