"""Errors in the words of Spark and Kafka, as they were seen, and what is made of them."""

import pytest

from barnabas.pipelines.shared.explain import explain

LOST_4 = (
    "Some data may have been lost because they are not available in Kafka any more;\neither the data was aged out by "
    "Kafka or the topic may have been deleted before all the data in the\ntopic was processed.\nIf you don't want your "
    "streaming query to fail on such cases, set the source option failOnDataLoss to false.\nReason: "
)
LOST_3 = "Some data may have been lost because they are not available in Kafka any more; either the data was aged out"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            LOST_4 + "Could not read records in offset [10, 15) for topic partition a-0\nwith consumer group x.",
            "a-0: the records from offset 10 on were deleted before they were read (retention); "
            "run with --fail-on-data-loss false to continue with what is left",
        ),
        (
            "Cannot fetch offset 10 (GroupId: spark-kafka-source-1, TopicPartition: a-0).\n" + LOST_3,
            "a-0: the records from offset 10 on were deleted before they were read (retention)",
        ),
        (
            LOST_4 + "Partition c-0 offset was changed from 100 to 3.",
            "c-0 ends at offset 3, before offset 100 where this run was to continue: the topic was deleted and",
        ),
        (
            "Partition c-0's offset was changed from 100 to 3, some data may have been missed. " + LOST_3,
            "c-0 ends at offset 3, before offset 100",
        ),
        (
            "For Kafka data source with Trigger.AvailableNow, end offset should have lower or equal offset per each "
            "topic partition than pre-fetched offset.\npre-fetched offset: Map(a-0 -> 3), end offset: Map(a-0 -> 20).",
            "the topics end at a-0 -> 3, before a-0 -> 20 where the checkpoint is: a topic was deleted and",
        ),
        (
            "topic-partitions for pre-fetched offset: Set(b-0), topic-partitions for end offset: Set(a-0, a-1).",
            "the checkpoint holds other partitions (a-0, a-1) than this run reads (b-0)",
        ),
        (LOST_4 + "Partitions Set(a-0, a-1) have been deleted.", "a-0, a-1 of the checkpoint are not read any more"),
        ("Set(a-0) are gone. Some data may have been missed. " + LOST_3, "a-0 of the checkpoint are not read any more"),
        (
            LOST_4 + "Cannot find initial offsets for partitions Set(a-0). They may have been deleted.",
            "a-0 were deleted while they were read",
        ),
        (LOST_4 + "Added partition a-3 starts from 7 instead of 0.", "a-3 is new and begins at offset 7"),
        (
            LOST_4 + "Starting offset for a-0 was 5 but consumer reset to 9.",
            "a-0: offset 5 does not exist, the log is at 9",
        ),
        (
            "assertion failed: If startingOffsets contains specific offsets, you must specify all TopicPartitions.\n"
            "Use -1 for latest, -2 for earliest, if you don't care.\nSpecified: Set(c-0, c-1) Assigned: Set(c-0)",
            "--starting-offsets must name every partition that is read: it names c-0, c-1, there are c-0",
        ),
        (
            "There are [1] sources in the checkpoint offsets and now there are [2] sources requested by the query.",
            "the checkpoint belongs to a query that reads in another way; begin again with a new --checkpoint",
        ),
        (
            "[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log. Multiple streaming jobs detected for 3.",
            "another run uses the same checkpoint: end it first",
        ),
        (
            "UnsupportedLogVersion. The maximum supported log version is v1, but encountered v99.",
            "the checkpoint was written by a newer Spark than this one",
        ),
        (
            "[STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE] Provided value schema does not match",
            "the checkpoint holds the state of a query with other options",
        ),
        (
            "SparkException: Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times, most recent "
            "failure: Lost task 0.0 in stage 3.0 (TID 3) (host executor driver): "
            "java.lang.ArithmeticException: long overflow\n\tat java.base/java.lang.Math.multiplyExact(Math.java:1004)",
            "a record has a timestamp that Spark's Kafka source cannot hold (after the year 294247): begin after",
        ),
        (
            "UnknownTopicOrPartitionException: This server does not host this topic-partition.",
            "a topic that is to be read does not exist: create it",
        ),
        (
            "ConfigException: No resolvable bootstrap urls given in bootstrap.servers",
            "the host in the bootstrap servers",
        ),
        ("TimeoutException: Timed out waiting for a node assignment. Call: listNodes", "the brokers do not answer"),
        ("TimeoutException: Topic x not present in metadata after 60000 ms.", "topic x was not found in time"),
        (
            "TimeoutException: Timeout of 60000ms expired before the position for partition a-0 could be determined",
            "the brokers stopped answering",
        ),
    ],
)
def test_a_known_cause_is_told_with_what_to_do(text: str, expected: str) -> None:
    # In the middle of what surrounds it in real life.
    wrapped = RuntimeError(f"StreamingQueryException: [STREAM_FAILED] Query failed\n{text}\n=== Streaming Query ===\n…")
    assert str(explain(wrapped)).startswith(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("java.io.IOException: No space left on device\n\tat java.io.FileOutputStream", "No space left on device"),
        (
            "SparkException: Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times, most recent "
            "failure: Lost task 0.0 in stage 3.0 (TID 3) (host executor driver): java.io.IOException: disk on fire\n"
            "\tat x\n\nDriver stacktrace:",
            "disk on fire",
        ),
        ("SparkRuntimeException: [USER_RAISED_EXCEPTION] no luck SQLSTATE: P0001", "no luck"),
        ("first line\n=== Streaming Query ===\nIdentifier: x", "first line"),
        ("", "RuntimeError"),
    ],
)
def test_of_an_unknown_cause_the_innermost_words_are_told(text: str, expected: str) -> None:
    failure = explain(RuntimeError(text))
    assert str(failure) == expected
    assert isinstance(failure.__cause__, RuntimeError)
