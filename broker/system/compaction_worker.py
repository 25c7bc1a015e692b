"""The process in which compaction runs: `python -m barnabas.broker.system.compaction_worker`.

Jobs come in on standard input, one a line; their results go out on standard output, one line for every segment
that is complete and one at the end of the job. When standard input ends, whatever the reason, the process ends at once:
what it was writing has a name that the next start removes.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Any

from barnabas.broker.system.disk import OsFiles
from barnabas.protocol.errors import CorruptMessage, ProtocolError
from barnabas.storage.compaction.compaction import Compaction
from barnabas.storage.compaction.job import CompactionJob, SegmentToClean
from barnabas.storage.log_config import DOUBLE_MAX
from barnabas.storage.segments.transaction_index import AbortedTransaction

_NICENESS = 5
_THROTTLE_AFTER_S = 0.05


def main() -> None:
    os.nice(_NICENESS)
    jobs: SimpleQueue[CompactionJob] = SimpleQueue()
    threading.Thread(target=_read, args=(jobs,), daemon=True).start()
    while True:
        for answer in answers_to(jobs.get()):
            print(json.dumps(answer), flush=True)


def _read(jobs: "SimpleQueue[CompactionJob]") -> None:
    for line in sys.stdin:
        jobs.put(decode_job(line))
    os._exit(0)


def answers_to(job: CompactionJob) -> Iterator[dict[str, Any]]:
    try:
        compaction = Compaction(OsFiles(), job, throttle=throttle(job.io_max_bytes_per_second))
        for cleaned in compaction.run():
            yield {"cleaned": list(cleaned)}
        yield {"done": list(compaction.stats)}
    except (CorruptMessage, ProtocolError) as error:
        yield {"corrupt": str(error)}
    except OSError as error:
        yield {"failed": str(error), "errno": error.errno}
    except MemoryError:
        yield {"failed": "memory ran out", "errno": None}
    except Exception as error:  # our bug: the same log would meet it again and again
        yield {"corrupt": f"a bug: {error!r}"}


def encode_job(job: CompactionJob) -> bytes:
    fields = job._asdict()
    fields["producers"] = [[producer_id, *last] for producer_id, last in job.producers.items()]
    return json.dumps(fields).encode() + b"\n"


def decode_job(line: str) -> CompactionJob:
    fields = json.loads(line)
    fields["segments"] = tuple(SegmentToClean(*each) for each in fields["segments"])
    fields["aborted"] = tuple(AbortedTransaction(*each) for each in fields["aborted"])
    fields["producers"] = {producer_id: (offset, epoch) for producer_id, offset, epoch in fields["producers"]}
    return CompactionJob(**fields)


def throttle(bytes_per_second: float) -> Callable[[int], None] | None:
    """Keeps to this many bytes a second, counted from the first."""
    if bytes_per_second >= DOUBLE_MAX:
        return None
    started_s = time.monotonic()
    total = 0

    def wait(size: int) -> None:
        nonlocal total
        total += size
        ahead_s = total / bytes_per_second - (time.monotonic() - started_s)
        if ahead_s > _THROTTLE_AFTER_S:
            time.sleep(ahead_s)

    return wait


if __name__ == "__main__":
    main()
