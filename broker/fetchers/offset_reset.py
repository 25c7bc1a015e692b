"""Asks a leader where its log begins and ends, for a follower whose offset is not in it."""

from barnabas.base.promise import Promise, all_of
from barnabas.broker.fetchers.fetchers import Follower
from barnabas.broker.fetchers.followed_partition import FollowedPartition
from barnabas.broker.network.peer_client import PeerClient
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

_EARLIEST = -2
_LATEST = -1


class OffsetReset:
    def __init__(self, client: PeerClient, follower: Follower, followed: FollowedPartition) -> None:
        self._client = client
        self._follower = follower
        self._name = followed.partition.topic_partition
        self._leader_epoch = followed.leader_epoch

    def run(self) -> Promise[tuple[int, int]]:
        """Returns a promise of the leader's log start and log end. It fails with the leader's error."""
        both = all_of([self._offset_at(_EARLIEST), self._offset_at(_LATEST)])
        return both.map(lambda offsets: (offsets[0], offsets[1]))

    def _offset_at(self, timestamp: int) -> Promise[int]:
        topic, index = self._name
        asked = ListOffsetsPartition(
            partition_index=index, current_leader_epoch=self._leader_epoch, timestamp=timestamp
        )
        request = ListOffsetsRequest(
            replica_id=self._follower.node_id, topics=[ListOffsetsTopic(name=topic, partitions=[asked])]
        )
        timeout_ms = self._follower.config().replica_socket_timeout_ms
        return self._client.send(request, ListOffsetsResponse, timeout_ms=timeout_ms).map(self._offset_in)

    def _offset_in(self, response: ListOffsetsResponse) -> int:
        for topic in response.topics:
            for partition in topic.partitions:
                if (topic.name, partition.partition_index) == self._name:
                    if partition.error_code:
                        raise KafkaError("refused by the leader", ErrorCode(partition.error_code))
                    if partition.offset < 0:
                        raise KafkaError("an answer without an offset", ErrorCode.UNKNOWN_SERVER_ERROR)
                    return partition.offset
        raise KafkaError("an answer to another question", ErrorCode.UNKNOWN_SERVER_ERROR)
