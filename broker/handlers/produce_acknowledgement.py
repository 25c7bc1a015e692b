"""The answer to a Produce of which not every append can be acknowledged at once."""

from collections.abc import Sequence

from barnabas.base.promise import Promise
from barnabas.broker.replicas.leader import LeaderPartition
from barnabas.protocol.errors import KafkaError
from barnabas.protocol.messages.produce import PartitionProduceResponse, ProduceRequest, ProduceResponse
from barnabas.storage.log import AppendInfo

Waiting = tuple[LeaderPartition, AppendInfo, PartitionProduceResponse]


def when_acknowledged(
    waiting: Sequence[Waiting], response: ProduceResponse, request: ProduceRequest
) -> Promise[ProduceResponse]:
    """Returns a promise of `response`, with an error in the place of each append that is not acknowledged in time."""
    answer = _Answer(response, len(waiting))
    for partition, info, partition_response in waiting:
        waiter = _PartitionAnswer(answer, partition_response)
        partition.when_acknowledged(info, request.acks, waiter, request.timeout_ms)
    return answer


class _Answer(Promise[ProduceResponse]):
    """The response, which leaves with the last of its partitions."""

    __slots__ = ("_left", "_response")

    def __init__(self, response: ProduceResponse, left: int) -> None:
        super().__init__()
        self._response = response
        self._left = left

    def one_done(self) -> None:
        self._left -= 1
        if self._left == 0:
            self.resolve(self._response)


class _PartitionAnswer:
    __slots__ = ("_answer", "_response")

    def __init__(self, answer: _Answer, response: PartitionProduceResponse) -> None:
        self._answer = answer
        self._response = response

    def on_append_done(self, error: KafkaError | None) -> None:
        if error is not None:
            fail(self._response, error)
        self._answer.one_done()


def fail(answer: PartitionProduceResponse, error: KafkaError) -> None:
    answer.error_code = error.code
    answer.error_message = error.message
    answer.base_offset = answer.log_append_time_ms = answer.log_start_offset = -1
