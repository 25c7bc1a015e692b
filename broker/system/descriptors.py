"""How the descriptors that the system allows are shared out: to files of logs, to connections, and a few to neither.

These few are there for what cannot wait: a flush opens a directory, an import its file.
"""

from math import inf

_KEPT_MAX = 64
_OPEN_FILES_MIN = 16
_OPEN_FILES_MAX = 65_536


def open_files_max(is_alone: bool) -> int:
    """Returns the limit for files: three quarters of the descriptors; one quarter if the process is somebody else's."""
    shared = _shared()
    return int(max(_OPEN_FILES_MIN, min(shared * (0.75 if is_alone else 0.25), _OPEN_FILES_MAX)))


def connections_below() -> float:
    """Returns the number that a connection's descriptor must be below: the system gives out the lowest that is free."""
    return _shared()


def _shared() -> float:
    from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit

    limit, _ = getrlimit(RLIMIT_NOFILE)
    return inf if limit == RLIM_INFINITY else limit - min(limit // 4, _KEPT_MAX)
