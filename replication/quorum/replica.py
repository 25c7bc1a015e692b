"""What a node of the quorum is at any time, and how it passes from one state to the next.

Rules:
- The epoch never falls. Whatever `quorum-state` keeps is persisted before anything that follows from it.
- What has not been synced counts for nothing: neither as an acknowledgement nor in an election. A candidate that won
  with records which it then lost would be elected again in the same epoch, without them.
- The high watermark never falls while the process lives.
Pure: time is an argument, randomness is handed in, and what is to be done is returned as effects.
"""

from collections.abc import Callable, Sequence
from typing import Any

from barnabas.protocol.stored.control_records import KRaftVersionRecord, LeaderChangeMessage, Voter
from barnabas.protocol.stored.quorum_state import QuorumStateData
from barnabas.protocol.types import ZERO_UUID
from barnabas.replication.metadata.batches import LEADER_CHANGE_VERSION
from barnabas.replication.metadata.commit_rule import CommitRule
from barnabas.replication.quorum.connections import Connections
from barnabas.replication.quorum.effects import Append, Committed, Effect, LeaderChanged, Persist, Sync
from barnabas.replication.quorum.leader import Leader
from barnabas.replication.quorum.log_view import Batch, LogView, OffsetAndEpoch
from barnabas.replication.quorum.settings import (
    ELECTION_RETRY_MS,
    LOOK_AROUND_MS,
    RANK_DELAY_MS,
    RANK_JITTER_MS,
    Identity,
    QuorumConfig,
)
from barnabas.replication.quorum.states import (
    NEVER_MS,
    Candidate,
    Election,
    Follower,
    Prospective,
    Resigned,
    State,
    Unattached,
    is_legal,
)
from barnabas.replication.quorum.voters import BEFORE_THE_LOG, NO_NODE, Address, ReplicaKey, VoterHistory, VoterSet

ReadBatches = Callable[[Any], Sequence[Batch]]
"""Says which batches the records of a Fetch response hold, and decodes their control records."""


class QuorumReplica:
    def __init__(
        self,
        me: Identity,
        config: QuorumConfig,
        log: LogView,
        history: VoterHistory,
        random: Callable[[], float],
        read_batches: ReadBatches,
    ) -> None:
        """Begins with what was found on the disk; `history` holds the voters as far as the log says who they are."""
        self.me = me
        self.config = config
        self.log = log
        self.history = history
        self.random = random
        self.read_batches = read_batches
        self.connections = Connections(config)
        self.effects: list[Effect] = []
        self.state: State = Unattached(0, leader_id=None, voted=None, deadline_ms=NEVER_MS)
        self.leader_address: Address | None = None
        self.high_watermark = max(log.start_offset, 0)
        self.election_attempts = 0
        """How often in a row it was refused."""
        self.installing: OffsetAndEpoch | None = None
        """The snapshot whose installation was ordered and is not done so far."""
        self.is_shutting_down = False
        self._persisted: tuple[int, int | None, ReplicaKey | None] = (0, None, None)

    # ---- what it is

    @property
    def node_id(self) -> int:
        return self.me.key.node_id

    @property
    def epoch(self) -> int:
        return self.state.epoch

    @property
    def voters(self) -> VoterSet:
        return self.history.last

    @property
    def is_voter(self) -> bool:
        return self.voters.key_of(self.me.key) is not None

    @property
    def is_electable(self) -> bool:
        """Returns whether it is a voter, or was one before a change that may not be committed. Such a node may have the
        only log that can win: without it the change could neither be committed nor be taken back."""
        if self.is_voter:
            return True
        before, is_open = self.history.before_last, self.history.last_offset >= self.high_watermark
        return is_open and before is not None and before.key_of(self.me.key) is not None

    @property
    def may_stand(self) -> bool:
        return self.is_electable and not self.is_shutting_down and self.log.is_synced and self.installing is None

    @property
    def leader(self) -> tuple[int, int, Address | None]:
        """Returns leader, epoch and the leader's address, as every response names them."""
        leader_id = self.state.leader_id
        return NO_NODE if leader_id is None else leader_id, self.state.epoch, self.leader_address

    @property
    def has_lost_majority(self) -> bool:
        """Returns whether so many voters have left their last request without an answer that nobody can be elected."""
        silent = sum(self.connections.is_silent(node.key.node_id) for node in self.voters.others_than(self.node_id))
        return silent > 0 and len(self.voters) - silent <= len(self.voters) // 2

    # ---- start

    def start(self, stored: QuorumStateData | None, *, now_ms: int) -> None:
        """Becomes what it was. A former leader neither votes nor writes in its epoch: records that it lost with the
        power may have been seen, and no two records may have one offset and epoch."""
        if stored is not None:
            voted = ReplicaKey(stored.voted_id, stored.voted_directory_id) if stored.voted_id >= 0 else None
            leader_id = stored.leader_id if stored.leader_id >= 0 else None
            self._persisted = (stored.leader_epoch, leader_id, voted)
        epoch, leader_id, voted = self._persisted
        if stored is None and self.log.end_offset > 0 and self.is_voter:
            # A log dir of a quorum of one, from before there was a file: this node has led.
            epoch, leader_id = self.log.end.epoch, self.node_id
        deadline_ms = self._first_deadline_ms(now_ms)
        if epoch < self.log.end.epoch:
            self.state = Unattached(self.log.end.epoch, leader_id=None, voted=None, deadline_ms=deadline_ms)
        elif leader_id == self.node_id:
            self.state = self._resigned(epoch, voted, [], now_ms)
        elif voted == self.me.key and self.is_electable:
            self.state = self._candidate(epoch, now_ms)
        elif leader_id is not None:
            self.state = self._follower(epoch, leader_id, voted, now_ms)
        else:
            self.state = Unattached(epoch, leader_id=None, voted=voted, deadline_ms=deadline_ms)
        self._persist()
        self._tell_leader()

    def _first_deadline_ms(self, now_ms: int) -> int:
        """Returns when to stand first. Where nothing was ever written, or nobody else votes, there is no leader to wait
        for. Elsewhere the others are asked for one; whoever follows one refuses the pre-vote, and names it."""
        if self.is_voter and len(self.voters) == 1:
            return now_ms
        is_new = self.log.end_offset == 0 and self._persisted[0] == 0
        return self.rank_deadline_ms(now_ms if is_new else now_ms + LOOK_AROUND_MS)

    # ---- deadlines

    def election_deadline_ms(self, now_ms: int) -> int:
        return now_ms + self.config.election_timeout_ms + int(self.random() * self.config.election_timeout_ms)

    def rank_deadline_ms(self, now_ms: int) -> int:
        rank = self.voters.rank_of(self.node_id, without=self.state.leader_id)
        return now_ms + rank * RANK_DELAY_MS + int(self.random() * RANK_JITTER_MS)

    def retry_deadline_ms(self, now_ms: int) -> int:
        """Returns a random time to stand again: voters that stand in step would refuse each other for ever."""
        lowest, highest = ELECTION_RETRY_MS
        wait_ms = int(lowest + self.random() * (highest - lowest)) << min(self.election_attempts, 8)
        self.election_attempts += 1
        return min(now_ms + wait_ms, self.election_deadline_ms(now_ms))

    # ---- transitions

    def _become(self, state: State) -> None:
        old = self.state
        assert is_legal(old, state), f"{old.role.value} in {old.epoch} cannot be {state.role.value} in {state.epoch}"
        self.state = state
        self.connections.forget_requests()
        self._persist()
        if (state.leader_id, state.epoch) != (old.leader_id, old.epoch) or isinstance(state, Resigned):
            self._tell_leader()

    def _tell_leader(self) -> None:
        """Reports who leads. A node that has resigned leads no more, but for others it is still the epoch's leader."""
        leader_id = None if isinstance(self.state, Resigned) else self.state.leader_id
        self.effects.append(LeaderChanged(leader_id, self.epoch))

    def _persist(self) -> None:
        state = self.state
        found = (state.epoch, state.leader_id, state.voted)
        if found == self._persisted:
            return
        self._persisted = found
        voted_id, voted_directory_id = state.voted or (-1, ZERO_UUID)
        self.effects.append(
            Persist(
                QuorumStateData(
                    leader_id=-1 if state.leader_id is None else state.leader_id,
                    leader_epoch=state.epoch,
                    voted_id=voted_id,
                    voted_directory_id=voted_directory_id,
                )
            )
        )

    def become_unattached(self, epoch: int, *, now_ms: int, deadline_ms: int | None = None) -> None:
        """Follows nobody. In a new epoch a voter that was about to stand does so no later than it would have."""
        same, old = epoch == self.epoch, self.state
        if deadline_ms is None:
            is_waiting = isinstance(old, Unattached | Candidate | Resigned) and old.deadline_ms > now_ms
            deadline_ms = old.deadline_ms if is_waiting else self.election_deadline_ms(now_ms)
        if not same:
            self.leader_address = None
        self._become(
            Unattached(
                epoch,
                leader_id=old.leader_id if same else None,
                voted=old.voted if same else None,
                deadline_ms=deadline_ms,
            )
        )

    def vote_for(self, candidate: ReplicaKey, *, now_ms: int) -> None:
        """Gives the vote of this epoch, and waits: the candidate is at least as good as this node."""
        old = self.state
        assert old.voted is None, "one vote an epoch"
        deadline_ms = self.election_deadline_ms(now_ms)
        if isinstance(old, Prospective):
            state = self._prospective(old.epoch, old.leader_id, candidate, old.leader_is_gone)
            state.deadline_ms = deadline_ms
            self._become(state)
        else:
            self._become(Unattached(old.epoch, leader_id=old.leader_id, voted=candidate, deadline_ms=deadline_ms))

    def become_prospective(self, *, now_ms: int) -> None:
        assert self.may_stand
        old = self.state
        is_gone = isinstance(old, Follower) and old.leader_is_gone
        state = self._prospective(old.epoch, old.leader_id, old.voted, is_gone)
        state.deadline_ms = self.election_deadline_ms(now_ms)
        self._become(state)

    def _prospective(self, epoch: int, leader_id: int | None, voted: ReplicaKey | None, is_gone: bool) -> Prospective:
        state = Prospective(epoch, leader_id=leader_id, voted=voted, deadline_ms=0)
        state.election = Election([key.node_id for key in self.voters.keys], self.node_id)
        state.leader_is_gone = is_gone
        return state

    def become_candidate(self, *, now_ms: int) -> None:
        assert self.may_stand
        self.leader_address = None
        self._become(self._candidate(self.epoch + 1, now_ms))

    def _candidate(self, epoch: int, now_ms: int) -> Candidate:
        deadline_ms = self.election_deadline_ms(now_ms)
        state = Candidate(epoch, leader_id=None, voted=self.me.key, deadline_ms=deadline_ms)
        state.election = Election([key.node_id for key in self.voters.keys], self.node_id)
        return state

    def become_follower(self, epoch: int, leader_id: int, address: Address | None, *, now_ms: int) -> None:
        assert leader_id != self.node_id
        self.leader_address = address or self._address_of(leader_id)
        voted = self.state.voted if epoch == self.epoch else None
        self._become(self._follower(epoch, leader_id, voted, now_ms))

    def _follower(self, epoch: int, leader_id: int, voted: ReplicaKey | None, now_ms: int) -> Follower:
        self.leader_address = self.leader_address or self._address_of(leader_id)
        deadline_ms = now_ms + self.config.fetch_timeout_ms
        state = Follower(epoch, leader_id=leader_id, voted=voted, deadline_ms=deadline_ms)
        state.has_fetched = state.leader_is_gone = False
        state.download = None
        state.update_voter_at_ms = deadline_ms
        return state

    def become_leader(self, *, now_ms: int) -> None:
        """Begins an epoch with a record of its own, without which nothing could be committed in it."""
        old = self.state
        assert isinstance(old, Candidate)
        assert old.election.is_won
        self.election_attempts = 0
        self.leader_address = self.me.addresses[0] if self.me.addresses else None
        state = Leader(
            self.epoch,
            self.node_id,
            commit=CommitRule(self.voters.keys, self.log.end_offset),
            epoch_start_offset=self.log.end_offset,
        )
        state.voted = old.voted
        self._become(state)
        self.reset_check_quorum(state, now_ms)
        state.begin_at_ms = dict.fromkeys((node.key.node_id for node in self.voters.others_than(self.node_id)), now_ms)
        self.append_control(self._first_records(old.election.granting))

    def _first_records(self, granting: Sequence[int]) -> list[object]:
        change = LeaderChangeMessage(
            version=LEADER_CHANGE_VERSION,
            leader_id=self.node_id,
            voters=[Voter(voter_id=key.node_id) for key in self.voters.keys],
            granting_voters=[Voter(voter_id=voter_id) for voter_id in granting],
        )
        if self.history.kraft_version == 0:
            return [change]
        has_moved = bool(self.me.addresses) and self.is_voter and self.voters.get(self.node_id) != self.me.node
        voters = self.voters.with_voter(self.me.node) if has_moved else self.voters
        if self.history.last_offset == BEFORE_THE_LOG:
            # The voters of the bootstrap snapshot, which no other node has, must be in the log (KIP-853).
            version = KRaftVersionRecord(version=0, kraft_version=self.history.kraft_version)
            return [change, version, voters.record()]
        # Other voters ask the leader to note where they are now; the leader notes its own address itself.
        return [change, voters.record()] if has_moved else [change]

    def become_resigned(self, preferred: list[ReplicaKey], *, now_ms: int) -> None:
        self._become(self._resigned(self.epoch, self.state.voted, preferred, now_ms))

    def _resigned(self, epoch: int, voted: ReplicaKey | None, preferred: list[ReplicaKey], now_ms: int) -> Resigned:
        others = [node.key.node_id for node in self.voters.others_than(self.node_id)]
        deadline_ms = self.election_deadline_ms(now_ms) if others else now_ms
        state = Resigned(epoch, leader_id=self.node_id, voted=voted, deadline_ms=deadline_ms)
        state.preferred, state.unacknowledged = preferred, others
        return state

    def learn(self, epoch: int, leader_id: int | None, address: Address | None, *, now_ms: int) -> None:
        """Takes over what another node says of the epoch and its leader."""
        if leader_id == self.node_id:
            leader_id = None  # what this disk does not know, an earlier disk of this id has done
        if epoch > self.epoch and leader_id is None:
            self.become_unattached(epoch, now_ms=now_ms)
        elif leader_id is not None and (epoch > self.epoch or (epoch == self.epoch and self.state.leader_id is None)):
            self.become_follower(epoch, leader_id, address, now_ms=now_ms)

    # ---- the log

    def append_control(self, records: Sequence[object]) -> int:
        """Appends control records of this leader; returns the end offset."""
        return self.append(len(records), control=records)

    def append(self, count: int, payload: Any = None, control: Sequence[object] = ()) -> int:
        state, base_offset = self.state, self.log.end_offset
        assert isinstance(state, Leader), "only the leader appends"
        batch = Batch(base_offset, base_offset + count, state.epoch, control)
        self.log.append(batch)
        self.effects += [Append(batch, payload), Sync(self.log.begin_sync())]
        if self.replay_control(batch):
            state.commit.change_voters(self.voters.keys)
        return batch.end_offset

    def replay_control(self, batch: Batch) -> bool:
        """Takes over what a batch that is in the log says of the voters; returns whether they have changed."""
        before = self.history.last_offset
        for offset, record in enumerate(batch.control, batch.base_offset):
            self.history.replay(offset, record)
        return self.history.last_offset != before

    def advance_high_watermark(self, high_watermark: int) -> bool:
        if high_watermark <= self.high_watermark:
            return False
        self.high_watermark = high_watermark
        self.effects.append(Committed(high_watermark))
        return True

    # ---- messages

    def send(self, node_id: int, request: Any) -> None:
        from barnabas.replication.quorum.exchange.effects import Send

        self.connections.sent(node_id, request)
        known = self.leader_address if node_id == self.state.leader_id else None
        self.effects.append(Send(node_id, known or self._address_of(node_id), request))

    def _address_of(self, node_id: int) -> Address | None:
        for node in (*self.voters, *self.me.bootstrap):
            if node.key.node_id == node_id:
                return next(iter(node.addresses), None)
        return None

    def reset_check_quorum(self, state: Leader, now_ms: int) -> None:
        is_alone = len(self.voters) == 1 and self.is_voter
        state.check_quorum_at_ms = NEVER_MS if is_alone else now_ms + self.config.check_quorum_ms
