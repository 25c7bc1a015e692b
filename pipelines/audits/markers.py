"""Finds out what is at offsets that have no record: the marker of a transaction, or nothing.

No consumer sees a marker, but its position moves past one. A consumer that gets one batch at a time is put on the
offset: if it comes out after it without a record, there was a marker; if it gets a later record, there was nothing.
"""

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from pyspark.sql import SparkSession

from barnabas.pipelines.shared.explain import SPARK_ERRORS, explain

TIMEOUT_MS = 15_000
# Less than any batch has: a broker returns one all the same, and not the next.
ONE_BATCH = {"max.partition.fetch.bytes": "1", "fetch.max.bytes": "1", "fetch.min.bytes": "1"}
OWN = {"enable.auto.commit": "false", "auto.offset.reset": "earliest", "isolation.level": "read_uncommitted"}


class Markers:
    """Inspects up to `limit` batches of a topic. Close it, or use it as a context manager."""

    def __init__(self, spark: SparkSession, settings: Mapping[str, str], topic: str, limit: int) -> None:
        jvm: Any = spark._jvm
        self._jvm = jvm
        self._topic = topic
        self._left = limit
        self._servers = settings["kafka.bootstrap.servers"]
        given = {key.removeprefix("kafka."): value for key, value in settings.items() if key.startswith("kafka.")}
        properties = jvm.java.util.HashMap()
        for key, value in {**given, **ONE_BATCH, **OWN}.items():
            properties.put(key, value)
        bytes_as_they_are = jvm.org.apache.kafka.common.serialization.ByteArrayDeserializer
        consumer = jvm.org.apache.kafka.clients.consumer.KafkaConsumer
        try:
            self._consumer = consumer(properties, bytes_as_they_are(), bytes_as_they_are())
        except SPARK_ERRORS as error:
            raise explain(error, self._servers) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self._consumer.close(self._jvm.java.time.Duration.ofSeconds(5))

    def count(self, partition: int, offsets: range) -> int | None:
        """Returns how many of the offsets, which have no records, have a marker; None if that would take too long."""
        try:
            place = self._jvm.org.apache.kafka.common.TopicPartition(self._topic, partition)
            self._consumer.assign([place])
            self._consumer.seek(place, offsets.start)
            markers, position = 0, offsets.start
            while position < offsets.stop:
                if self._left == 0:
                    return None
                self._left -= 1
                found = self._consumer.poll(self._jvm.java.time.Duration.ofMillis(TIMEOUT_MS))
                before, position = position, self._consumer.position(place)
                if position == before:
                    return None
                # A marker is one batch with one offset: whatever else was skipped is not there.
                markers += bool(found.isEmpty() and position <= offsets.stop)
            return markers
        except SPARK_ERRORS as error:
            raise explain(error, self._servers) from error
