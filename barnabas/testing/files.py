"""The disk of a cluster that no power cut will hit: nothing is synced, and so nobody waits for the device.

A process that is killed loses nothing by it: what it has written is in the system's cache, for the next one as well.
"""

import os

from barnabas.broker.system.disk import OsFile, OsFiles


class UnsyncedFile(OsFile):
    __slots__ = ()

    def sync(self) -> None:
        pass


class UnsyncedFiles(OsFiles):
    __slots__ = ()

    def open(self, path: str, *, create: bool = False) -> OsFile:
        flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC
        return UnsyncedFile(os.open(path, flags | os.O_CREAT if create else flags, 0o644))

    def sync_dir(self, path: str) -> None:
        pass

    def sync_all(self) -> None:
        pass
