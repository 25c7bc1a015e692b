"""The options of a mirror."""

import argparse

from barnabas.pipelines.copies.copy_options import add_new_topics, add_writing, copy_parser
from barnabas.pipelines.shared import options


def make_parser() -> argparse.ArgumentParser:
    made = copy_parser("mirror", "Copies topics to another cluster: each record once, in order.", streaming=True)
    options.add_topics(made)
    _add_target(made.add_argument_group("target"))
    _add_topics_there(made.add_argument_group("topics at the target"))
    return made


def _add_target(group: "argparse._ArgumentGroup") -> None:
    group.add_argument("--target-bootstrap-servers", required=True, metavar="HOST:PORT,…", help="brokers to write to")
    options.add_client_settings(group, "--target-kafka", "a setting of Kafka's clients for the target")
    add_writing(group, source="source", target="target")
    group.add_argument(
        "--start-over",
        action=options.CollectNames,
        default=[],
        metavar="TOPIC,…",
        help="forget what was copied to this topic of the target, and begin again (repeatable)",
    )


def _add_topics_there(group: "argparse._ArgumentGroup") -> None:
    group.add_argument("--prefix", default="", help="put this before the name of every topic")
    options.add_settings(group, "--rename", "the name of a topic at the target, without the prefix", "TOPIC=NAME")
    add_new_topics(group, "a setting of topics that are created, instead of the source's; KEY= leaves it out")


def target_settings(given: argparse.Namespace) -> dict[str, str]:
    """Returns what `options.kafka_settings` does, for the other cluster."""
    return {"kafka.bootstrap.servers": given.target_bootstrap_servers, **options.client_settings(given.target_kafka)}
