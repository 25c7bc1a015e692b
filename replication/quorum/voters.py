"""Who votes in the metadata quorum: voters by id and directory id, the set that is in force, and the sets before it.

Rules (KIP-853):
- A voter is a disk, not a machine: the same id with another directory id is another replica, which has lost what the
  first one promised. Static voters (kraft.version 0) have no directory id, and match any.
- A set is in force as soon as it is in the log, committed or not. When it is truncated, the set before is in force.
- Two sets in a row differ by one voter, so that every majority of one meets every majority of the other.
"""

from collections.abc import Iterator, Sequence

from barnabas.protocol.named_tuple import NamedTuple
from barnabas.protocol.stored.control_records import (
    Endpoint,
    KRaftVersionFeature,
    KRaftVersionRecord,
    RegisteredVoter,
    VotersRecord,
)
from barnabas.protocol.types import ZERO_UUID, Uuid

NO_NODE = -1
"""Stands for a leader that is not known."""
BEFORE_THE_LOG = -1
"""The offset of a set that was configured, or that a bootstrap snapshot holds."""


class ReplicaKey(NamedTuple):
    node_id: int
    directory_id: Uuid = ZERO_UUID

    def matches(self, other: "ReplicaKey") -> bool:
        """Returns whether `other` is this replica. Without a directory id of our own, the id decides."""
        return self.node_id == other.node_id and self.directory_id in (ZERO_UUID, other.directory_id)


class Address(NamedTuple):
    """A listener that other nodes can reach."""

    name: str
    host: str
    port: int


class VoterNode(NamedTuple):
    key: ReplicaKey
    addresses: tuple[Address, ...] = ()
    kraft_versions: tuple[int, int] = (0, 1)
    """The lowest and the highest kraft.version that it supports."""


class VoterSet:
    """An immutable set of voters, in the order of their ids."""

    __slots__ = ("_nodes", "keys", "majority")

    def __init__(self, nodes: Sequence[VoterNode]) -> None:
        self._nodes = {node.key.node_id: node for node in sorted(nodes, key=lambda node: node.key.node_id)}
        assert len(self._nodes) == len(nodes), "an id votes once"
        self.keys = tuple(node.key for node in self._nodes.values())
        self.majority = len(self.keys) // 2 + 1

    def __iter__(self) -> Iterator[VoterNode]:
        return iter(self._nodes.values())

    def __len__(self) -> int:
        return len(self.keys)

    def __contains__(self, node_id: object) -> bool:
        return node_id in self._nodes

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VoterSet) and self._nodes == other._nodes

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"VoterSet({list(self._nodes)})"

    def get(self, node_id: int) -> VoterNode | None:
        return self._nodes.get(node_id)

    def key_of(self, replica: ReplicaKey) -> ReplicaKey | None:
        """Returns the key under which this replica votes; None if it does not."""
        node = self._nodes.get(replica.node_id)
        return node.key if node is not None and node.key.matches(replica) else None

    def others_than(self, node_id: int) -> list[VoterNode]:
        return [node for node in self if node.key.node_id != node_id]

    def rank_of(self, node_id: int, *, without: int | None) -> int:
        """Returns how many voters come before this one, not counting one that is dead."""
        return sum(other < node_id for other in self._nodes if other != without)

    # ---- changes

    def with_voter(self, node: VoterNode) -> "VoterSet":
        """Returns the set with a voter more, or with one that has moved."""
        others = [other for other in self if other.key.node_id != node.key.node_id]
        return VoterSet([*others, node])

    def without_voter(self, key: ReplicaKey) -> "VoterSet | None":
        """Returns the set without this voter; None if it is not in it, or is the last one."""
        if self.key_of(key) is None or len(self) == 1:
            return None
        return VoterSet(self.others_than(key.node_id))

    # ---- as a record

    def record(self) -> VotersRecord:
        return VotersRecord(version=0, voters=[_registered(node) for node in self])


def _registered(node: VoterNode) -> RegisteredVoter:
    lowest, highest = node.kraft_versions
    return RegisteredVoter(
        voter_id=node.key.node_id,
        voter_directory_id=node.key.directory_id,
        endpoints=[Endpoint(name=name, host=host, port=port) for name, host, port in node.addresses],
        kraft_version_feature=KRaftVersionFeature(min_supported_version=lowest, max_supported_version=highest),
    )


def voter_set_of(record: VotersRecord) -> VoterSet:
    return VoterSet(
        [
            VoterNode(
                ReplicaKey(voter.voter_id, voter.voter_directory_id),
                tuple(Address(endpoint.name, endpoint.host, endpoint.port) for endpoint in voter.endpoints),
                (voter.kraft_version_feature.min_supported_version, voter.kraft_version_feature.max_supported_version),
            )
            for voter in record.voters
        ]
    )


class VoterHistory:
    """The sets of voters that the log holds, and its kraft.version, each with the offset of its record."""

    __slots__ = ("_sets", "_versions")

    def __init__(self, voters: VoterSet, kraft_version: int, offset: int = BEFORE_THE_LOG) -> None:
        """Begins with what is configured (kraft.version 0), or with what a snapshot that ends at `offset + 1` holds."""
        self._sets = [(offset, voters)]
        self._versions = [(offset, kraft_version)]

    @property
    def last(self) -> VoterSet:
        """Returns the set in force."""
        return self._sets[-1][1]

    @property
    def last_offset(self) -> int:
        return self._sets[-1][0]

    @property
    def before_last(self) -> VoterSet | None:
        return self._sets[-2][1] if len(self._sets) > 1 else None

    @property
    def kraft_version(self) -> int:
        return self._versions[-1][1]

    def at(self, end_offset: int) -> tuple[VoterSet, int]:
        """Returns the voters and the kraft.version that a snapshot up to this offset must hold."""
        voters = next(voters for offset, voters in reversed(self._sets) if offset < end_offset)
        return voters, next(version for offset, version in reversed(self._versions) if offset < end_offset)

    def replay(self, offset: int, record: object) -> None:
        """Takes over a control record that is in the log at this offset."""
        if isinstance(record, VotersRecord):
            self._sets.append((offset, voter_set_of(record)))
        elif isinstance(record, KRaftVersionRecord):
            self._versions.append((offset, record.kraft_version))

    def truncate_to(self, end_offset: int) -> None:
        while self._sets[-1][0] >= end_offset:
            self._sets.pop()
        while self._versions[-1][0] >= end_offset:
            self._versions.pop()

    def forget_before(self, offset: int) -> None:
        """Keeps what is needed to go back as far as `offset`, which is committed."""
        while len(self._sets) > 1 and self._sets[1][0] < offset:
            del self._sets[0]
        while len(self._versions) > 1 and self._versions[1][0] < offset:
            del self._versions[0]
