"""A controller that does not vote so far joins the voters by itself (`controller.quorum.auto.join.enable`, KIP-1186).

It asks to be added once it follows the log, and asks again until the voters name it. A disk that was lost is removed
first: the same id with another directory is another voter (KIP-853).
"""

from typing import Any

from barnabas.base.environment import Clock, Report, Timer
from barnabas.base.promise import Promise
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.add_raft_voter import AddRaftVoterRequest, Listener
from barnabas.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from barnabas.replication.controller.channel import ControllerChannel, own_context
from barnabas.replication.quorum.driver import QuorumDriver

_ASK_MS = 250
_TIMEOUT_MS = 2_000


class AutoJoin:
    def __init__(self, driver: QuorumDriver, controller: ControllerChannel, clock: Clock, report: Report) -> None:
        self._driver = driver
        self._controller = controller
        self._clock = clock
        self._report = report
        self._is_closed = False
        self._timer: Timer | None = None

    def start(self) -> None:
        """Joins the voters, if this node is none of them and the log says who votes."""
        replica = self._driver.core.replica
        if self._is_closed:
            return
        if replica.is_voter:
            if replica.history.last_offset >= replica.high_watermark:
                self._later()  # who votes is not committed so far: another leader may know nothing of it
            return
        if replica.history.kraft_version == 0:
            return  # the voters are configured: none can be added
        request = self._request()
        self._controller.submit(request, own_context(request)).when_done(self._answered)

    def _request(self) -> Any:
        replica = self._driver.core.replica
        key = replica.me.key
        lost = replica.voters.get(key.node_id)
        if lost is not None:
            return RemoveRaftVoterRequest(
                cluster_id=replica.me.cluster_id, voter_id=key.node_id, voter_directory_id=lost.key.directory_id
            )
        return AddRaftVoterRequest(
            cluster_id=replica.me.cluster_id,
            timeout_ms=_TIMEOUT_MS,
            voter_id=key.node_id,
            voter_directory_id=key.directory_id,
            listeners=[Listener(name=name, host=host, port=port) for name, host, port in replica.me.addresses],
            ack_when_committed=False,
        )

    def _answered(self, answer: Promise[Any]) -> None:
        if answer.error is None and answer.value.error_code == ErrorCode.NONE:
            self._report.info("this node joins the voters of the metadata quorum")
        self._later()

    def _later(self) -> None:
        if not self._is_closed:
            self._timer = self._clock.call_later(_ASK_MS, self.start)

    def close(self) -> None:
        """Asks no more."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
