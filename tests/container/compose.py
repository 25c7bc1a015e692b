"""The environments that people have in their compose files for a single Kafka broker."""

from collections.abc import Mapping

EXTERNAL_PORT, INTERNAL_PORT = "9092", "19092"

APACHE_KAFKA = {
    "KAFKA_NODE_ID": "1",
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_LISTENERS": "CONTROLLER://:29093,PLAINTEXT_HOST://:9092,PLAINTEXT://:19092",
    "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT_HOST://localhost:9092,PLAINTEXT://broker:19092",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT",
    "KAFKA_INTER_BROKER_LISTENER_NAME": "PLAINTEXT",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@broker:29093",
    "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw",
    "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
    "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
    "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
    "KAFKA_LOG_DIRS": "/tmp/kraft-combined-logs",
}
"""As in the examples of Apache Kafka's image: one listener for the host, one for other containers."""

CONFLUENT = {
    "KAFKA_BROKER_ID": "1",
    "KAFKA_ZOOKEEPER_CONNECT": "zookeeper:2181",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT",
    "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://broker:19092,PLAINTEXT_HOST://localhost:9092",
    "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_JMX_PORT": "9101",
    "KAFKA_JMX_HOSTNAME": "localhost",
    "KAFKA_HEAP_OPTS": "-Xmx512M",
}
"""From the days of ZooKeeper, without listeners of its own."""

FILES: Mapping[str, Mapping[str, str]] = {"apache": APACHE_KAFKA, "confluent": CONFLUENT}


def on_ports(environment: Mapping[str, str], external: int, internal: int) -> dict[str, str]:
    """The same on ports that are free, its controller's left out of the way."""
    ports = {f":{EXTERNAL_PORT}": f":{external}", f":{INTERNAL_PORT}": f":{internal}"}
    moved = dict(environment)
    for name in ("KAFKA_LISTENERS", "KAFKA_ADVERTISED_LISTENERS"):
        entries = moved[name].split(",") if name in moved else []
        for index, entry in enumerate(entries):
            for old, new in ports.items():
                if entry.endswith(old):
                    entries[index] = entry.removesuffix(old) + new
        if entries:
            moved[name] = ",".join(entries)
    return moved
