"""The records that a batch could not use: unreadable ones are sent on with the reason, late ones are counted."""

from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from barnabas.pipelines.rollups.windows import Windows

LATE = "late: every window that it belongs to has been given out"
PARTLY_LATE = "partly late"
LETTER = ("key", "value", "headers", "topic", "partition", "offset")


@dataclass
class Unused:
    """The number of records of a batch that were not used, by reason."""

    late: int = 0
    partly_late: int = 0
    """Late for some of their sliding windows, counted in the others."""
    unreadable: dict[str, int] = field(default_factory=dict)


def with_letter(parsed: DataFrame, *, wanted: bool, late_too: bool) -> DataFrame:
    """Returns the parsed records with a column `letter`: the whole record if it may become a dead letter, else null."""
    letter = F.struct(*LETTER)
    may_be_one = F.lit(wanted) & (F.lit(late_too) | F.col("reason").isNotNull())
    return parsed.withColumn("letter", F.when(may_be_one, letter))


@dataclass(frozen=True, kw_only=True)
class DeadLetters:
    settings: dict[str, str]
    """How to reach the cluster, for Spark's sink."""
    windows: Windows
    topic: str | None
    late_too: bool = False

    def handle(self, records: DataFrame, watermark_ms: int) -> Unused:
        """Counts what was not used of a batch's records, as `with_letter` made them, and sends the letters."""
        unused = self._unused(records, watermark_ms)
        if self.topic is not None:
            unused = unused.persist()  # else both jobs below would read all records of the batch
        try:
            counts = {row["reason"]: row["count"] for row in unused.groupBy("reason").count().collect()}
            letters = [reason for reason in counts if self._is_letter(reason)]
            if self.topic is not None and letters:
                self._send(unused.filter(F.col("reason").isin(letters)).select("reason", "letter.*"), self.topic)
        finally:
            unused.unpersist()
        return Unused(counts.pop(LATE, 0), counts.pop(PARTLY_LATE, 0), counts)

    def _is_letter(self, reason: str) -> bool:
        """Returns whether records with this reason are sent. Partly late ones are counted in the windows still open."""
        return self.late_too if reason == LATE else reason != PARTLY_LATE

    def _unused(self, records: DataFrame, watermark_ms: int) -> DataFrame:
        watermark = F.lit(watermark_ms * 1000)
        late = F.when(self.windows.last_end_micros() <= watermark, LATE).when(
            self.windows.first_end_micros() <= watermark, PARTLY_LATE
        )
        return records.withColumn("reason", F.coalesce("reason", late)).filter(F.col("reason").isNotNull())

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
