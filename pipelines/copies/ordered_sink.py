"""Spark's Kafka sink, held to one promise: whatever goes wrong, a target partition has the first records, in order.

The producer must not drop a record and continue with the next, and no task may run a second time. What a broker would
refuse is refused here, before it is sent: the producer has sent later records by the time it hears of a refusal.
"""

import re
from collections import Counter
from collections.abc import Mapping
from datetime import timedelta

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from barnabas.pipelines.shared.explain import explain
from barnabas.pipelines.shared.failure import Failure

FIXED = {
    "kafka.enable.idempotence": "true",
    "kafka.acks": "all",
    "kafka.retries": "2147483647",
}
DEFAULTS = {
    "kafka.compression.type": "lz4",
    "kafka.linger.ms": "20",
    "kafka.batch.size": "131072",
    "kafka.buffer.memory": "67108864",
    "kafka.max.request.size": "67108864",  # topics say how large a record may be
}
MAX_MS = 2**31 - 1
REQUEST_TIMEOUT_MS = 30_000
"""Kafka's default."""

NO_RETRIES = {"spark.task.maxFailures": "1", "spark.speculation": "false"}
"""Settings of Spark: a task that is started again is refused below, but then the first failure is not reported."""

# Spark SQL has no function for the attempt's number, but the thread of a task is named after it (3.5, 4.0 and later).
# Under any other name nothing is written at all.
FIRST_ATTEMPT = r"task \d+\.0 in stage \d+\.0 \(TID"

BATCH_OVERHEAD_BYTES = 61
RECORD_OVERHEAD_BYTES = 3
"""Attributes, timestamp and offset; the latter two are those of the batch if it is the only record."""
VARINT_LIMITS = (2**6, 2**13, 2**20, 2**27)
"""Lengths below these take one byte, two, three and four."""

# What cannot be compressed grows a little: by a frame, and by a few bytes for each block.
FRAME_BYTES = {"lz4": 16}
OTHER_FRAME_BYTES = 100
BLOCK_BYTES = 4
BLOCK_SIZE = 8192

# Quotes what a guard says, to find it again in what Spark makes of it.
OPEN, CLOSE = "⟦", "⟧"


def sink_settings(settings: Mapping[str, str], timeout: timedelta) -> dict[str, str]:
    """Returns the sink's options: `settings` reach the cluster and are the user's; `timeout` bounds the wait for it."""
    for key, value in FIXED.items():
        if settings.get(key, value) != value:
            raise Failure(
                f"{key.removeprefix('kafka.')} must be {value}: otherwise records would be lost or written twice"
            )
    timeout_ms = str(min(int(timeout.total_seconds() * 1000), MAX_MS))
    # The producer refuses to begin if one request may take longer than the delivery of its records.
    request_ms = str(min(int(timeout_ms) // 2, REQUEST_TIMEOUT_MS))
    patience = {
        "kafka.delivery.timeout.ms": timeout_ms,
        "kafka.max.block.ms": timeout_ms,
        "kafka.request.timeout.ms": request_ms,
    }
    return {**DEFAULTS, **patience, **settings, **FIXED}


def write_in_order(rows: DataFrame, settings: Mapping[str, str], configs: Mapping[str, Mapping[str, str]]) -> None:
    """Writes each Spark partition of `rows` in its order; `configs` are those in force for each topic."""
    guarded = rows.where(_guard(configs, settings["kafka.compression.type"])).select(
        "topic", "partition", "key", "value", "headers"
    )
    try:
        guarded.write.format("kafka").options(**settings).save()
    except (PySparkException, Py4JError) as error:
        raise _explained(error) from error


def with_timestamp_header(rows: DataFrame, name: str) -> DataFrame:
    """Adds the timestamp after the other headers, in milliseconds since 1970, as text."""
    value = F.unix_millis("timestamp").cast("string").cast("binary")
    added = F.array(F.struct(F.lit(name).alias("key"), value.alias("value")))
    return rows.withColumn("headers", F.when(F.col("headers").isNull(), added).otherwise(F.concat("headers", added)))


def _guard(configs: Mapping[str, Mapping[str, str]], compression: str) -> Column:
    """Returns an expression that is true, or raises an error."""
    first_attempt = F.expr("reflect('java.lang.Thread', 'currentThread')").rlike(FIRST_ATTEMPT)
    compacted = [topic for topic, found in configs.items() if "compact" in found.get("cleanup.policy", "")]
    limit = _limit({topic: int(found["max.message.bytes"]) for topic, found in configs.items()})
    size = _size_bytes()
    record = F.format_string("%s-%d cannot take the record of offset %d", "topic", "partition", "offset")
    return (
        F.when(
            ~first_attempt,
            _error(F.lit("Spark started a task again, which would write records twice: run the job again")),
        )
        .when(
            F.col("topic").isin(compacted) & F.col("key").isNull(),
            _error(F.concat(record, F.lit(": it has no key, and the topic is compacted"))),
        )
        .when(
            size > limit,
            _error(F.concat(record, F.format_string(": it has %d bytes, max.message.bytes is %d", size, limit))),
        )
        .when(
            size + _growth_bytes(size, compression) > limit,
            _error(
                F.concat(
                    record,
                    F.format_string(": it has %d bytes of %d, and compression may add to them; ", size, limit),
                    F.lit("compression.type=none for the producer, or a larger max.message.bytes, lets it through"),
                )
            ),
        )
        .otherwise(F.lit(True))
    )


def _limit(bytes_by_topic: Mapping[str, int]) -> Column:
    usual = Counter(bytes_by_topic.values()).most_common(1)[0][0]
    limit: Column = F.lit(usual)
    for other in sorted(set(bytes_by_topic.values()) - {usual}):
        names = [topic for topic, limit_bytes in bytes_by_topic.items() if limit_bytes == other]
        limit = F.when(F.col("topic").isin(names), F.lit(other)).otherwise(limit)
    return limit


def _size_bytes() -> Column:
    """Returns the size of a batch that holds nothing but this record, as brokers measure it."""
    headers = F.coalesce("headers", F.expr("array()"))
    of_headers = F.aggregate(
        headers, F.lit(0), lambda sum_, header: sum_ + _field_bytes(header["key"]) + _field_bytes(header["value"])
    )
    fields = _field_bytes(F.col("key")) + _field_bytes(F.col("value")) + _varint_bytes(F.size(headers)) + of_headers
    record = fields + RECORD_OVERHEAD_BYTES
    return _varint_bytes(record) + record + BATCH_OVERHEAD_BYTES


def _field_bytes(column: Column) -> Column:
    """Returns the bytes of a field and of its length; a null has the length -1, which takes one byte."""
    length = F.octet_length(column)
    return F.when(column.isNull(), 1).otherwise(_varint_bytes(length) + length)


def _varint_bytes(number: Column) -> Column:
    found = F.lit(len(VARINT_LIMITS) + 1)
    for size, limit in reversed(list(enumerate(VARINT_LIMITS, 1))):
        found = F.when(number < limit, size).otherwise(found)
    return found


def _growth_bytes(size: Column, compression: str) -> Column:
    if compression == "none":
        return F.lit(0)
    return F.floor(size / BLOCK_SIZE) * BLOCK_BYTES + FRAME_BYTES.get(compression, OTHER_FRAME_BYTES)


def _error(text: Column) -> Column:
    return F.raise_error(F.concat(F.lit(OPEN), text, F.lit(CLOSE)))


def _explained(error: BaseException) -> Failure:
    if found := re.search(f"{OPEN}(.*?){CLOSE}", str(error), re.DOTALL):
        return Failure(found[1])
    if found := re.search(r"Expiring \d+ record\(s\) for (\S+):(\d+) ms has passed", str(error)):
        return Failure(
            f"{found[1]} took no records for {int(found[2]) / 1000:g} s: run the job again when its broker is back"
        )
    return explain(error)
