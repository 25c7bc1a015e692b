"""Spark's Kafka sink, held to one promise: whatever goes wrong, a target partition has the first records, in order.

The producer must not give up a record and go on with the next, and no task may run a second time. What a broker would
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
"""For Spark itself: a task that is started again is refused below, but then the first failure is not the one told."""

# Spark SQL has no function that tells the attempt, but the thread of a task is named after it (3.5, 4.0 and later).
# Under any other name nothing is written at all.
FIRST_ATTEMPT = r"task \d+\.0 in stage \d+\.0 \(TID"

RECORD_OVERHEAD_BYTES = 100
"""What a batch of one record needs besides key, value and headers, at most."""
HEADER_OVERHEAD_BYTES = 10

# Quotes what a guard says, to find it again in what Spark makes of it.
OPEN, CLOSE = "⟦", "⟧"


def sink_settings(settings: Mapping[str, str], timeout: timedelta) -> dict[str, str]:
    """`settings` say how to reach the cluster and what else the user wants; `timeout`, how long it may be away."""
    for key, value in FIXED.items():
        if settings.get(key, value) != value:
            raise Failure(f"{key.removeprefix('kafka.')} must be {value}: records would be lost or doubled otherwise")
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
    """Each Spark partition of `rows` in its order; `configs` are those in force for each topic."""
    guarded = rows.where(_guard(configs)).select("topic", "partition", "key", "value", "headers")
    try:
        guarded.write.format("kafka").options(**settings).save()
    except (PySparkException, Py4JError) as error:
        raise _explained(error) from error


def with_timestamp_header(rows: DataFrame, name: str) -> DataFrame:
    """Adds the timestamp behind the other headers, in milliseconds since 1970, as text."""
    value = F.unix_millis("timestamp").cast("string").cast("binary")
    added = F.array(F.struct(F.lit(name).alias("key"), value.alias("value")))
    return rows.withColumn("headers", F.when(F.col("headers").isNull(), added).otherwise(F.concat("headers", added)))


def _guard(configs: Mapping[str, Mapping[str, str]]) -> Column:
    """True, or an error."""
    first_attempt = F.expr("reflect('java.lang.Thread', 'currentThread')").rlike(FIRST_ATTEMPT)
    compacted = [topic for topic, found in configs.items() if "compact" in found.get("cleanup.policy", "")]
    limit = _limit({topic: int(found["max.message.bytes"]) for topic, found in configs.items()})
    record = F.format_string("%s-%d cannot take the record of offset %d", "topic", "partition", "offset")
    return (
        F.when(
            ~first_attempt,
            _error(F.lit("Spark began a task again, which would write records twice: run the job again")),
        )
        .when(
            F.col("topic").isin(compacted) & F.col("key").isNull(),
            _error(F.concat(record, F.lit(": it has no key, and the topic is compacted"))),
        )
        .when(
            _size_bytes() > limit,
            _error(
                F.concat(record, F.format_string(": it has %d bytes, max.message.bytes is %d", _size_bytes(), limit))
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
    def size(column: Column) -> Column:
        return F.coalesce(F.octet_length(column), F.lit(0))

    headers = F.aggregate(
        F.coalesce("headers", F.expr("array()")),
        F.lit(0),
        lambda sum_, header: sum_ + size(header["key"]) + size(header["value"]) + HEADER_OVERHEAD_BYTES,
    )
    return size(F.col("key")) + size(F.col("value")) + headers + RECORD_OVERHEAD_BYTES


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
