"""Explains what Spark and Kafka say when something goes wrong, to the user who runs the job.

Spark wraps an error up to five times, and the sentence that matters stands somewhere in the middle. So all of them are
searched for the ones that are known, in the words of Spark 3.5 and of Spark 4; of the others the innermost is shown.
"""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from barnabas.pipelines.shared.failure import Failure

SPARK_ERRORS = (PySparkException, Py4JError, ConnectionError)
"""The last is py4j's, when the JVM does not answer: there are no other connections."""

JVM_GONE = (
    "Spark's JVM has died: it was killed, or the machine ran out of memory; set how much it may use with "
    "--conf spark.driver.memory=…"
)

GO_ON = "run with --fail-on-data-loss false to continue with what is left"
BEGIN_AGAIN = "begin again with a new --checkpoint"


class Known(NamedTuple):
    pattern: str
    explanation: str
    """Named groups of the pattern may stand in it."""


KNOWN = (
    Known(
        r"Could not read records in offset \[(?P<offset>\d+), \d+\) for topic partition (?P<partition>\S+)"
        r"|Cannot fetch (?:offset |records in \[)(?P<offset_>\d+)"
        r"[^)]*?\(GroupId: .*?TopicPartition: (?P<partition_>[^)]+)\)",
        f"{{partition}}: the records from offset {{offset}} on were deleted before they were read (retention); {GO_ON}",
    ),
    Known(
        r"Starting offset for (?P<partition>\S+) was (?P<offset>\d+) but consumer reset to (?P<new>\d+)",
        f"{{partition}}: offset {{offset}} does not exist, the log is at {{new}}; {GO_ON}",
    ),
    Known(
        r"Partition (?P<partition>\S+?)(?:'s)? offset was changed from (?P<offset>\d+) to (?P<new>\d+)",
        "{partition} ends at offset {new}, before offset {offset} where this run was to continue: the topic was "
        f"deleted and created again, or this is another cluster; {BEGIN_AGAIN}, or {GO_ON}",
    ),
    Known(
        r"pre-fetched offset: Map\((?P<new>.*?)\), end offset: Map\((?P<offset>.*?)\)",
        "the topics end at {new}, before {offset} where the checkpoint is: a topic was deleted and created again, "
        f"or this is another cluster; {BEGIN_AGAIN}",
    ),
    Known(
        r"topic-partitions for pre-fetched offset: Set\((?P<new>.*?)\), "
        r"topic-partitions for end offset: Set\((?P<old>.*?)\)",
        "the checkpoint holds other partitions ({old}) than this run reads ({new}); name the topics that it "
        f"was created for, or {BEGIN_AGAIN}",
    ),
    Known(
        r"Partitions (?:Hash)?Set\((?P<partition>.*?)\) have been deleted"
        r"|(?:Hash)?Set\((?P<partition_>[^)]*)\) are gone",
        "{partition} of the checkpoint are not read any more: the topic was deleted, or other topics are named; "
        f"{BEGIN_AGAIN}, or {GO_ON}",
    ),
    Known(
        r"Cannot find (?:initial|earliest) offsets (?:for partitions|of) Set\((?P<partition>.*?)\)",
        f"{{partition}} were deleted while they were read; {BEGIN_AGAIN}, or {GO_ON}",
    ),
    Known(
        r"Added partition (?P<partition>\S+) starts from (?P<offset>\d+) instead of 0",
        f"{{partition}} is new and begins at offset {{offset}}: records were deleted before they were read; {GO_ON}",
    ),
    Known(
        r"you must specify all TopicPartitions.*?Specified: Set\((?P<given>.*?)\) Assigned: Set\((?P<there>.*?)\)",
        "--starting-offsets must name every partition that is read: it names {given}, there are {there}",
    ),
    Known(
        r"sources in the checkpoint offsets and now there are",
        f"the checkpoint belongs to a query that reads in another way; {BEGIN_AGAIN}",
    ),
    Known(
        r"Concurrent update to the (?:commit )?log|Multiple streaming jobs detected|CONCURRENT_STREAM_LOG_UPDATE",
        "another run uses the same checkpoint: end it first, or give this one a --checkpoint of its own",
    ),
    Known(
        r"Unsupported ?LogVersion|UnsupportedLogVersion|log version is v\d+, but encountered",
        f"the checkpoint was written by a newer Spark than this one; upgrade PySpark, or {BEGIN_AGAIN}",
    ),
    Known(
        r"STATE_STORE_(?:KEY|VALUE)_SCHEMA|StateSchemaNotCompatible|[Ss]tate schema.*compatible"
        r"|STATEFUL_OPERATOR_NOT_MATCH",
        f"the checkpoint holds the state of a query with other options; {BEGIN_AGAIN}",
    ),
    Known(
        r"\bArithmeticException: long overflow",  # milliseconds made microseconds
        "a record has a timestamp that Spark's Kafka source cannot hold (after the year 294247): begin after the "
        f"record with --starting-offsets and a new output, or delete the topic's records up to it; then {GO_ON}",
    ),
    Known(
        r"UnknownTopicOrPartitionException",
        "a topic that is to be read does not exist: create it, or check its name",
    ),
    Known(
        r"No resolvable bootstrap urls",
        "the host in the bootstrap servers is unknown: check its name",
    ),
    Known(
        r"Timed out waiting for a node assignment|Timed out waiting to send the call|TimeoutException: Call\(",
        "the brokers{brokers} do not answer: check that they run and that this machine can reach them",
    ),
    Known(
        r"TimeoutException: Topic (?P<topic>\S+) not present in metadata",
        "topic {topic} was not found in time: check that it exists and that the brokers run",
    ),
    Known(
        r"TimeoutException: Timeout(?: of \d+ms)? expired (?:before|while)",
        "the brokers{brokers} stopped answering: check that they run; the next run continues where this one ended",
    ),
)


def explain(error: BaseException, brokers: str = "") -> Failure:
    """Returns one line for an error of Spark's, which talked to these brokers; the error is the line's `__cause__`."""
    failure = Failure(known_cause(error, brokers) or innermost(error))
    failure.__cause__ = error
    return failure


def known_cause(error: BaseException, brokers: str = "") -> str | None:
    if _is_cut_off(error):
        return JVM_GONE
    text = "\n".join(_messages(error))
    for known in KNOWN:
        if found := re.search(known.pattern, text, re.DOTALL):
            groups = {name.rstrip("_"): value for name, value in found.groupdict().items() if value is not None}
            return known.explanation.format(brokers=f" at {brokers}" if brokers else "", **groups)
    return None


def _is_cut_off(error: BaseException) -> bool:
    """Recognizes a missing answer: py4j raises the same error for a missing method, but with a trace."""
    if isinstance(error, ConnectionError):
        return True
    return isinstance(error, Py4JError) and not isinstance(error, Py4JJavaError) and "Trace:" not in str(error)


def innermost(error: BaseException) -> str:
    """Returns the last message without what surrounds it: the class, the task that failed, Spark's state at that
    time."""
    *_, text = _messages(error)
    if lost_task := re.search(r"Lost task .*? executor \S+\): (.*?)\n", text, re.DOTALL):
        text = lost_task[1]
    text = re.sub(r"^(?:[\w.$]+(?:Exception|Error): )+", "", text.strip())
    text = re.sub(r"^\[[A-Z_.]+\] | SQLSTATE: \w+;?$", "", text.split("\n\tat ")[0].split("=== Streaming Query ===")[0])
    return " ".join(text.split()) or type(error).__name__


def java_exception(error: BaseException) -> Any:
    """Returns the JVM's exception, which py4j and PySpark keep under different names; None if there is none."""
    return getattr(error, "java_exception", None) or getattr(error, "_origin", None)


def _messages(error: BaseException) -> Iterator[str]:
    """Returns what each link of the chain says, from the outside in."""
    link = java_exception(error)
    if link is None:
        yield str(error)
    try:
        while link is not None:
            yield f"{link.getClass().getSimpleName()}: {link.getMessage() or ''}"
            link = link.getCause()
    except Py4JError:  # the JVM is gone
        yield str(error)
