"""Requests of a transactional client, and what it makes of their answers, as Java's does.

Two sets of rules: clients of version 1 add partitions before they write to them and keep their epoch; clients of
version 2 (KIP-890) write at once and get a new epoch with every end.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from barnabas.base.network import Address
from barnabas.base.promise import Promise
from barnabas.broker.network.peer_client import PeerClient
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tests.simulation.clients.client import Failed, check
from tests.simulation.clients.script import Script
from tests.simulation.cluster.routing import ClusterClient

TIMEOUT_MS = 1_500
"""How long a request waits for its answer: what a link holds back for longer arrives when its client has moved on."""
GROUP, TRANSACTION = 0, 1


class Rules(NamedTuple):
    produce_version: int
    end_version: int
    offsets_version: int
    adds_partitions: bool
    """Whether the client says which partitions it is going to write to."""


V1 = Rules(produce_version=11, end_version=4, offsets_version=4, adds_partitions=True)
V2 = Rules(produce_version=13, end_version=5, offsets_version=5, adds_partitions=False)

NOT_HERE = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
NOT_NOW = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
FENCED = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_ID_MAPPING})


class Fenced(Exception):
    """Somebody else has the transactional id now, or nobody: the client begins anew."""


class Died(Fenced):
    """It was this client's own end, and another begins."""


class Expired(Exception):
    """Nobody knows the transactional id any more, or another producer id has it."""


class MustAbort(Exception):
    """The transaction cannot be committed any more."""


class Coordinator:
    """Asks the coordinator of a transactional id or of a group, wherever it is, until it has an answer."""

    def __init__(self, client: ClusterClient, key: str, key_type: int) -> None:
        self._client = client
        self._key = key
        self._key_type = key_type
        self._link: PeerClient | None = None
        self.unanswered = 0
        """How many requests have had no answer: each may be carried out at any time."""

    def ask(self, request: Any, response_class: type[Any], version: int, code_of: Callable[[Any], int]) -> Script[Any]:
        """Returns the answer; raises Failed for an error that trying again does not mend."""
        while True:
            try:
                if self._link is None:
                    yield from self._find()
                assert self._link is not None
                response = yield self._link.send(request, response_class, max_version=version, timeout_ms=TIMEOUT_MS)
            except (KafkaError, Failed) as error:
                self.unanswered += bool(getattr(error, "was_sent", False))
                self._forget()
            else:
                code = ErrorCode(code_of(response))
                if code not in NOT_HERE and code not in NOT_NOW:
                    check(code)
                    return response
                if code in NOT_HERE:
                    self._forget()
            yield self._client.back_off()

    def close(self) -> None:
        self._forget()

    def _forget(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.close()

    def _find(self) -> Script[None]:
        request = FindCoordinatorRequest(key_type=self._key_type, coordinator_keys=[self._key])
        response = yield self._client.ask_anybody(request, FindCoordinatorResponse, max_version=4)
        (found,) = response.coordinators
        check(found.error_code)
        self._link = self._client.link_to(Address(found.host, found.port))


def all_done(promises: list[Promise[Any]]) -> Promise[None]:
    """Returns a promise that is kept when all of these are, whatever came of them."""
    done: Promise[None] = Promise()
    left = len(promises)

    def one_more(_: Promise[Any]) -> None:
        nonlocal left
        left -= 1
        if not left:
            done.resolve(None)

    for promise in promises:
        promise.when_done(one_more)
    return done
