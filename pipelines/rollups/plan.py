"""What a rollup would do: the topics there are, where it would continue, and what its outputs hold."""

import argparse
import json

from pyspark.sql import SparkSession

from barnabas.pipelines.rollups.options import Rollup
from barnabas.pipelines.rollups.output import ParquetOutput
from barnabas.pipelines.shared import options as common
from barnabas.pipelines.shared.cluster import Cluster
from barnabas.pipelines.shared.failure import Failure
from barnabas.pipelines.shared.files.file_system import Files
from barnabas.pipelines.shared.files.offset_log import Offsets, last_offsets
from barnabas.pipelines.shared.progress import plural


class Source:
    """The topics that are read, with the first and the end offset of each partition."""

    def __init__(self, cluster: Cluster, names: list[str]) -> None:
        self.names = names
        self.begin = cluster.begin_offsets(names)
        self.end = cluster.end_offsets(names)

    def waiting(self, position: Offsets | None, starting: str) -> int:
        """Returns how many offsets there are to read after a checkpoint, or after --starting-offsets if it is new."""
        given: Offsets = json.loads(starting) if starting.startswith("{") else {}
        default = -1 if starting == "latest" else -2

        def start(topic: str, number: int) -> int:
            offsets = given if position is None else position
            offset = offsets.get(topic, {}).get(str(number), default if position is None else -2)
            return {-2: self.begin[topic, number], -1: self.end[topic, number]}.get(offset, offset)

        return sum(max(0, end - start(topic, number)) for (topic, number), end in self.end.items())


def check_topics(spark: SparkSession, options: argparse.Namespace) -> Source:
    with Cluster(spark, common.kafka_settings(options)) as cluster:
        found = cluster.topics(options.topic or None, options.topic_pattern)
        if options.topic_pattern is not None and not found:
            raise Failure(f"no topic matches {options.topic_pattern}: create one first, or correct the pattern")
        written = [name for name in (options.output_topic, options.dead_letter_topic) if name is not None]
        for name in written:
            if name in found:
                raise Failure(
                    f"{name} matches --topic-pattern, so the job would read what it writes there: name another topic"
                )
        missing = sorted({*options.topic, *written} - {*found, *cluster.topics(written)})
        if missing:
            raise Failure(
                f"there is no topic {missing[0]}: create it, for example with `barnabas topics create {missing[0]}`"
            )
        return Source(cluster, sorted(found))


def print_plan(
    source: Source, checkpoint: Files, output: ParquetOutput | None, options: argparse.Namespace, rollup: Rollup
) -> None:
    position = last_offsets(checkpoint)
    lines = [
        ("read", f"{', '.join(source.names)} ({plural(len(source.end), 'partition')})"),
        ("from", "the checkpoint's position" if position is not None else options.starting_offsets),
        ("waiting", plural(source.waiting(position, options.starting_offsets), "offset")),
        ("columns", ", ".join(rollup.columns)),
    ]
    if output is not None:
        lines.append(("write", f"{output.folder.root} (holds {plural(output.batches(), 'file')})"))
    lines += [("write", f"topic {options.output_topic}")] if options.output_topic is not None else []
    lines.append(
        ("dead letters", f"topic {options.dead_letter_topic}" if options.dead_letter_topic else "only counted")
    )
    lines.append(("checkpoint", f"{checkpoint.root} ({'new' if position is None else 'continues'})"))
    for what, text in lines:
        print(f"{what:>12}  {text}")
