"""Real processes that die while a topic is archived: an executor, the broker, the job with everything it started."""

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from pyspark.sql import SparkSession

from barnabas.pipelines import archive
from tests.pipelines.archives import Seen, once_each, seen_by_duckdb, seen_by_pyarrow
from tests.pipelines.gated_broker import GatedBroker
from tests.pipelines.jobs import LOCAL_CLUSTER, Job, running_job
from tests.pipelines.records import Record, create_topic, produce

ESTABLISHED = "01"
VALUE = bytes(1000)


def test_whatever_is_killed_every_offset_is_archived_once(
    gated_broker: GatedBroker, spark: SparkSession, tmp_path: Path
) -> None:
    bootstrap, output, staging = gated_broker.bootstrap_servers, tmp_path / "out", tmp_path / ".out.archive.staging"
    words = ("--bootstrap-servers", bootstrap, "--topic", "orders", "--output", str(output))
    create_topic(bootstrap, "orders", 2)
    produce(bootstrap, "orders", records(50, 50))
    words_of_job = ("pipeline", "archive", *words, "--every", "100ms")
    with running_job(tmp_path, *words_of_job, master=LOCAL_CLUSTER) as job:
        with gated_broker.gate.narrowed(received=20 * len(VALUE)):  # no task can end
            job.wait_until(lambda: len(connected(executors(job), gated_broker.gate.port)) == 2)
            os.kill(executors(job)[0], signal.SIGKILL)
        job.wait_until(archived(output, 50, 50))
        assert "Lost executor" in job.log()

        gated_broker.kill()
        gated_broker.start()
        produce(bootstrap, "orders", records(50, 50))
        job.wait_until(archived(output, 100, 100))

        with gated_broker.gate.narrowed(received=2000 * len(VALUE)):  # one of two tasks cannot end
            with job.paused():
                produce(bootstrap, "orders", records(50, 5000))
            job.wait_until(lambda: any(staging.glob("*/*/_temporary/*/task_*/**/*.parquet")))
            job.kill()
    assert seen_by_pyarrow(output) == expected(100, 100)
    assert archive.run(spark, archive.make_parser().parse_args([*words, "--once"])) == 0
    assert seen_by_pyarrow(output) == seen_by_duckdb(output) == expected(150, 5100)
    assert list(staging.iterdir()) == []


def records(*counts: int) -> list[Record]:
    """So many for each partition."""
    return [Record(b"key", VALUE, partition=partition) for partition, count in enumerate(counts) for _ in range(count)]


def expected(*counts: int) -> Seen:
    return once_each(("orders", partition, offset) for partition, count in enumerate(counts) for offset in range(count))


def archived(output: Path, *counts: int) -> Callable[[], bool]:
    def all_there() -> bool:
        seen = seen_by_pyarrow(output)
        assert set(seen.values()) <= {1}, "an offset is there twice"
        return seen == expected(*counts)

    return all_there


def executors(job: Job) -> list[int]:
    """Returns the executors of the job; all its processes are in its group.

    An executor that starts a program (Hadoop looks for setsid) is two processes with one command line for a moment.
    """
    parents = {}
    for entry in Path("/proc").iterdir():
        try:
            ours = entry.name.isdecimal() and os.getpgid(int(entry.name)) == job.pid
            if ours and b"CoarseGrainedExecutorBackend" in (entry / "cmdline").read_bytes():
                parents[int(entry.name)] = parent_of(entry)
        except OSError:
            continue  # it has ended in between
    return sorted(pid for pid, parent in parents.items() if parent not in parents)


def parent_of(entry: Path) -> int:
    return int((entry / "stat").read_text().rpartition(")")[2].split()[1])


def connected(pids: list[int], port: int) -> list[int]:
    """Returns those of the processes that have a connection to the port."""
    sockets = set()
    for table in ("tcp", "tcp6"):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            columns = line.split()
            if columns[2].endswith(f":{port:04X}") and columns[3] == ESTABLISHED:
                sockets.add(f"socket:[{columns[9]}]")
    return [pid for pid in pids if sockets & descriptors_of(pid)]


def descriptors_of(pid: int) -> set[str]:
    targets = set()
    with suppress(OSError):  # the process has ended in between
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):  # the descriptor was closed in between
                targets.add(os.readlink(link))
    return targets
