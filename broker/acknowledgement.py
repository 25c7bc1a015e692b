"""The answer to a Produce whose appends are not all committed yet."""

from collections.abc import Sequence

from barnabas.broker.partition import Committed, Partition
from barnabas.broker.promise import Promise
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.produce import PartitionProduceResponse, ProduceResponse
from barnabas.storage.log import AppendInfo
from barnabas.storage.seams import Clock

Waiting = tuple[Partition, AppendInfo, PartitionProduceResponse]


def when_committed(
    clock: Clock, waiting: Sequence[Waiting], response: ProduceResponse, timeout_ms: int
) -> Promise[ProduceResponse]:
    """A promise of `response`, with an error in the place of each partition that is not committed in time."""
    promise: Promise[ProduceResponse] = Promise()
    left = {id(told): told for _, _, told in waiting}

    def when_told(told: PartitionProduceResponse) -> Committed:
        def committed(error: KafkaError | None) -> None:
            if left.pop(id(told), None) is None:
                return  # it was too late
            if error is not None:
                fail(told, error)
            if not left:
                timer.cancel()
                promise.resolve(response)

        return committed

    def too_late() -> None:
        for told in left.values():
            fail(told, too_late_error())
        left.clear()
        promise.resolve(response)

    timer = clock.call_later(timeout_ms, too_late)
    for partition, info, told in waiting:
        partition.when_committed(info, when_told(told))
    return promise


def too_late_error() -> KafkaError:
    return KafkaError("not committed within the request's timeout", ErrorCode.REQUEST_TIMED_OUT)


def fail(told: PartitionProduceResponse, error: KafkaError) -> None:
    told.error_code = error.code
    told.error_message = error.message
    told.base_offset = told.log_append_time_ms = told.log_start_offset = -1
