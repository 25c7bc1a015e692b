"""What the page of docs/ calls the things that are tested: its rows by test, its columns by client."""

from typing import NamedTuple


class Feature(NamedTuple):
    title: str
    tests: tuple[str, ...]  # files, or files and functions
    column: str  # of the README's table; several features may share one
    consumer_protocol: bool | None = None  # None: whichever protocol a group speaks


CLIENT_TITLES = {
    "kafka-python-3": "kafka-python 3.0.12",
    "kafka-python-2": "kafka-python 2.3.3",
    "aiokafka": "aiokafka 0.14.0",
    "confluent-kafka": "confluent-kafka 2.16.1",
    "kcat": "kcat (librdkafka 2.0.2)",
    "java-3.9": "Java 3.9.0",
    "java-4.3": "Java 4.3.0",
    "franz-go": "franz-go 1.22.2",
    "sarama": "sarama 1.61.1",
    "sarama-max": "sarama 1.61.1, newest version",
    "kafkajs": "kafkajs 2.2.4",
}
SPARK_TITLES = {"spark-4.0.0": "PySpark 4.0.0", "spark-3.5.7": "PySpark 3.5.7"}

PRODUCER, CONSUMER, GROUPS, NEW_GROUPS, ADMIN, RESTARTS = COLUMNS = (
    "produce", "consume", "groups", "groups (KIP-848)", "admin", "broker restarts",
)  # fmt: skip

GROUP_LIFE = ("test_groups.py", "test_groups_java.py", "test_group_mixtures.py")
IDEMPOTENCE = "test_producers.py::test_an_idempotent_producer_gets_consecutive_offsets"
CLIENT_FEATURES = (
    Feature("Records: keys, headers, timestamps, five compressions", ("test_records.py",), PRODUCER),
    Feature("Every acks, 1 byte to 10 MB, batches, limits", ("test_producers.py", "test_batches.py"), PRODUCER),
    Feature("Idempotent producer", (IDEMPOTENCE,), PRODUCER),
    Feature("Topics that create themselves, and that do not", ("test_topic_creation.py",), PRODUCER),
    Feature("Offsets by place and by time, seek", ("test_offsets.py",), CONSUMER),
    Feature("Pause, from the end, offsets out of range", ("test_consumers.py",), CONSUMER),
    Feature("Consumer groups", GROUP_LIFE, GROUPS, False),
    Feature("Consumer groups, KIP-848", GROUP_LIFE, NEW_GROUPS, True),
    Feature("Static members, killed members, patterns", ("test_group_members.py",), GROUPS),
    Feature("Committed offsets", ("test_group_offsets.py",), GROUPS),
    Feature("Admin: topics, configs, records, cluster", ("test_admin.py", "test_cluster.py"), ADMIN),
    Feature("Admin: groups and their offsets", ("test_group_admin.py",), ADMIN),
    Feature("Restarts: groups go on", ("test_group_restarts.py",), RESTARTS),
    Feature("Restarts: producers and consumers go on", ("test_reconnect.py",), RESTARTS),
)
SPARK_FEATURES = (Feature("Batch and streaming, reads and writes, lost data", ("spark",), CONSUMER),)
BROKER_FEATURES = (
    Feature("Kafka's own tools", ("test_kafka_tools.py", "test_group_tools.py", "test_tools_compared.py"), ""),
    Feature("Files of one served by the other, both ways", ("test_files.py",), ""),
    Feature("What is advertised works, at every version, and nothing else does", ("test_api_versions.py",), ""),
    Feature("Raw requests, answered as by Apache Kafka", ("differential",), ""),
)
FEATURES = (*CLIENT_FEATURES, *SPARK_FEATURES, *BROKER_FEATURES)


def features_of(test: str, consumer_protocol: bool) -> list[Feature]:
    """Of a test by its node id; a function that has a row of its own is not counted in that of its file."""
    path = test.removeprefix("compat_tests/").partition("[")[0]
    named = [feature for feature in FEATURES if path in feature.tests]
    folder_or_file = path.partition("::")[0]
    found = named or [
        feature for feature in FEATURES if {folder_or_file, folder_or_file.partition("/")[0]} & {*feature.tests}
    ]
    return [feature for feature in found if feature.consumer_protocol in (None, consumer_protocol)]
