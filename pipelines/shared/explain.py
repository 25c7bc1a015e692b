"""What Spark and Kafka say when something goes wrong, in words for whoever runs the job.

Spark wraps an error up to five times, and the sentence that matters stands somewhere in the middle. So all of them are
searched for the ones that are known, in the words of Spark 3.5 and of Spark 4; of the others the innermost is told.
"""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from barnabas.pipelines.shared.failure import Failure

SPARK_ERRORS = (PySparkException, Py4JError, ConnectionError)
"""The last is py4j's, who finds nobody where the JVM was: we have no other connections."""

JVM_GONE = (
    "Spark's JVM is gone: it was killed, or the machine ran out of memory; --conf spark.driver.memory=… says how much "
    "it may use"
)

GO_ON = "--fail-on-data-loss false goes on with what is left"
ANEW = "start anew with a new --checkpoint"


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
        f"{{partition}}: offset {{offset}} is not there, the log is at {{new}}; {GO_ON}",
    ),
    Known(
        r"Partition (?P<partition>\S+?)(?:'s)? offset was changed from (?P<offset>\d+) to (?P<new>\d+)",
        "{partition} ends at offset {new}, before offset {offset} where this run was to go on: the topic was deleted "
        f"and made again, or this is another cluster; {ANEW}, or {GO_ON}",
    ),
    Known(
        r"pre-fetched offset: Map\((?P<new>.*?)\), end offset: Map\((?P<offset>.*?)\)",
        "the topics end at {new}, before {offset} where the checkpoint is: a topic was deleted and made again, or this "
        f"is another cluster; {ANEW}",
    ),
    Known(
        r"topic-partitions for pre-fetched offset: Set\((?P<new>.*?)\), "
        r"topic-partitions for end offset: Set\((?P<old>.*?)\)",
        "the checkpoint is of other partitions ({old}) than those that are read now ({new}); name the topics that it "
        f"was made for, or {ANEW}",
    ),
    Known(
        r"Partitions (?:Hash)?Set\((?P<partition>.*?)\) have been deleted"
        r"|(?:Hash)?Set\((?P<partition_>[^)]*)\) are gone",
        "{partition} of the checkpoint are not read any more: the topic was deleted, or other topics are named; "
        f"{ANEW}, or {GO_ON}",
    ),
    Known(
        r"Cannot find (?:initial|earliest) offsets (?:for partitions|of) Set\((?P<partition>.*?)\)",
        f"{{partition}} were deleted while they were read; {ANEW}, or {GO_ON}",
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
        f"the checkpoint is of a query that reads in another way; {ANEW}",
    ),
    Known(
        r"Concurrent update to the (?:commit )?log|Multiple streaming jobs detected|CONCURRENT_STREAM_LOG_UPDATE",
        "another run uses the same checkpoint: end it first, or give this one a --checkpoint of its own",
    ),
    Known(
        r"Unsupported ?LogVersion|UnsupportedLogVersion|log version is v\d+, but encountered",
        f"the checkpoint was written by a newer Spark than this one; upgrade PySpark, or {ANEW}",
    ),
    Known(
        r"STATE_STORE_(?:KEY|VALUE)_SCHEMA|StateSchemaNotCompatible|[Ss]tate schema.*compatible"
        r"|STATEFUL_OPERATOR_NOT_MATCH",
        f"the checkpoint holds the state of a query with other options; {ANEW}",
    ),
    Known(
        r"\bArithmeticException: long overflow",  # milliseconds made microseconds
        "a record has a timestamp that Spark's Kafka source cannot hold (behind the year 294247): begin behind the "
        f"record with --starting-offsets and a new output, or delete the topic's records up to it; then {GO_ON}",
    ),
    Known(
        r"UnknownTopicOrPartitionException",
        "a topic that is to be read does not exist: create it, or look at its name again",
    ),
    Known(
        r"No resolvable bootstrap urls",
        "the host in the bootstrap servers is unknown: look at its name again",
    ),
    Known(
        r"Timed out waiting for a node assignment|Timed out waiting to send the call|TimeoutException: Call\(",
        "the brokers{brokers} do not answer: do they run, and can this machine reach them?",
    ),
    Known(
        r"TimeoutException: Topic (?P<topic>\S+) not present in metadata",
        "topic {topic} was not found in time: does it exist, and do the brokers run?",
    ),
    Known(
        r"TimeoutException: Timeout(?: of \d+ms)? expired (?:before|while)",
        "the brokers{brokers} stopped answering: do they run? The next run goes on where this one was",
    ),
)


def explain(error: BaseException, brokers: str = "") -> Failure:
    """One line for an error of Spark's, who asked these brokers; the error itself is the line's `__cause__`."""
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
    """py4j raises its general error if no answer comes, and if there is no such method; then it has a trace."""
    if isinstance(error, ConnectionError):
        return True
    return isinstance(error, Py4JError) and not isinstance(error, Py4JJavaError) and "Trace:" not in str(error)


def innermost(error: BaseException) -> str:
    """The last message without what surrounds it: the class, the task that failed, Spark's state at that time."""
    *_, text = _messages(error)
    if lost_task := re.search(r"Lost task .*? executor \S+\): (.*?)\n", text, re.DOTALL):
        text = lost_task[1]
    text = re.sub(r"^(?:[\w.$]+(?:Exception|Error): )+", "", text.strip())
    text = re.sub(r"^\[[A-Z_.]+\] | SQLSTATE: \w+;?$", "", text.split("\n\tat ")[0].split("=== Streaming Query ===")[0])
    return " ".join(text.split()) or type(error).__name__


def java_exception(error: BaseException) -> Any:
    """py4j keeps it under one name, PySpark under another; None if it was not raised in the JVM."""
    return getattr(error, "java_exception", None) or getattr(error, "_origin", None)


def _messages(error: BaseException) -> Iterator[str]:
    """What each link of the chain says, from the outside in."""
    link = java_exception(error)
    if link is None:
        yield str(error)
    try:
        while link is not None:
            yield f"{link.getClass().getSimpleName()}: {link.getMessage() or ''}"
            link = link.getCause()
    except Py4JError:  # the JVM is gone
        yield str(error)
