"""What a batch could not use: records that do not parse are sent on with the reason, and late ones are counted.

A streaming aggregation passes on windows and nothing else, so the records of a batch are read a second time here, with
the offsets and the watermark that Spark noted for that batch.
"""

from dataclasses import dataclass, field

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from barnabas.pipelines.rollups.events import EventFormat, parse
from barnabas.pipelines.rollups.windows import Windows
from barnabas.pipelines.shared.kafka_rows import read_rows
from barnabas.pipelines.shared.offset_log import BatchRange

LATE = "late: every window that it belongs to has been given out"
PARTLY_LATE = "partly late"


@dataclass
class Unused:
    """How many records of a batch were not used, by reason."""

    late: int = 0
    partly_late: int = 0
    """Late for some of their sliding windows, counted in the others."""
    unreadable: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class DeadLetters:
    spark: SparkSession
    settings: dict[str, str]
    """How to reach the cluster, for Spark's source and sink."""
    form: EventFormat
    windows: Windows
    topic: str | None
    late_too: bool = False
    fail_on_data_loss: bool = True

    def handle(self, batch: BatchRange) -> Unused:
        if not batch.spans:
            return Unused()
        unused = self._unused(batch).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            counts = {row["reason"]: row["count"] for row in unused.groupBy("reason").count().collect()}
            letters = [reason for reason in counts if self._is_letter(reason)]
            if self.topic is not None and letters:
                self._send(unused.filter(F.col("reason").isin(letters)), self.topic)
        finally:
            unused.unpersist()
        return Unused(counts.pop(LATE, 0), counts.pop(PARTLY_LATE, 0), counts)

    def _is_letter(self, reason: str) -> bool:
        """Partly late records are in the windows that were still open: they are not lost."""
        return self.late_too if reason == LATE else reason != PARTLY_LATE

    def _unused(self, batch: BatchRange) -> DataFrame:
        records = read_rows(self.spark, self.settings, batch.spans, fail_on_data_loss=self.fail_on_data_loss)
        watermark = F.lit(batch.late_watermark_ms * 1000)
        late = F.when(self.windows.last_end_micros() <= watermark, LATE).when(
            self.windows.first_end_micros() <= watermark, PARTLY_LATE
        )
        parsed = parse(records, self.form).withColumn("reason", F.coalesce("reason", late))
        return parsed.filter(F.col("reason").isNotNull()).select(
            "reason", "key", "value", "headers", "topic", "partition", "offset"
        )

    def _send(self, letters: DataFrame, topic: str) -> None:
        headers = F.concat(
            F.coalesce(F.col("headers"), F.array().cast("array<struct<key:string,value:binary>>")),
            F.array(*(_header(name) for name in ("reason", "topic", "partition", "offset"))),
        )
        # Kafka would refuse a record that was just small enough before it got four headers more.
        size = {"kafka.max.request.size": str(64 * 1024 * 1024)}
        letters.select("key", "value", headers.alias("headers")).write.format("kafka").options(
            **{**size, **self.settings}, includeHeaders="true", topic=topic
        ).save()


def _header(name: str) -> Column:
    return F.struct(F.lit(f"dead-letter.{name}").alias("key"), F.col(name).cast("string").cast("binary").alias("value"))
