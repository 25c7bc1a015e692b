"""Ranges of offsets as frames, by Spark's Kafka source."""

import json
from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession

from barnabas.pipelines.shared.options import NO_WAIT

TopicPartition = tuple[str, int]

# Spark asks for the beginning and the end of a partition between two polls: polls of 500 records, Kafka's default, make
# reading a third slower.
POLL = {"kafka.max.poll.records": "5000"}


def read_rows(
    spark: SparkSession, settings: Mapping[str, str], spans: Mapping[TopicPartition, range], *, fail_on_data_loss: bool
) -> DataFrame:
    """Spark's columns and the headers. A Spark partition holds the records of one topic partition, by offset."""
    partitions: dict[str, list[int]] = {}
    starts: dict[str, dict[str, int]] = {}
    stops: dict[str, dict[str, int]] = {}
    for (topic, partition), span in spans.items():
        partitions.setdefault(topic, []).append(partition)
        starts.setdefault(topic, {})[str(partition)] = span.start
        stops.setdefault(topic, {})[str(partition)] = span.stop
    ranges = {
        "assign": json.dumps(partitions),
        "startingOffsets": json.dumps(starts),
        "endingOffsets": json.dumps(stops),
        "failOnDataLoss": str(fail_on_data_loss).lower(),
        "includeHeaders": "true",
    }
    return spark.read.format("kafka").options(**{**NO_WAIT, **POLL, **settings, **ranges}).load()
