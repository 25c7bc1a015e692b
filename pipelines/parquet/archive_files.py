"""The Parquet files of one batch: written to the staging folder, then read back to know what is in them."""

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from barnabas.pipelines.parquet.archive_log import ArchivedFile

FOLDERS = {"day": {"date": "yyyy-MM-dd"}, "hour": {"date": "yyyy-MM-dd", "hour": "HH"}}

COLUMNS = ("key", "value", "headers", "partition", "offset", "timestamp", "timestampType")


def stage(batch: DataFrame, folder: str, *, partition_by: str, compression: str) -> int:
    """Returns the number of rows. Each task writes the range that it reads, in order, to its own files, without a
    shuffle."""
    # Spark's default for timestamps is INT96, which only Spark and its relatives still write.
    batch.sparkSession.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    batch.sparkSession.conf.set("spark.sql.session.timeZone", "UTC")
    times = {name: F.date_format("timestamp", pattern) for name, pattern in FOLDERS[partition_by].items()}
    rows = batch.select(*COLUMNS, "topic", *(column.alias(name) for name, column in times.items()))
    seen = Observation()
    rows = rows.observe(seen, F.count("*").alias("rows")).sortWithinPartitions("topic", *times, "offset")
    rows.write.partitionBy("topic", *times).option("compression", compression).parquet(folder)
    return int(seen.get["rows"])


def staged_files(spark: SparkSession, folder: str, *, partition_by: str) -> tuple[ArchivedFile, ...]:
    """Returns what the folder holds, with the name that each file gets in the archive."""
    rows = (
        spark.read.schema("partition INT, offset BIGINT")
        .option("recursiveFileLookup", "true")
        .parquet(folder)
        .groupBy("_metadata.file_path", "_metadata.file_size", "partition")
        .agg(F.min("offset").alias("first"), F.max("offset").alias("last"), F.count("*").alias("records"))
        .collect()
    )
    depth = len(FOLDERS[partition_by]) + 2
    files = []
    for row in rows:
        staged = "/".join(row["file_path"].split("/")[-depth:])
        directory = staged.rpartition("/")[0]
        topic = staged.partition("/")[0].removeprefix("topic=")
        path = f"{directory}/{row['partition']}-{row['first']:020}.parquet"
        files.append(
            ArchivedFile(
                path, topic, row["partition"], row["first"], row["last"], row["records"], row["file_size"], staged
            )
        )
    assert len({file.staged for file in files}) == len(files), "a file holds records of two partitions"
    return tuple(sorted(files, key=lambda file: (file.topic, file.partition, file.first_offset)))
