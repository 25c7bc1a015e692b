import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.stored.metadata_record_serde import decode_record, encode_record
from barnabas.protocol.stored.metadata_records import FeatureLevelRecord, NoOpRecord, TopicRecord
from tests.replication.clusters import uuid


def test_a_record_is_framed_as_kafka_frames_it() -> None:
    record = FeatureLevelRecord(name="metadata.version", feature_level=30)
    assert encode_record(record).hex() == "010c0011" + b"metadata.version".hex() + "001e00"
    assert decode_record(encode_record(record)) == record


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "whole header"),
        (b"\x01", "whole header"),
        (b"\x00\x0c\x00", "frame of version 0"),
        (b"\x81\x01\x0c\x00", "frame of version 129"),  # a varint of two bytes
        (b"\x02\x0c\x00", "frame of version 2"),
        (b"\x01\x7f\x00", "record 127"),
        (b"\x01\x02\x05", "version 5"),  # a TopicRecord of the future
        (b"\xff\xff\xff\xff\xff\x01", "whole header"),  # no varint
        (encode_record(TopicRecord(name="a", topic_id=uuid(1)))[:-1], "TopicRecord"),
        (encode_record(NoOpRecord()) + b"x", "NoOpRecord"),
    ],
)
def test_what_is_no_record_is_refused(value: bytes, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        decode_record(value)


@given(st.binary(max_size=40))
def test_garbage_raises_nothing_else(value: bytes) -> None:
    try:
        decode_record(value)
    except ProtocolError:
        pass
