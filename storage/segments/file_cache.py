"""A capped set of open files: ten thousand partitions must not need ten thousand descriptors.

The least recently used handle is let go when one more is needed. Letting go closes it only if nobody else holds it: a
slice on its way to a socket or an fsync in a worker keeps its own reference and its file stays open until it is done.
Only the loop's thread uses the cache; workers are given files.
"""

import errno
from collections import OrderedDict

from barnabas.base.files import File, Files

OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)


class FileCache:
    __slots__ = ("_capacity", "_files", "_open")

    def __init__(self, files: Files, capacity: int) -> None:
        assert capacity > 0, "without a handle nothing can be read"
        self._files = files
        self._capacity = capacity
        self._open: OrderedDict[str, File] = OrderedDict()

    def open(self, path: str, create: bool = False) -> File:
        file = self._open.get(path)
        if file is None:
            return self._open_anew(path, create)
        self._open.move_to_end(path)
        return file

    def _open_anew(self, path: str, create: bool) -> File:
        try:
            file = self._files.open(path, create=create)
        except OSError as error:
            if error.errno not in OUT_OF_DESCRIPTORS:
                raise
            self.forget_all()  # connections took more than was left for them
            file = self._files.open(path, create=create)
        while len(self._open) >= self._capacity:
            self._open.popitem(last=False)
        self._open[path] = file
        return file

    def forget(self, path: str) -> None:
        """Forgets a file that is renamed or removed; its users keep it."""
        self._open.pop(path, None)

    def forget_all(self) -> None:
        self._open.clear()

    def __len__(self) -> int:
        return len(self._open)
