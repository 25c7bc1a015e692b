"""The answer to a Produce of which not every append can be acknowledged at once."""

from collections.abc import Sequence

from barnabas.base.environment import Clock
from barnabas.base.promise import Promise
from barnabas.broker.replicas.partition import LeaderPartition
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.produce import PartitionProduceResponse, ProduceRequest, ProduceResponse
from barnabas.storage.log import AppendInfo

Waiting = tuple[LeaderPartition, AppendInfo, PartitionProduceResponse]


def when_acknowledged(
    clock: Clock, waiting: Sequence[Waiting], response: ProduceResponse, request: ProduceRequest
) -> Promise[ProduceResponse]:
    """Returns a promise of `response`, with an error in the place of each append that is not acknowledged in time."""
    promise: Promise[ProduceResponse] = Promise()
    left = {id(answer): answer for _, _, answer in waiting}

    def acknowledged(answer: PartitionProduceResponse, error: Exception | None) -> None:
        if left.pop(id(answer), None) is None:
            return  # it was too late
        if error is not None:
            assert isinstance(error, KafkaError), f"{error!r} is nothing that a client can be answered"
            fail(answer, error)
        if not left:
            timer.cancel()
            promise.resolve(response)

    def too_late() -> None:
        for answer in left.values():
            fail(answer, too_late_error())
        left.clear()
        promise.resolve(response)

    timer = clock.call_later(request.timeout_ms, too_late)
    for partition, info, answer in waiting:
        appended = partition.when_acknowledged(info, request.acks)
        appended.when_done(lambda done, answer=answer: acknowledged(answer, done.error))  # type: ignore[misc]
    return promise


def too_late_error() -> KafkaError:
    return KafkaError("not committed within the request's timeout", ErrorCode.REQUEST_TIMED_OUT)


def fail(answer: PartitionProduceResponse, error: KafkaError) -> None:
    answer.error_code = error.code
    answer.error_message = error.message
    answer.base_offset = answer.log_append_time_ms = answer.log_start_offset = -1
