"""The latest record of each key, out of a table and what came after it."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

SCHEMA = (
    "key BINARY, value BINARY, headers ARRAY<STRUCT<key: STRING, value: BINARY>>, partition INT, offset BIGINT,"
    " timestamp TIMESTAMP"
)
COLUMNS = ("key", "value", "headers", "partition", "offset", "timestamp")


def merge(table: DataFrame | None, records: DataFrame, files: int) -> DataFrame:
    """Leaves out keys whose latest record has no value, and records that have no key.

    Within a partition the higher offset is later, whatever the timestamps say. A key is in two partitions if the topic
    has grown, or if a producer partitions differently: then the later timestamp decides.
    """
    rows = records.where("key IS NOT NULL").select(*COLUMNS)
    if table is not None:
        rows = rows.unionByName(table.select(*COLUMNS))
    in_partition = (
        rows.repartition(files, "key")
        .groupBy("key", "partition")
        .agg(F.max(F.struct("offset", "timestamp", "value", "headers")).alias("latest"))
    )
    overall = in_partition.groupBy("key").agg(
        F.max(F.struct("latest.timestamp", "partition", "latest")).alias("of_all")
    )
    return (
        overall.select("key", "of_all.latest.*", "of_all.partition")
        .where("value IS NOT NULL")
        .select(*COLUMNS)
        .sortWithinPartitions("key")
    )
