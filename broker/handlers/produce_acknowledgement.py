"""The answer to a Produce of which not every append can be acknowledged at once."""

from collections.abc import Sequence

from barnabas.base.promise import Promise
from barnabas.broker.replicas.leader import LeaderPartition
from barnabas.protocol.errors import KafkaError
from barnabas.protocol.messages.produce import PartitionProduceResponse, ProduceRequest, ProduceResponse
from barnabas.storage.append_info import AppendInfo

Waiting = tuple[LeaderPartition, AppendInfo, PartitionProduceResponse]


def when_acknowledged(
    waiting: Sequence[Waiting], response: ProduceResponse, request: ProduceRequest
) -> Promise[ProduceResponse]:
    """Returns a promise of `response`, with an error in the place of each append that is not acknowledged in time."""
    answer = Answer(request, response, len(waiting))
    for each in waiting:
        answer.wait(*each)
    return answer


class Answer(Promise[ProduceResponse]):
    """The response, which leaves with the last of so many partitions."""

    __slots__ = ("_left", "_request", "_response")

    def __init__(self, request: ProduceRequest, response: ProduceResponse, left: int) -> None:
        super().__init__()
        self._request = request
        self._response = response
        self._left = left

    def wait(self, partition: LeaderPartition, info: AppendInfo, response: PartitionProduceResponse) -> None:
        waiter = _PartitionAnswer(self, response)
        partition.when_acknowledged(info, self._request.acks, waiter, self._request.timeout_ms)

    def one_done(self) -> None:
        self._left -= 1
        if self._left == 0 and not self.done:
            self.resolve(self._response)

    def fail_once(self, error: Exception) -> None:
        """Gives the response up, whatever the other partitions do."""
        if not self.done:
            self.fail(error)


class _PartitionAnswer:
    __slots__ = ("_answer", "_response")

    def __init__(self, answer: Answer, response: PartitionProduceResponse) -> None:
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
