"""Ranges of offsets as frames, by Spark's Kafka source."""

import json
from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession

from barnabas.pipelines.shared.options import QUICK_READ

TopicPartition = tuple[str, int]


def read_rows(
    spark: SparkSession, settings: Mapping[str, str], spans: Mapping[TopicPartition, range], *, fail_on_data_loss: bool
) -> DataFrame:
    """Returns Spark's columns and the headers. A Spark partition has the records of one topic partition, by offset."""
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
    return spark.read.format("kafka").options(**{**QUICK_READ, **settings, **ranges}).load()
