"""Files that an interrupted deletion, compaction or checkpoint leaves in a partition's directory.

Rules, Kafka's: `.deleted` and `.cleaned` files go. A `.swap` file is a finished replacement for segments: it takes
its name, and the segments it covers go, unless a `.cleaned` file at or below its offset shows that it belongs to a
split that was not finished. Index files without their log go.

Ours, because a power cut may keep a later change and lose an earlier one: `.swap` files that are no good are gone
before the `.cleaned` files that show it, and the segments that a good one covers before it takes its name. Its log
takes it before its index files do: without a log beside them these would be taken for the old segments'.
"""

from barnabas.base.environment import Report
from barnabas.base.files import TEMPORARY_SUFFIX, Files
from barnabas.storage.segments.batches import iter_headers
from barnabas.storage.segments.segment import (
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
)

CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"

_UNFINISHED = (DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX, TEMPORARY_SUFFIX)
_METADATA_SNAPSHOT_DELETED = ".checkpoint" + DELETED_SUFFIX
"""The metadata log takes care of these: it knows its snapshots."""
_INDEXES = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)


def clear_unfinished(files: Files, path: str, report: Report) -> set[str]:
    """Puts the directory in order. Returns the names that it holds afterwards."""
    names = set(files.listdir(path))
    if not any(_is_unfinished(name, names) for name in names):
        return names
    cleaned = [_offset(name) for name in names if name.endswith(CLEANED_SUFFIX)]
    swaps = [name for name in names if name.endswith(SWAP_SUFFIX)]
    good_swaps = [name for name in swaps if not cleaned or _offset(name) < min(cleaned)]
    if swaps:
        files.sync_dir(path)  # a killed broker may not have done it: good files must be durable before others go
    bad = [name for name in sorted(names - set(good_swaps)) if _is_unfinished(name, names)]
    for name in bad:
        report.info(f"{path}: removed {name}, which something interrupted had left", path=f"{path}/{name}")
    _remove_in_order(files, path, bad)
    _swap_in(files, path, names, good_swaps)
    _remove_orphans(files, path)
    files.sync_dir(path)
    return set(files.listdir(path))


def remove_unfinished(files: Files, path: str) -> None:
    """Removes what a failed compaction has left while the log is in use. None of it has begun to replace a segment."""
    _remove_in_order(
        files, path, [name for name in files.listdir(path) if name.endswith((CLEANED_SUFFIX, SWAP_SUFFIX))]
    )


def _remove_in_order(files: Files, path: str, names: list[str]) -> None:
    swaps = [name for name in names if name.endswith(SWAP_SUFFIX)]
    for name in swaps:
        files.remove(f"{path}/{name}")
    if swaps:
        files.sync_dir(path)
    for name in names:
        files.remove(f"{path}/{name}")


def _is_unfinished(name: str, names: set[str]) -> bool:
    if name.endswith(_UNFINISHED):
        return not name.endswith(_METADATA_SNAPSHOT_DELETED)
    return name.endswith(_INDEXES) and name.partition(".")[0] + LOG_SUFFIX not in names


def _offset(name: str) -> int:
    stem = name.partition(".")[0]
    return int(stem) if stem.isdigit() else 0


def _swap_in(files: Files, path: str, names: set[str], swaps: list[str]) -> None:
    logs = [name for name in swaps if name.endswith(LOG_SUFFIX + SWAP_SUFFIX)]
    if logs:
        first = min(_offset(name) for name in logs)
        end = max(_next_offset(files, f"{path}/{name}", _offset(name)) for name in logs)
        for name in names:
            is_segment = name.endswith((LOG_SUFFIX, *_INDEXES))
            if is_segment and first <= _offset(name) < end:
                files.remove(f"{path}/{name}")
        files.sync_dir(path)
    for names_of_turn in (logs, [name for name in swaps if name not in logs]):
        for name in names_of_turn:
            files.rename(f"{path}/{name}", f"{path}/{name.removesuffix(SWAP_SUFFIX)}")
        files.sync_dir(path)


def _next_offset(files: Files, path: str, base_offset: int) -> int:
    file = files.open(path)
    for _, header in iter_headers(file, 0, file.size()):
        base_offset = header.next_offset
    return base_offset


def _remove_orphans(files: Files, path: str) -> None:
    names = set(files.listdir(path))
    for name in names:
        if name.endswith(_INDEXES) and name.partition(".")[0] + LOG_SUFFIX not in names:
            files.remove(f"{path}/{name}")
