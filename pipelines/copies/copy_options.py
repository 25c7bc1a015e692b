"""The options of the jobs that copy records to topics, each once and in order: mirror and restore."""

import argparse
from typing import Any

from barnabas.pipelines.copies.ordered_sink import NO_RETRIES
from barnabas.pipelines.shared import options


def copy_parser(name: str, about: str, *, streaming: bool) -> argparse.ArgumentParser:
    made = options.parser(name, about, streaming=streaming)
    made.set_defaults(conf=dict(NO_RETRIES))
    return made


def add_writing(group: Any, *, source: str, target: str) -> None:
    """Adds how the job writes; `source` and `target` are the words for both in the help."""
    options.add_duration(group, "--timeout", "10m", "wait this long for a cluster that does not answer, then end")
    group.add_argument("--timestamp-header", metavar="NAME", help=f"keep the timestamps of the {source} in this header")
    group.add_argument(
        "--adopt",
        action="store_true",
        help=f"continue after the records that the {target} already has, if the {source} begins with them",
    )


def add_new_topics(group: Any, settings: str) -> None:
    """Adds how topics are created; `settings` says what --topic-config does."""
    options.add_settings(group, "--topic-config", settings)
    group.add_argument(
        "--replication-factor", type=options.positive_number, metavar="N", help="replicas of each topic that is created"
    )
