"""The clients: how each is started, what it has, and what it is left out of and why. A new one is one row here and one
file in drivers/ (driver.py says what that has to do): the tests and the page follow from the rows.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from compat_tests.brokers import CACHE, JVM_OPTIONS, KAFKA_LIBS, ROOT
from compat_tests.harness import features as f
from compat_tests.harness.features import Feature

DRIVERS = ROOT / "compat_tests" / "drivers"
KAFKA_PYTHON_2 = CACHE / "kafka-python-2.3.3"

RANGE, ROUND_ROBIN, STICKY, COOPERATIVE, UNIFORM = "range", "roundrobin", "sticky", "cooperative-sticky", "uniform"
Excuses = Mapping[Feature, str]
NOTHING: Mapping[Any, Any] = MappingProxyType({})


def excused(reason: str, *features: Feature) -> dict[Feature, str]:
    return dict.fromkeys(features, reason)


NO_CONSUMER_PROTOCOL = excused(
    "does not speak the consumer protocol",
    *(feature for feature in f.CLIENT_FEATURES if feature.column == f.NEW_GROUPS or feature.consumer_protocol),
)
NOT_IN_ITS_ADMIN = "its admin client does not have it"


class Client(NamedTuple):
    name: str
    title: str
    command: tuple[str, ...]
    needs: tuple[str | Path, ...] = ()  # system commands, and what `make setup` fetched
    environment: tuple[tuple[str, str], ...] = ()
    everyday: bool = True  # the others take part where COMPAT=full is set
    assignors: tuple[str, ...] = (RANGE,)  # of the classic protocol; the first wherever a test needs only one
    remote_assignors: tuple[str, ...] = ()  # of the consumer protocol, for those who speak it
    lacks: Excuses = NOTHING  # what it is left out of, and why
    idempotent: bool = True
    sets_timestamps: bool = True
    sends_null_headers: bool = True
    tells_offsets: bool = True
    consumers_create_topics: bool = True  # by asking for their metadata, where the broker allows it
    transactions_version: int = 1  # the newest that it speaks
    tells_when_fenced: bool = True
    tells_unknown_groups: bool = False  # as errors, which came with version 6 of DescribeGroups; before, they are dead
    looks_again_for_topics: bool = True  # that match its pattern
    commit_fields: tuple[str, ...] = ("metadata", "leader_epoch")  # what it sends and returns beside the offset
    settings_to_stay: Mapping[str, Any] = NOTHING  # in its group, while nobody answers
    repeats: str = ""  # why, in the consumer protocol, it may read again what it has read when a partition moves

    @property
    def in_this_run(self) -> bool:
        return self.everyday or os.environ.get("COMPAT") == "full"

    def excuse(self, feature: Feature) -> str | None:
        """Returns why it is left out of this, if it is."""
        inherited = {} if self.remote_assignors else NO_CONSUMER_PROTOCOL
        return {**inherited, **self.lacks}.get(feature)


def taking_part(feature: Feature) -> list[Client]:
    """Returns the clients of this run that are not left out of it."""
    return [client for client in CLIENTS if client.in_this_run and client.excuse(feature) is None]


def names(feature: Feature) -> list[str]:
    return [client.name for client in taking_part(feature)]


def python_driver(name: str) -> tuple[str, ...]:
    return (sys.executable, str(DRIVERS / name))


def java_client(name: str, version: str, libs: Path, **more: Any) -> Client:
    classes = CACHE / f"driver-{version}"
    command = ("java", *JVM_OPTIONS, "-Xmx512m", "-cp", f"{classes}:{libs}/*", "Driver")
    return Client(
        name,
        f"Java {version}",
        command,
        needs=("java", classes, libs),
        remote_assignors=(UNIFORM, RANGE),
        **more,
    )


def go_client(name: str, title: str, program: str, *arguments: str, **more: Any) -> Client:
    binary = CACHE / "driver-go" / program
    return Client(name, title, (str(binary), *arguments), needs=(binary,), everyday=False, **more)


def sarama(name: str, title: str, *arguments: str, assignors: tuple[str, ...]) -> Client:
    return go_client(
        name,
        title,
        "sarama",
        *arguments,
        assignors=assignors,
        commit_fields=("metadata",),
        lacks={
            **excused("has no patterns", f.PATTERNS),
            **excused(NOT_IN_ITS_ADMIN, f.WATCHING_NEW_GROUPS),
            **excused(JOINS_AGAIN, f.GROUPS_GO_ON),
        },
    )


JOINS_AGAIN = "joins again in a new generation when a connection is refused"
COUNTS_REFUSED_BATCHES = "its sequence numbers go on after a batch that was refused, which every broker takes for a gap"
MATCHED_BY_THE_BROKER = "lets the broker match patterns"

CLIENTS = (
    Client(
        "kafka-python-3",
        "kafka-python 3.0.12",
        python_driver("kafka_python_client.py"),
        assignors=(RANGE, COOPERATIVE),
        sends_null_headers=False,
        tells_when_fenced=False,  # it stops its heartbeats
        tells_unknown_groups=True,
        looks_again_for_topics=False,  # it asks only for what has matched before
        lacks={
            **excused(NOT_IN_ITS_ADMIN, f.WATCHING_NEW_GROUPS),
            **excused(COUNTS_REFUSED_BATCHES, f.TRANSACTIONS_GO_ON),
        },
    ),
    Client(
        "kafka-python-2",
        "kafka-python 2.3.3",
        python_driver("kafka_python_client.py"),
        needs=(KAFKA_PYTHON_2,),
        environment=(("PYTHONPATH", str(KAFKA_PYTHON_2)),),
        assignors=(RANGE, ROUND_ROBIN, STICKY),
        sends_null_headers=False,
        looks_again_for_topics=False,  # as its successor
        commit_fields=("metadata",),
        lacks={
            **excused(NOT_IN_ITS_ADMIN, f.WATCHING_NEW_GROUPS, f.ALTERING_OFFSETS, f.DELETING_OFFSETS),
            **excused("its commit waits for ever for a connection that was lost", f.TRANSACTIONS_SURVIVE),
        },
    ),
    Client(
        "aiokafka",
        "aiokafka 0.14.0",
        python_driver("aiokafka_client.py"),
        assignors=(RANGE, ROUND_ROBIN, STICKY),
        tells_when_fenced=False,  # it joins again and again
        commit_fields=(),
        lacks={
            **excused(
                NOT_IN_ITS_ADMIN, f.WATCHING_NEW_GROUPS, f.ALTERING_OFFSETS, f.DELETING_OFFSETS, f.DELETING_GROUPS
            ),
            **excused(COUNTS_REFUSED_BATCHES, f.TRANSACTIONS_GO_ON),
        },
    ),
    Client(
        "confluent-kafka",
        "confluent-kafka 2.16.1",
        python_driver("confluent_client.py"),
        assignors=(RANGE, ROUND_ROBIN, COOPERATIVE),
        remote_assignors=(UNIFORM, RANGE),
        consumers_create_topics=False,
        lacks={
            **excused(MATCHED_BY_THE_BROKER, f.NEW_PATTERNS),
            **excused(NOT_IN_ITS_ADMIN, f.DELETING_OFFSETS),
        },
    ),
    Client(
        "kcat",
        "kcat (librdkafka 2.0.2)",
        python_driver("kcat_client.py"),
        needs=("kcat",),
        sets_timestamps=False,
        tells_offsets=False,
        consumers_create_topics=False,
        lacks={
            **excused(
                "is a command: nothing of it lives on between two requests, and it shows no offsets",
                *(f.MANY_RECORDS, f.MANY_OFFSETS, f.PAUSE, f.CLIENTS_GO_ON),
            ),
            **excused(
                "its members are separate commands: their driver can neither make them commit nor miss one",
                *(f.STATIC, f.KILLED, f.COMMITS, f.LONE_COMMITS),
            ),
            **excused("ends when its last connection is gone", f.GROUPS_GO_ON),
            **excused("ends when a topic is unknown", f.WAITING_FOR_TOPICS),
            **excused(
                "has no transactions",
                f.TRANSACTIONS,
                f.TRANSACTIONS_GO_ON,
                f.TRANSACTIONAL_OFFSETS,
                f.COPIES,
                f.TRANSACTIONS_SURVIVE,
            ),
            **excused("has no admin client", *(feature for feature in f.CLIENT_FEATURES if feature.column == f.ADMIN)),
        },
    ),
    java_client(
        "java-3.9",
        "3.9.0",
        CACHE / "kafka-clients-3.9.0" / "libs",
        assignors=(RANGE, ROUND_ROBIN, STICKY, COOPERATIVE),
        lacks=excused("patterns for the broker came with version 4.0", f.BROKER_PATTERNS),
        repeats="the protocol is early access there",
    ),
    java_client(
        "java-4.3",
        "4.3.0",
        KAFKA_LIBS,
        everyday=False,  # where a test does not name it: its successor speaks the same versions, and one more
        assignors=(COOPERATIVE, RANGE, ROUND_ROBIN, STICKY),
        transactions_version=2,
        tells_unknown_groups=True,
        # By default it forgets all metadata while nobody answers, and then joins again because of what is new in it.
        settings_to_stay={"metadata.recovery.strategy": "none"},
    ),
    java_client(
        "java-4.4",
        "4.4.0",
        CACHE / "kafka-clients-4.4.0" / "libs",
        assignors=(COOPERATIVE, RANGE, ROUND_ROBIN, STICKY),
        transactions_version=2,
        tells_unknown_groups=True,
        settings_to_stay={"metadata.recovery.strategy": "none"},  # as its predecessor
    ),
    go_client(
        "franz-go",
        "franz-go 1.22.2",
        "franz-go",
        assignors=(COOPERATIVE, RANGE, STICKY),
        remote_assignors=(UNIFORM,),
        consumers_create_topics=False,
        transactions_version=2,
        tells_unknown_groups=True,
        lacks={
            **excused("sends only the offsets of the group that it is in itself", f.TRANSACTIONAL_OFFSETS),
            **excused("leaves without its instance id, which no broker accepts", f.NEW_STATIC),
            **excused(MATCHED_BY_THE_BROKER, f.NEW_PATTERNS),
            **excused(JOINS_AGAIN, f.GROUPS_GO_ON),
        },
    ),
    # The versions of the protocol that it uses by default, and the newest that it knows.
    sarama("sarama", "sarama 1.61.1", assignors=(RANGE, ROUND_ROBIN)),
    sarama("sarama-max", "sarama 1.61.1, newest version", "max", assignors=(RANGE, STICKY)),
    Client(
        "kafkajs",
        "kafkajs 2.2.4",
        ("node", str(DRIVERS / "kafkajs" / "driver.js")),
        needs=("node", CACHE / "driver-kafkajs"),
        environment=(("NODE_PATH", str(CACHE / "driver-kafkajs" / "node_modules")),),
        everyday=False,
        assignors=(ROUND_ROBIN,),
        sends_null_headers=False,  # it takes the length of every value
        looks_again_for_topics=False,  # it looks once, when it subscribes
        lacks={
            **excused("its offsets are always reset, to one end or the other", f.OUT_OF_RANGE),
            **excused("has no static members", f.STATIC),
            **excused("has no assign()", f.LONE_COMMITS),
            **excused("joins as a new member when its connections are gone", f.GROUPS_GO_ON),
            **excused(NOT_IN_ITS_ADMIN, f.WATCHING_NEW_GROUPS, f.DELETING_OFFSETS),
        },
    ),
)

# Only joins groups: Kafka's own consumer for tests of brokers.
VERIFIABLE_CONSUMER = Client(
    "verifiable-consumer",
    "Kafka's VerifiableConsumer",
    (
        *python_driver("verifiable_consumer.py"),
        *("java", *JVM_OPTIONS, "-cp", f"{KAFKA_LIBS}/*", "org.apache.kafka.tools.VerifiableConsumer"),
    ),
    needs=("java", KAFKA_LIBS),
)
