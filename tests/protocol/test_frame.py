"""Frames and headers, byte by byte as Kafka's documents and its own clients have them."""

import pytest

from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.frame import (
    RequestHeader,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
    frame_size,
)
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse

FLEXIBLE_SINCE: dict[int, int | None] = {18: 3, 21: 2}
CLASSIC, FLEXIBLE = 1, 2  # versions of DeleteRecords


@pytest.mark.parametrize(
    ("version", "client_id", "header"),
    [
        (CLASSIC, "me", "0015 0001 00000007 0002 6d65"),
        (CLASSIC, "", "0015 0001 00000007 0000"),
        (CLASSIC, None, "0015 0001 00000007 ffff"),  # null, which is not empty
        (FLEXIBLE, "me", "0015 0002 00000007 0002 6d65 00"),  # the client id stays as it was, tags come behind it
        (FLEXIBLE, None, "0015 0002 00000007 ffff 00"),
    ],
)
def test_a_request_header(version: int, client_id: str | None, header: str) -> None:
    request = DeleteRecordsRequest(topics=[], timeout_ms=1)
    body = bytes.fromhex("00000000 00000001" if version == CLASSIC else "01 00000001 00")
    frame = encode_request(request, version, 7, client_id)
    assert frame[4:] == bytes.fromhex(header) + body
    assert frame_size(frame, 0, max_bytes=100) == len(frame) - 4, "the size does not count itself"
    decoded, end = decode_request_header(memoryview(frame)[4:], FLEXIBLE_SINCE)
    assert decoded == RequestHeader(21, version, 7, client_id)
    assert frame[4 + end :] == body


def test_tags_of_a_header_are_passed_over() -> None:
    header = bytes.fromhex("0015 0002 00000007 ffff 02 00 01 aa 05 00")
    decoded, end = decode_request_header(memoryview(header + b"body"), FLEXIBLE_SINCE)
    assert (decoded.correlation_id, end) == (7, len(header))


@pytest.mark.parametrize(
    ("response", "version", "expected"),
    [
        (DeleteRecordsResponse(throttle_time_ms=0, topics=[]), CLASSIC, "0000000c 00000009 00000000 00000000"),
        (DeleteRecordsResponse(throttle_time_ms=0, topics=[]), FLEXIBLE, "0000000b 00000009 00 00000000 01 00"),
        (ApiVersionsResponse(error_code=0, api_keys=[]), 0, "0000000a 00000009 0000 00000000"),
        # No tags behind the correlation id: who asks this does not know yet what the broker speaks.
        (ApiVersionsResponse(error_code=0, api_keys=[]), 3, "0000000c 00000009 0000 01 00000000 00"),
    ],
)
def test_a_response_header(response: object, version: int, expected: str) -> None:
    frame, slices = encode_response(response, version, 9)
    assert (bytes(frame), slices) == (bytes.fromhex(expected), [])
    correlation_id, decoded = decode_response(type(response), version, memoryview(frame)[4:])
    assert (correlation_id, decoded) == (9, response)


@pytest.mark.parametrize(
    ("size", "reason"),
    [
        ("ffffffff", "negative size -1"),
        ("80000000", "negative size -2147483648"),
        ("00000065", "101 bytes, above the 100"),
        ("64000000", "above the 100"),  # 100 in the wrong byte order
        ("47455420", "above the 100"),  # "GET "
    ],
)
def test_a_size_that_cannot_be_is_refused(size: str, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        frame_size(bytes.fromhex(size), 0, max_bytes=100)


@pytest.mark.parametrize("size", [0, 100])
def test_a_size_up_to_the_limit_is_taken(size: int) -> None:
    assert frame_size(size.to_bytes(4, "big"), 0, max_bytes=100) == size


@pytest.mark.parametrize(
    "header",
    [
        "",
        "0015 0001 00000007 00",  # ends within the length of the client id
        "0015 0001 00000007 0003 6d65",  # a client id beyond the end
        "0015 0001 00000007 7fff 6d65",
        "0015 0002 00000007 ffff",  # no tags where there must be some
        "0015 0002 00000007 ffff 01",
        "0015 0002 00000007 ffff 01 00 7f",  # a tag beyond the end
    ],
)
def test_a_malformed_header_is_a_protocol_error(header: str) -> None:
    with pytest.raises(ProtocolError):
        decode_request_header(memoryview(bytes.fromhex(header)), FLEXIBLE_SINCE)


@pytest.mark.parametrize(
    ("header", "client_id"),
    [
        (
            "0015 0001 00000007 0005 636166e921",
            "caf\N{REPLACEMENT CHARACTER}!",
        ),  # Latin-1, as an old shell would type it
        ("0015 0001 00000007 8000", None),  # every negative length is null
    ],
)
def test_what_a_client_calls_itself_is_taken_as_kafka_takes_it(header: str, client_id: str | None) -> None:
    decoded, _ = decode_request_header(memoryview(bytes.fromhex(header)), FLEXIBLE_SINCE)
    assert decoded.client_id == client_id


def test_bytes_behind_a_request_are_refused() -> None:
    frame = encode_request(ApiVersionsRequest(), 0, 1, None)
    response, _ = encode_response(ApiVersionsResponse(error_code=0, api_keys=[]), 0, 1)
    assert len(frame) == 14
    with pytest.raises(ProtocolError, match="after the end"):
        decode_response(ApiVersionsResponse, 0, memoryview(response + b"\0")[4:])
