"""Spark in tests: batch reads and writes, queries that run in the background, and topics to read."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from compat_tests.brokers import CACHE
from compat_tests.harness.clients import Client, python_driver
from compat_tests.harness.driver import Driver, Record, to_bytes
from compat_tests.harness.groups import eventually

QUICK = {
    # Spark asks for the ends of a partition after each fetch, when its consumer has sent the next fetch already: a
    # broker answers in order, so every task would wait the half second that a fetch of nothing takes.
    "kafka.fetch.max.wait.ms": "20",
    "fetchOffset.retryIntervalMs": "20",  # between the three attempts at offsets that are an error, or went back
}

AVAILABLE_NOW = {"availableNow": True}
EARLIEST: dict[str, Any] = {"startingOffsets": "earliest"}
AT_ONCE = {"processingTime": "0 seconds"}
QUERY_SECONDS = 60


def spark_client(version: str, folder: Path) -> Client:
    jars = CACHE / f"spark-kafka-{version}" / "libs"
    older = CACHE / f"pyspark-{version}"  # where PySpark is not the one that is installed
    path = (("PYTHONPATH", str(older)),) if version == "3.5.7" else ()
    command = (*python_driver("spark_client.py"), str(folder), *map(str, sorted(jars.glob("*.jar"))))
    environment = (("SPARK_LOCAL_IP", "127.0.0.1"), *path)
    needs: tuple[str | Path, ...] = ("java", jars, older) if path else ("java", jars)
    return Client(f"pyspark-{version}", f"Spark {version}", command, needs, environment)


class Row(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp: int
    type: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]] | None


def row_of(fields: dict[str, Any]) -> Row:
    headers = fields["headers"] and [(name, to_bytes(value)) for name, value in fields["headers"]]
    return Row(**fields | {"key": to_bytes(fields["key"]), "value": to_bytes(fields["value"]), "headers": headers})


def rows_of(parts: list[list[dict[str, Any]]]) -> list[list[Row]]:
    return [[row_of(fields) for fields in part] for part in parts]


class State(NamedTuple):
    """The state of a query: everything since it was started."""

    batches: list[list[Row]]
    active: bool
    status: str
    failure: str | None
    progress: list[dict[str, Any]]

    @property
    def rows(self) -> list[Row]:
        return [row for batch in self.batches for row in batch]


class Query:
    def __init__(self, driver: Driver, name: str) -> None:
        self.driver = driver
        self.name = name

    def state(self) -> State:
        return self._told(self.driver.ask("state", query=self.name))

    def stop(self) -> State:
        return self._told(self.driver.ask("stop", query=self.name))

    def _told(self, state: dict[str, Any]) -> State:
        return State(**state | {"batches": rows_of(state["batches"])})

    def wait_until(self, condition: Callable[[State], bool], what: str) -> State:
        def met() -> State | None:
            state = self.state()
            found = condition(state)
            assert found or state.active, f"ended before {what}: {state.failure}"
            return state if found else None

        found: State = eventually(met, what, self.state, seconds=QUERY_SECONDS)
        return found

    def wait_for_rows(self, count: int) -> State:
        return self.wait_until(lambda state: len(state.rows) >= count, f"{count} rows are read")

    def wait_for_data(self) -> State:
        """Waits until it has seen that there is nothing to read: it knows where it starts."""
        return self.wait_until(lambda state: state.status == "Waiting for data to arrive", "it waits for data")

    def wait_until_ended(self) -> State:
        return self.wait_until(lambda state: not state.active, "it has ended")

    def failure(self) -> str:
        """Returns the error that it ends with, in Spark's words."""
        failure = self.wait_until_ended().failure
        assert failure is not None, "it ended, but did not fail"
        return failure


class Spark:
    """One session; options are Spark's own, and what is not text becomes JSON."""

    def __init__(self, version: str, driver: Driver) -> None:
        self.version = version
        self.driver = driver
        self.queries: list[Query] = []

    def read(self, **options: Any) -> list[Row]:
        return [row for task in self.tasks(**options) for row in task]

    def tasks(self, **options: Any) -> list[list[Row]]:
        """Returns the rows by the task that read them."""
        return rows_of(self.driver.ask("read", options=as_text(QUICK | options))["tasks"])

    def write(self, sql: str, **options: Any) -> None:
        self.driver.ask("write", sql=sql, options=as_text(options))

    def start(
        self,
        checkpoint: Path,
        trigger: dict[str, Any] = AT_ONCE,
        columns: tuple[str, ...] = ("key", "value"),
        sink: dict[str, Any] | None = None,
        **options: Any,
    ) -> Query:
        """Starts a query. Without a sink it keeps its batches; with one it writes these columns to Kafka."""
        query = Query(self.driver, f"{checkpoint}-{len(self.queries)}")
        self.queries.append(query)
        self.driver.ask(
            "start",
            query=query.name,
            checkpoint=str(checkpoint),
            trigger=trigger,
            options=as_text(QUICK | options),
            columns=columns,
            sink=None if sink is None else as_text(sink),
        )
        return query

    def run(self, checkpoint: Path, trigger: dict[str, Any] = AVAILABLE_NOW, **options: Any) -> State:
        """Runs a query that ends by itself."""
        state = self.start(checkpoint, trigger, **options).wait_until_ended()
        assert state.failure is None, state.failure
        return state

    def configure(self, **settings: str | None) -> None:
        self.driver.ask("configure", settings=settings)

    def stop_queries(self) -> None:
        for query in self.queries:
            query.stop()
        self.queries.clear()


def as_text(options: dict[str, Any]) -> dict[str, str]:
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in options.items()}


def offsets(rows: Iterable[Row]) -> dict[int, list[int]]:
    """Returns the offsets read of each partition, in the order in which they came."""
    found: dict[int, list[int]] = {}
    for row in rows:
        found.setdefault(row.partition, []).append(row.offset)
    return found


class Topic:
    """A topic of a test's own. The value of a record is its offset, unless the test says otherwise."""

    def __init__(self, writer: Driver, name: str, partitions: int = 1, **configs: Any) -> None:
        self.writer = writer
        self.name = name
        self.configs = as_text(configs)
        self.ends: list[int] = []
        self.create(partitions)

    def create(self, partitions: int = 1) -> None:
        self.ask("create_topic", partitions=partitions, configs=self.configs)
        self.ends = [0] * partitions

    def ask(self, op: str, **fields: Any) -> dict[str, Any]:
        return self.writer.ask(op, topic=self.name, **fields)

    def write(self, count: int, partition: int = 0, *, timestamps: Iterable[int] | None = None) -> None:
        """Writes so many more records, with these timestamps if they are named."""
        first = self.ends[partition]
        times = [None] * count if timestamps is None else list(timestamps)
        self.append([Record(value=b"%d" % (first + i), timestamp=times[i], partition=partition) for i in range(count)])

    def append(self, records: list[Record]) -> None:
        self.writer.produce(self.name, records)
        for record in records:
            self.ends[record.partition] += 1

    def grow(self, partitions: int) -> None:
        self.ask("create_partitions", partitions=partitions)
        self.ends += [0] * (partitions - len(self.ends))

    def delete_before(self, offset: int, partition: int = 0) -> None:
        assert self.ask("delete_records", partition=partition, before=offset) == {"low_watermark": offset}

    def offsets(self, partition: int = 0) -> tuple[int, int]:
        """Returns the first offset, and the next to be written."""
        found = self.writer.offsets(self.name, partition=partition)
        return found["beginning"], found["end"]

    def read(self, count: int, partitions: Iterable[int] = (0,)) -> list[Record]:
        """Reads the first records with another client."""
        # librdkafka looks for a beginning half a second long.
        return self.writer.consume(self.name, count, partitions=partitions, start={"offset": 0})

    def values(self, count: int) -> list[bytes | None]:
        return [record.value for record in self.read(count)]


NewTopic = Callable[..., Topic]  # new_topic(partitions, suffix of the name, **configs)
