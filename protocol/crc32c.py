"""CRC-32C (Castagnoli), the checksum of record batches.

The package `crc32c` imports `importlib.metadata` to learn its own version, which costs more than the rest of the
broker's start. Its C extension needs none of that, so it is loaded by itself; where it cannot be found, the package is
imported.
"""

from importlib.machinery import PathFinder
from typing import Protocol, cast


class Crc32c(Protocol):
    def __call__(self, data: bytes | bytearray | memoryview, value: int = 0, /) -> int: ...


def _load() -> Crc32c:
    return _load_extension() or _load_package()


def _load_extension() -> Crc32c | None:
    """Finds the package without running it, then the extension inside it; None where either is not as expected."""
    package = PathFinder.find_spec("crc32c")
    if package is None or package.submodule_search_locations is None:
        return None
    spec = PathFinder.find_spec("crc32c._crc32c", list(package.submodule_search_locations))
    if spec is None or spec.loader is None:
        return None
    try:
        module = spec.loader.create_module(spec)
        if module is None:
            return None
        spec.loader.exec_module(module)
        return cast(Crc32c, module.crc32c)
    except (ImportError, AttributeError):
        return None


def _load_package() -> Crc32c:
    from crc32c import crc32c

    return crc32c


crc32c: Crc32c = _load()
"""`crc32c(buffer, value=0)`: the checksum, continued from `value`. The C function itself: no call of ours around it."""
