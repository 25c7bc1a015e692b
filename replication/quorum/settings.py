"""The identity of a node of the quorum, and its timeouts. The names and the defaults are Kafka's."""

from barnabas.protocol.named_tuple import NamedTuple
from barnabas.replication.quorum.voters import Address, ReplicaKey, VoterNode


class QuorumConfig(NamedTuple):
    election_timeout_ms: int = 1_000
    """controller.quorum.election.timeout.ms: up to as much again is added at random."""
    fetch_timeout_ms: int = 2_000
    election_backoff_max_ms: int = 1_000
    retry_backoff_ms: int = 20
    retry_backoff_max_ms: int = 500
    """Ours: a peer that is down is not asked fifty times a second."""
    response_timeout_ms: int = 2_000
    """controller.quorum.request.timeout.ms: how long a node waits for the answer to a request."""
    fetch_max_wait_ms: int = 500
    fetch_max_bytes: int = 8 * 1024 * 1024
    snapshot_max_bytes: int = 1024 * 1024

    @property
    def check_quorum_ms(self) -> int:
        """Returns how long a leader leads without fetches from a majority. It is more than a fetch timeout, so that
        followers give up first (KAFKA-15489)."""
        return self.fetch_timeout_ms * 3 // 2


class Identity(NamedTuple):
    cluster_id: str
    key: ReplicaKey
    addresses: tuple[Address, ...] = ()
    kraft_versions: tuple[int, int] = (0, 1)
    bootstrap: tuple[VoterNode, ...] = ()
    """The nodes to ask for the leader while no voter is known. Their ids are negative."""

    @property
    def node(self) -> VoterNode:
        return VoterNode(self.key, self.addresses, self.kraft_versions)


RANK_DELAY_MS = 60
"""When a leader's process has died, all voters know at once. They stand one after the other, because a split vote costs
more than a short wait."""
RANK_JITTER_MS = 10
LOOK_AROUND_MS = 100
"""How long a voter that has just started and knows no leader asks the others before it stands, in its turn. After a
stop of the whole cluster there is none, and nobody would gain by waiting for an election timeout."""
ELECTION_RETRY_MS = (50, 150)
"""How long a candidate that all live voters refused waits before it stands again; twice as long each time."""
TIMER_EARLY_MS = 250
"""How much too early the timer of a node may be: less than would wake an idle one for nothing, and so much that it need
not be moved for each message of a busy one."""
