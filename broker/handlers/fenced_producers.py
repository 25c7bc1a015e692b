"""What clients are told of a producer that was fenced: those before KIP-588 do not know PRODUCER_FENCED."""

from barnabas.protocol.errors import ErrorCode, KafkaError


def code_for(error: KafkaError, api_version: int, producer_fenced_since: int) -> ErrorCode:
    """Returns the error's code, in a form that clients of this version of the API know."""
    if error.code == ErrorCode.PRODUCER_FENCED and api_version < producer_fenced_since:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error.code
