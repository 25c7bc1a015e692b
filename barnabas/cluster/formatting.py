"""Prepares log dirs for a node of a cluster, as `kafka-storage format` does.

In each dir, in this order:
- `bootstrap.checkpoint`, the first records of a new cluster;
- in the dir of the metadata log, if initial controllers are named, the snapshot `…0-0.checkpoint` that names them as
  voters (KIP-853): each of them starts with the same set;
- `meta.properties`, last: a dir that has it is formatted.
"""

from collections.abc import Sequence

from barnabas.base.environment import Random
from barnabas.base.files import Files, make_durable_dir, replace_file
from barnabas.base.uuids import random_uuid
from barnabas.options import Failure
from barnabas.protocol.batch_builder import build_control_batch
from barnabas.protocol.named_tuple import NamedTuple
from barnabas.protocol.stored.metadata_record_serde import encode_record
from barnabas.protocol.types import Uuid, uuid_of_text, uuid_text
from barnabas.replication.controller.cluster_control import bootstrap_records
from barnabas.replication.metadata.batches import (
    QuorumVoter,
    snapshot_footer,
    snapshot_header,
    value_batch,
    voters_controls,
)
from barnabas.replication.metadata.log import METADATA_PARTITION
from barnabas.replication.metadata.snapshots import SnapshotId
from barnabas.storage.metadata_files import META_PROPERTIES, CorruptMetadata, MetaProperties

BOOTSTRAP_CHECKPOINT = "bootstrap.checkpoint"
_BEFORE_THE_LOG = SnapshotId(0, 0)


class InitialController(NamedTuple):
    """One of the voters that a new quorum begins with."""

    node_id: int
    host: str
    port: int
    directory_id: Uuid

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.node_id}@{host}:{self.port}:{uuid_text(self.directory_id)}"


def parse_controllers(text: str) -> tuple[InitialController, ...]:
    """Parses `1@host:port:directory,…`. Raises ValueError with what each must be."""
    controllers = tuple(_parse_controller(part.strip()) for part in text.split(","))
    if len({controller.node_id for controller in controllers}) < len(controllers):
        raise ValueError("names a node twice")
    return controllers


def _parse_controller(text: str) -> InitialController:
    node_id, _, rest = text.partition("@")
    address, _, directory = rest.rpartition(":")
    host, _, port = address.rpartition(":")
    if not (node_id.isdecimal() and host and port.isdecimal() and int(port) < 65536 and directory):
        raise ValueError(f"must be ID@HOST:PORT:DIRECTORY-ID, not {text!r}")
    try:
        return InitialController(int(node_id), host.strip("[]"), int(port), uuid_of_text(directory))
    except ValueError:
        raise ValueError(f"{directory!r} is not a directory id; `barnabas format --new-id` prints one") from None


class NodeFormat(NamedTuple):
    """What the dirs of one node are to say."""

    cluster_id: str
    node_id: int
    controllers: tuple[InitialController, ...] = ()
    listener_name: str = "CONTROLLER"

    @property
    def own_directory_id(self) -> Uuid | None:
        """Returns the id under which this node votes; None if it is no initial voter."""
        return next((each.directory_id for each in self.controllers if each.node_id == self.node_id), None)


class Formatter:
    def __init__(self, files: Files, random: Random, *, now_ms: int) -> None:
        self._files = files
        self._random = random
        self._now_ms = now_ms

    def new_id(self) -> Uuid:
        return random_uuid(self._random)

    def read(self, log_dir: str) -> MetaProperties | None:
        """Returns whose dir this is; None if it is not formatted."""
        path = f"{log_dir}/{META_PROPERTIES}"
        if not self._files.exists(path):
            return None
        try:
            return MetaProperties.from_bytes(self._files.read_bytes(path))
        except CorruptMetadata as error:
            raise Failure(f"{log_dir}: {error}", "restore the file, or remove the directory") from None

    def format(self, node: NodeFormat, log_dirs: Sequence[str], *, ignore_formatted: bool = False) -> list[str]:
        """Formats the dirs, the first of which holds the metadata log; returns those that were not formatted before.
        Nothing is changed in any if one of them must not be."""
        found = {log_dir: self.read(log_dir) for log_dir in log_dirs}
        for log_dir, meta in found.items():
            if meta is not None:
                _check_found(log_dir, meta, node, ignore_formatted)
        new = [log_dir for log_dir in log_dirs if found[log_dir] is None]
        for log_dir in new:
            self._format(node, log_dir, is_for_metadata=log_dir == log_dirs[0])
        return new

    def _format(self, node: NodeFormat, log_dir: str, *, is_for_metadata: bool) -> None:
        make_durable_dir(self._files, log_dir)
        replace_file(self._files, f"{log_dir}/{BOOTSTRAP_CHECKPOINT}", bootstrap_snapshot(self._now_ms))
        directory_id = None
        if is_for_metadata and node.controllers:
            directory_id = node.own_directory_id
            metadata_dir = f"{log_dir}/{METADATA_PARTITION}"
            make_durable_dir(self._files, metadata_dir)
            path = f"{metadata_dir}/{_BEFORE_THE_LOG.file_name}"
            replace_file(self._files, path, voters_snapshot(node, self._now_ms))
        meta = MetaProperties(node.cluster_id, node.node_id, directory_id or self.new_id())
        replace_file(self._files, f"{log_dir}/{META_PROPERTIES}", meta.to_bytes())


def _check_found(log_dir: str, meta: MetaProperties, node: NodeFormat, ignore_formatted: bool) -> None:
    if not ignore_formatted:
        raise Failure(
            f"{log_dir} is formatted already, for node {meta.node_id} of cluster {meta.cluster_id}",
            "--ignore-formatted leaves it as it is and formats the others; to begin anew, remove it first",
        )
    if (meta.cluster_id, meta.node_id) != (node.cluster_id, node.node_id):
        raise Failure(
            f"{log_dir} belongs to node {meta.node_id} of cluster {meta.cluster_id}, "
            f"not to node {node.node_id} of cluster {node.cluster_id}",
            "remove it, or name another directory",
        )


# ---- as bytes


def bootstrap_snapshot(now_ms: int) -> bytes:
    """Returns `bootstrap.checkpoint`: what the first controller writes into an empty log."""
    values = [encode_record(record) for record in bootstrap_records()]
    data = build_control_batch([snapshot_header(0)], timestamp=now_ms, partition_leader_epoch=0)
    data += value_batch(values, base_offset=1, now_ms=now_ms)
    data += _footer(1 + len(values), now_ms)
    return bytes(data)


def voters_snapshot(node: NodeFormat, now_ms: int) -> bytes:
    """Returns the snapshot before the first offset of the log: no metadata, and the voters."""
    name = node.listener_name
    voters = [
        QuorumVoter(each.node_id, each.directory_id, [(name, each.host, each.port)])
        for each in sorted(node.controllers)
    ]
    controls = [snapshot_header(now_ms), *voters_controls(voters)]
    data = build_control_batch(controls, timestamp=now_ms, partition_leader_epoch=0)
    return bytes(data + _footer(len(controls), now_ms))


def _footer(offset: int, now_ms: int) -> bytearray:
    return build_control_batch([snapshot_footer()], timestamp=now_ms, base_offset=offset, partition_leader_epoch=0)
