"""The batch that Spark runs, seen from inside `foreachBatch`: what was observed in it, and its parsed records.

A streaming aggregation passes on windows and nothing else. So the parsed records go through a shuffle on their way to
the aggregation. Spark keeps the files of a shuffle as long as its plan lives, and a second look at the records reads
these files: it reads no topic and parses no JSON. If an executor died with its files, Spark writes them again from the
same offsets.

PySpark has no interface for this: the plan that runs is asked through py4j, in the words of Spark 3.5 and 4.0.
"""

import math
from typing import Any, NamedTuple

from py4j.protocol import Py4JError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from barnabas.pipelines.shared.failure import Failure

OBSERVED = "seen"


class Seen(NamedTuple):
    """What tells whether a batch held a record that was not used."""

    unreadable: int
    first_end_ms: float
    """The end of the first window of all; infinite if there was no event."""


def keep_at_hand(parsed: DataFrame, first_end_micros: Column) -> DataFrame:
    """Sends the parsed records through the shuffle that `RunningBatch.records` reads.

    They are spread by their offsets: the same way each time, which Spark needs to repeat a part of it, and evenly.
    """
    seen = (
        F.count("reason").alias("unreadable"),
        F.min(first_end_micros).alias("first_end"),
        # The optimizer takes columns and rows that nobody needs out of a shuffle, but nothing that is observed.
        F.count("letter").alias("letters"),
    )
    return parsed.repartition("offset").observe(OBSERVED, *seen)


class RunningBatch:
    def __init__(self, spark: SparkSession, query_name: str) -> None:
        self.spark = spark
        [query] = [query for query in spark.streams.active if query.name == query_name]
        java: Any = query._jsq
        self._execution = java.streamingQuery().lastExecution()

    def seen(self) -> Seen | None:
        """Returns None if Spark does not know. A task that ran twice counts twice, so only 0 is exact."""
        try:
            row = self._execution.observedMetrics().apply(OBSERVED)
        except Py4JError:
            return None
        return Seen(row.getLong(0), math.inf if row.isNullAt(1) else row.getLong(1) / 1000)

    def records(self) -> DataFrame:
        """Returns the parsed records. The windows were computed before, and the batch has read something."""
        exchange = self._exchange()
        session: Any = self.spark._jsparkSession
        return DataFrame(session.internalCreateDataFrame(exchange.execute(), exchange.schema(), False), self.spark)

    def _exchange(self) -> Any:
        """Finds our shuffle in the plan, which is a chain. The aggregation's own shuffle has another origin."""
        node = self._execution.executedPlan()
        while node.getClass().getSimpleName() != "ShuffleExchangeExec" or not _is_ours(node):
            if node.children().isEmpty():
                raise Failure(
                    "Spark's plan has no shuffle of records, so this version of Spark is not supported: "
                    "use PySpark 3.5 or 4.0"
                )
            node = node.children().apply(0)
        return node


def _is_ours(exchange: Any) -> bool:
    return bool(exchange.shuffleOrigin().toString() == "REPARTITION_BY_COL")
