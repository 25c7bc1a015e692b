"""The options of a mirror."""

import argparse
from datetime import timedelta

from barnabas.pipelines.copies.ordered_sink import NO_RETRIES
from barnabas.pipelines.shared import options


def make_parser() -> argparse.ArgumentParser:
    made = options.parser("mirror", "Copies topics to another cluster: each record once, in order.", streaming=True)
    made.set_defaults(conf=dict(NO_RETRIES))
    options.add_topics(made)
    _add_target(made.add_argument_group("target"))
    _add_topics_there(made.add_argument_group("topics at the target"))
    return made


def _add_target(group: "argparse._ArgumentGroup") -> None:
    group.add_argument("--target-bootstrap-servers", required=True, metavar="HOST:PORT,…", help="brokers to write to")
    group.add_argument(
        "--target-kafka",
        action=options.CollectSettings,
        default={},
        metavar="KEY=VALUE",
        help="a setting of Kafka's clients for the target (repeatable; --kafka is for the source)",
    )
    group.add_argument(
        "--target-kafka-config",
        action=options.ReadSettings,
        dest="target_kafka",
        metavar="FILE",
        help="such settings from a properties file",
    )
    group.add_argument(
        "--timeout",
        type=options.duration,
        default=timedelta(minutes=10),
        metavar="DURATION",
        help="how long either cluster may be away before the job ends (default: 10m)",
    )
    group.add_argument("--timestamp-header", metavar="NAME", help="keep the source's timestamps in a header")
    group.add_argument(
        "--adopt", action="store_true", help="go on behind what the target has, if it is the beginning of the source"
    )
    group.add_argument(
        "--start-over",
        action=options.CollectNames,
        default=[],
        metavar="TOPIC,…",
        help="forget what was copied to a topic of the target and begin again (repeatable)",
    )


def _add_topics_there(group: "argparse._ArgumentGroup") -> None:
    group.add_argument("--prefix", default="", help="goes before every name")
    group.add_argument(
        "--rename",
        action=options.CollectSettings,
        default={},
        metavar="TOPIC=NAME",
        help="what a topic is called, without the prefix (repeatable)",
    )
    group.add_argument(
        "--topic-config",
        action=options.CollectSettings,
        default={},
        metavar="KEY=VALUE",
        help="a setting of topics that are created, instead of the source's; KEY= leaves it out (repeatable)",
    )
    group.add_argument(
        "--replication-factor", type=options.positive_number, metavar="N", help="of topics that are created"
    )


def target_settings(given: argparse.Namespace) -> dict[str, str]:
    """As `options.kafka_settings`, for the other cluster."""
    more = {f"kafka.{key.removeprefix('kafka.')}": value for key, value in given.target_kafka.items()}
    return {"kafka.bootstrap.servers": given.target_bootstrap_servers, **more}
