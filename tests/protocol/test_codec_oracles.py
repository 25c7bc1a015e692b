"""Our codec beside two that share no code with it: kafka-python's, and Apache Kafka's own.

The same value must become the same bytes on both sides, and the same bytes the same value. Records are opaque here.
"""

import json
import warnings
from base64 import b64decode
from functools import cache
from io import BytesIO
from random import Random
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kafka.protocol.schemas import StructField, load_json

from barnabas.protocol.schema import Field, decode, default_of, encode
from barnabas.protocol.stored.group_record_serde import GroupKey, GroupValue
from barnabas.protocol.types import uuid_of_text
from tests.kafka_jars import newest_clients_jar, run_java
from tests.protocol.declared import Versioned, declared_messages, every_version, generate
from tests.protocol.kafka_schemas import RENAMED_IN_KAFKA_4_4, snake_case, versions

WITHOUT_KAFKA_PYTHON = {
    "a record of the cluster's metadata or of a Raft log: only Kafka itself has a codec for it": {
        *("RegisterBrokerRecord", "UnregisterBrokerRecord", "BrokerRegistrationChangeRecord", "FenceBrokerRecord"),
        *("UnfenceBrokerRecord", "TopicRecord", "RemoveTopicRecord", "PartitionRecord", "PartitionChangeRecord"),
        *("ConfigRecord", "ProducerIdsRecord", "FeatureLevelRecord", "NoOpRecord", "BeginTransactionRecord"),
        *("EndTransactionRecord", "AbortTransactionRecord", "RegisterControllerRecord", "LeaderChangeMessage"),
        "ClearElrRecord",
        *("SnapshotHeaderRecord", "SnapshotFooterRecord", "KRaftVersionRecord", "VotersRecord", "QuorumStateData"),
    },
    "a record of a group: only Kafka itself has a codec for it": {
        cls.__name__ for cls in (*GroupKey.__args__, *GroupValue.__args__)
    },
    "a record of a transaction: only Kafka itself has a codec for it": {"TransactionLogKey", "TransactionLogValue"},
    "kafka-python does not know the versions of Kafka 4.4": {
        *("ApiVersionsRequest", "ApiVersionsResponse", "DeleteGroupsRequest", "DeleteGroupsResponse"),
        *("TxnOffsetCommitRequest", "TxnOffsetCommitResponse"),
    },
    "kafka-python does not speak the consumer protocol of KIP-848": {
        *("ConsumerGroupHeartbeatRequest", "ConsumerGroupHeartbeatResponse"),
        *("ConsumerGroupDescribeRequest", "ConsumerGroupDescribeResponse"),
    },
    "kafka-python is a client: it knows nothing that brokers ask the controller": {
        f"{name}{kind}"
        for name in (
            *("BrokerRegistration", "BrokerHeartbeat", "UnregisterBroker", "ControllerRegistration"),
            *("AllocateProducerIds", "AlterPartition", "AssignReplicasToDirs", "Envelope"),
        )
        for kind in ("Request", "Response")
    }
    | {"DefaultPrincipalData"},
    "kafka-python is a client: it knows nothing that the nodes of the quorum say to each other": {
        f"{name}{kind}"
        for name in (
            *("Vote", "BeginQuorumEpoch", "EndQuorumEpoch", "FetchSnapshot"),
            *("AddRaftVoter", "RemoveRaftVoter", "UpdateRaftVoter"),
        )
        for kind in ("Request", "Response")
    },
}
EXAMPLES_FOR_JAVA = 12
"""Of each version of each message, in one run of one Java process."""


@cache
def kafka_python_schema(name: str) -> dict[str, Any] | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of their way to open the file
        try:
            schema: dict[str, Any] = load_json(name)
        except FileNotFoundError:
            return None
    return schema


def known_to_kafka_python(cls: Any, version: int) -> bool:
    schema = kafka_python_schema(cls.__name__)
    return schema is not None and version in versions(schema["validVersions"])


def test_every_version_is_compared_with_kafka_python_unless_its_message_is_named_here() -> None:
    missing = {cls.__name__ for cls, version in every_version() if not known_to_kafka_python(cls, version)}
    assert missing == set.union(*WITHOUT_KAFKA_PYTHON.values())


@pytest.mark.parametrize("message", [each for each in every_version() if known_to_kafka_python(*each)], ids=repr)
def test_kafka_python_reads_what_we_write_and_writes_what_we_read(message: Versioned) -> None:
    cls, version = message
    schema = kafka_python_schema(cls.__name__)
    assert schema is not None
    oracle = StructField(schema)
    flexible = version in versions(schema["flexibleVersions"])
    form = {"version": version, "compact": flexible, "tagged": flexible}

    @settings(max_examples=20, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.randoms(use_true_random=False))
    def check(random: Random) -> None:
        value = generate(cls, version, random)
        encoded = bytes(encode(value, version))
        assert decode(cls, version, encoded) == value
        assert oracle.encode(_to_dict(value, version), **form) == encoded
        assert _of_dict(oracle.decode(BytesIO(encoded), **form), cls, version) == value

    check()


def _to_dict(value: Any, version: int) -> dict[str, Any]:
    """What kafka-python encodes. A tagged field that has its default is left out: they would write some of those."""
    theirs = {}
    for field in value.__fields__:
        ours = getattr(value, field.name)
        if field.in_version(version) and not (field.tag is not None and ours == default_of(field)):
            theirs[field.name] = _to_plain(field, ours, version)
    return theirs


def _to_plain(field: Field, ours: Any, version: int) -> Any:
    if ours is None:
        return None
    if field.kind == "uuid":
        return UUID(bytes=ours)
    if field.kind == "struct":
        return _to_dict(ours, version)
    if field.kind != "array":
        return ours
    if isinstance(field.of, Field):
        return [_to_plain(field.of, item, version) for item in ours]
    return [_to_dict(item, version) for item in ours]


def _of_dict(theirs: dict[str, Any], cls: Any, version: int) -> Any:
    """Our message from a dict of its fields; one that is not there has its default."""
    values = {}
    for field in cls.__fields__:
        present = field.in_version(version) and field.name in theirs
        values[field.name] = _of_plain(field, theirs[field.name], version) if present else default_of(field)
    return cls(**values)


def _of_plain(field: Field, theirs: Any, version: int) -> Any:
    if theirs is None:
        return default_of(field) if field.kind == "uuid" else None  # kafka-python reads zeros as None
    if field.kind == "uuid":
        return theirs.bytes if isinstance(theirs, UUID) else uuid_of_text(theirs)
    if field.kind == "struct":
        return _of_dict(theirs, field.of, version)
    if field.kind != "array":
        return b64decode(theirs) if field.kind in ("bytes", "records") and isinstance(theirs, str) else theirs
    if isinstance(field.of, Field):
        return [_of_plain(field.of, item, version) for item in theirs]
    return [_of_dict(item, field.of, version) for item in theirs]


def test_kafka_itself_reads_and_writes_every_version_of_every_message_as_we_do() -> None:
    random = Random(20)
    values = [(*each, generate(*each, random)) for each in every_version() for _ in range(EXAMPLES_FOR_JAVA)]
    lines = [f"{cls.__name__} {version} {encode(value, version).hex()}" for cls, version, value in values]
    answers = run_java("MessageProbe.java", "\n".join(lines), newest_clients_jar()).splitlines()
    assert {cls for cls, _, _ in values} == set(declared_messages())
    assert len(answers) == len(lines)
    for (cls, version, value), line, answer in zip(values, lines, answers):
        rewritten, _, seen = answer.partition(" ")
        assert rewritten == line.split(" ")[2], f"{cls.__name__} v{version} {value}: {seen}"
        renamed = RENAMED_IN_KAFKA_4_4.get(cls.__name__, {})
        names = {renamed.get(name, name): value for name, value in _in_snake_case(json.loads(seen)).items()}
        assert _of_dict(names, cls, version) == _without_records(value), line


def _in_snake_case(seen: Any) -> Any:
    if isinstance(seen, list):
        return [_in_snake_case(item) for item in seen]
    if isinstance(seen, dict):
        return {snake_case(name.replace("kRaft", "kraft")): _in_snake_case(value) for name, value in seen.items()}
    return seen


def _without_records(value: Any) -> Any:
    """Kafka's JSON shows records as nothing, whatever they hold."""
    for field in value.__fields__:
        inner = getattr(value, field.name)
        if field.kind == "records" and inner:
            setattr(value, field.name, b"")
        for item in inner if isinstance(inner, list) else ():
            if hasattr(item, "__fields__"):
                _without_records(item)
    return value
