"""Small text files that say whose data this is: `meta.properties`, `partition.metadata`, the mark of a clean stop."""

from barnabas.protocol.named_tuple import NamedTuple
from barnabas.protocol.types import ZERO_UUID, Uuid, uuid_of_text, uuid_text

META_PROPERTIES = "meta.properties"
PARTITION_METADATA = "partition.metadata"
CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
LOCK_FILE = ".lock"
FAILED_DIR_FILE = ".barnabas_failed"
"""The mark of a dir that failed. It need not survive a power cut, which takes with it what is not to be trusted: a
page cache that shows as written what an fsync could not write."""


class CorruptMetadata(Exception):
    """The file does not say what it should."""


class MetaProperties(NamedTuple):
    """The node and the cluster that a log dir belongs to. Version 1 is the one of KRaft."""

    cluster_id: str
    node_id: int
    directory_id: Uuid

    def to_bytes(self) -> bytes:
        lines = (
            "version=1",
            f"cluster.id={self.cluster_id}",
            f"node.id={self.node_id}",
            f"directory.id={uuid_text(self.directory_id)}",
        )
        return ("\n".join(lines) + "\n").encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> "MetaProperties":
        try:
            values = _properties(data.decode())
            directory_id = uuid_of_text(values["directory.id"]) if "directory.id" in values else ZERO_UUID
            return cls(values["cluster.id"], int(values["node.id"]), directory_id)
        except (KeyError, ValueError) as error:
            raise CorruptMetadata(f"{META_PROPERTIES}: {error!r}") from None


def _properties(text: str) -> dict[str, str]:
    lines = [line.strip() for line in text.splitlines()]
    pairs = [line.partition("=") for line in lines if line and not line.startswith(("#", "!"))]
    return {key.strip(): value.strip() for key, _, value in pairs}


def encode_partition_metadata(topic_id: Uuid) -> bytes:
    return f"version: 0\ntopic_id: {uuid_text(topic_id)}".encode()


def decode_partition_metadata(data: bytes) -> Uuid:
    try:
        (version, version_text), (field, text) = (line.split(": ") for line in data.decode().splitlines())
        if version != "version" or int(version_text) < 0 or field != "topic_id":
            raise ValueError(data)
        return uuid_of_text(text)
    except ValueError:
        raise CorruptMetadata(f"{PARTITION_METADATA} holds {data[:80]!r}") from None


def encode_clean_shutdown(broker_epoch: int) -> bytes:
    return f'{{"version":0,"brokerEpoch":{broker_epoch}}}'.encode()


def decode_clean_shutdown(data: bytes) -> int:
    """Returns the broker epoch that the mark holds; -1 if it holds none, as that of an older broker."""
    _, colon, rest = data.partition(b'"brokerEpoch":')
    text = rest.partition(b"}")[0].partition(b",")[0].strip()
    return int(text) if colon and text.isdigit() else -1
