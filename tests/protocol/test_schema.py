"""The declaration language: what a declaration means on the wire, and what it makes of a class."""

from collections.abc import Sequence
from typing import Any

import pytest

from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.schema import (
    EMPTY,
    Records,
    Slice,
    array,
    batches,
    blob,
    boolean,
    decode,
    decode_from,
    encode,
    encode_into,
    float64,
    int8,
    int16,
    int32,
    int64,
    message,
    nested,
    string,
    struct,
    uint16,
    uint32,
    uuid,
)

UUID = bytes(range(16))


def hexed(text: str) -> bytes:
    return bytes.fromhex(text)


def one_field(field: Any, *, flexible: bool = False, versions: range = range(0, 6)) -> Any:
    """A message with this field alone, whose name is `value`."""
    return message(versions=versions, flexible_since=0 if flexible else None)(type("Message", (), {"value": field}))


# --- values on the wire -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value", "classic", "compact"),
    [
        (boolean, True, "01", "01"),
        (boolean, False, "00", "00"),
        (int8, -2, "fe", "fe"),
        (int16, -2, "fffe", "fffe"),
        (uint16, 65535, "ffff", "ffff"),
        (int32, 258, "00000102", "00000102"),
        (uint32, 2**32 - 1, "ffffffff", "ffffffff"),
        (int64, -(2**63), "8000000000000000", "8000000000000000"),
        (float64, 1.5, "3ff8000000000000", "3ff8000000000000"),
        (uuid, UUID, UUID.hex(), UUID.hex()),
        (string, "", "0000", "01"),
        (string, "héé", "0005" + "68c3a9c3a9", "06" + "68c3a9c3a9"),  # a length counts bytes, not letters
        (string, "x" * 63, "003f" + "78" * 63, "40" + "78" * 63),  # the longest that is read by a ready struct
        (string, "x" * 64, "0040" + "78" * 64, "41" + "78" * 64),
        (string, "x" * 126, "007e" + "78" * 126, "7f" + "78" * 126),  # the longest whose compact length is one byte
        (string, "x" * 127, "007f" + "78" * 127, "8001" + "78" * 127),
        (string, "x" * 32767, "7fff" + "78" * 32767, "808002" + "78" * 32767),  # the longest that Kafka allows
        (blob, b"", "00000000", "01"),
        (blob, b"ab", "00000002" + "6162", "03" + "6162"),
        (batches, b"ab", "00000002" + "6162", "03" + "6162"),
        (batches, bytes(16382), "00003ffe" + "00" * 16382, "ff7f" + "00" * 16382),  # the longest of two bytes
        (batches, bytes(16383), "00003fff" + "00" * 16383, "808001" + "00" * 16383),
        (batches, bytes(2097151), "001fffff" + "00" * 2097151, "80808001" + "00" * 2097151),
    ],
)
def test_a_value_in_classic_and_compact_form(field: Any, value: Any, classic: str, compact: str) -> None:
    for flexible, expected in ((False, classic), (True, compact + "00")):
        cls = one_field(field(), flexible=flexible)
        assert encode(cls(value=value), 0).hex() == expected
        assert decode(cls, 0, hexed(expected)) == cls(value=value)


@pytest.mark.parametrize(
    ("field", "classic"),
    [(string, "ffff"), (blob, "ffffffff"), (batches, "ffffffff"), (lambda **o: array(int8, **o), "ffffffff")],
)
def test_null_where_it_is_allowed_and_where_it_is_not(field: Any, classic: str) -> None:
    for flexible, expected in ((False, classic), (True, "00" + "00")):
        allowed = one_field(field(nullable=True), flexible=flexible)
        assert encode(allowed(value=None), 0).hex() == expected
        assert decode(allowed, 0, hexed(expected)).value is None
        with pytest.raises(ProtocolError, match="null"):
            decode(one_field(field(), flexible=flexible), 0, hexed(expected))


@pytest.mark.parametrize(
    ("of", "values", "classic", "compact"),
    [
        (int32, [], "00000000", "01"),
        (int32, [1, 2], "00000002" + "0000000100000002", "03" + "0000000100000002"),
        (int8, list(range(15)), "0000000f" + bytes(range(15)).hex(), "10" + bytes(range(15)).hex()),
        (int8, list(range(16)), "00000010" + bytes(range(16)).hex(), "11" + bytes(range(16)).hex()),
        (int8, [7] * 127, "0000007f" + "07" * 127, "8001" + "07" * 127),
        (boolean, [True, False], "00000002" + "0100", "03" + "0100"),
        (float64, [1.5], "00000001" + "3ff8000000000000", "02" + "3ff8000000000000"),
        (uuid, [UUID], "00000001" + UUID.hex(), "02" + UUID.hex()),
        (uuid, [UUID] * 20, "00000014" + UUID.hex() * 20, "15" + UUID.hex() * 20),
        (string, ["a", "bc"], "00000002" + "0001" + "61" + "0002" + "6263", "03" + "02" + "61" + "03" + "6263"),
        (blob, [b"a", b""], "00000002" + "00000001" + "61" + "00000000", "03" + "02" + "61" + "01"),
    ],
)
def test_an_array_of_a_primitive_kind(of: Any, values: list[Any], classic: str, compact: str) -> None:
    for flexible, expected in ((False, classic), (True, compact + "00")):
        cls = one_field(array(of), flexible=flexible)
        assert encode(cls(value=values), 0).hex() == expected
        assert encode(cls(value=tuple(values)), 0).hex() == expected
        assert decode(cls, 0, hexed(expected)).value == values


def test_an_array_of_structs_that_hold_arrays_of_structs() -> None:
    @struct
    class Inner:
        number: int = int8()

    @struct
    class Outer:
        name: str = string()
        inners: Sequence[Inner] = array(Inner)
        last: int = int8()

    @message(versions=range(0, 2), flexible_since=1)
    class Message:
        outers: Sequence[Outer] = array(Outer)
        end: int = int8()

    value = Message(
        outers=[
            Outer(name="a", inners=[Inner(number=1), Inner(number=2)], last=3),
            Outer(name="", inners=[], last=4),
        ],
        end=5,
    )
    classic = "00000002" + "000161" + "00000002" + "0102" + "03" + "0000" + "00000000" + "04" + "05"
    compact = "03" + "0261" + "03" + "0100" + "0200" + "03" + "00" + "01" + "01" + "04" + "00" + "05" + "00"
    for version, expected in ((0, classic), (1, compact)):
        assert encode(value, version).hex() == expected
        assert decode(Message, version, hexed(expected)) == value


@struct
class Point:
    x: int = int8()
    y: int = int8(since=1, default=9)


@message(versions=range(0, 3), flexible_since=2)
class Shape:
    before: int = int8()
    first: Point = nested(Point)
    second: Point | None = nested(Point, nullable=1)
    after: int = int8()


@pytest.mark.parametrize(
    ("version", "second", "expected"),
    [
        (0, Point(x=3), "01" + "02" + "03" + "04"),  # not nullable yet: no byte that says so
        (1, Point(x=3, y=4), "01" + "0209" + "01" + "0304" + "04"),
        (1, None, "01" + "0209" + "ff" + "04"),
        (2, Point(x=3, y=4), "01" + "020900" + "01" + "030400" + "04" + "00"),  # each struct has tags of its own
        (2, None, "01" + "020900" + "ff" + "04" + "00"),
    ],
)
def test_a_nested_struct_and_a_nullable_one(version: int, second: Point | None, expected: str) -> None:
    value = Shape(before=1, first=Point(x=2), second=second, after=4)
    assert encode(value, version).hex() == expected
    assert decode(Shape, version, hexed(expected)) == value


# --- versions -----------------------------------------------------------------------------------------------------


@message(versions=range(0, 5))
class Versioned:
    always: int = int8()
    added: int = int8(since=2, default=-1)
    removed: str = string(until=2, default="gone")
    name: str | None = string(nullable=3)


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (0, "01" + "000172" + "00016e"),
        (1, "01" + "000172" + "00016e"),
        (2, "01" + "02" + "000172" + "00016e"),
        (3, "01" + "02" + "00016e"),
    ],
)
def test_a_field_is_carried_from_its_first_version_to_its_last(version: int, expected: str) -> None:
    assert encode(Versioned(always=1, added=2, removed="r", name="n"), version).hex() == expected


def test_a_field_that_the_version_does_not_carry_decodes_to_its_default() -> None:
    assert decode(Versioned, 0, hexed("01" + "000172" + "00016e")) == Versioned(always=1, removed="r", name="n")
    assert decode(Versioned, 3, hexed("01" + "02" + "00016e")).removed == "gone"


def test_null_is_allowed_from_the_version_that_says_so() -> None:
    assert encode(Versioned(always=1, name=None), 3).hex() == "01" + "ff" + "ffff"
    assert decode(Versioned, 3, hexed("01" + "ff" + "ffff")).name is None
    with pytest.raises(ProtocolError, match="null"):
        decode(Versioned, 2, hexed("01" + "02" + "0000" + "ffff"))


def test_a_version_that_is_not_declared_is_our_bug() -> None:
    for use in (lambda: encode(Versioned(always=1, name=""), 5), lambda: decode(Versioned, 5, b"")):
        with pytest.raises(AssertionError, match="Versioned has no version 5"):
            use()


# --- tags ---------------------------------------------------------------------------------------------------------


@struct
class Leader:
    leader_id: int = int32(default=-1)
    leader_epoch: int = int32(default=-1)


@message(versions=range(0, 3), flexible_since=1)
class Tagged:
    plain: int = int8()
    text: str | None = string(since=1, nullable=True, default=None, tag=3)
    number: int = int16(since=1, default=7, tag=0)
    leader: Leader = nested(Leader, since=1, default=EMPTY, tag=1)
    items: Sequence[int] = array(int8, since=1, default=(), tag=2)
    nullable_items: Sequence[int] | None = array(int8, since=2, nullable=True, default=None, tag=4)
    empty_items: Sequence[int] | None = array(int8, since=2, nullable=True, default=(), tag=5)
    successor: Leader | None = nested(Leader, since=2, nullable=True, default=EMPTY, tag=6)


LEADER = Leader(leader_id=1, leader_epoch=2)


@pytest.mark.parametrize(
    ("fields", "tags"),
    [
        ({}, "00"),
        ({"number": 7, "leader": Leader(), "items": [], "nullable_items": None, "empty_items": []}, "00"),
        ({"number": 8}, "01" + "00" + "02" + "0008"),
        ({"text": ""}, "01" + "03" + "01" + "01"),  # empty is not null
        ({"leader": LEADER}, "01" + "01" + "09" + "0000000100000002" + "00"),
        ({"items": [5]}, "01" + "02" + "02" + "0205"),
        ({"nullable_items": []}, "01" + "04" + "01" + "01"),  # empty is not the default here
        ({"empty_items": None}, "01" + "05" + "01" + "00"),  # nor is null here
        ({"successor": LEADER}, "01" + "06" + "0a" + "01" + "0000000100000002" + "00"),
        ({"successor": None}, "01" + "06" + "01" + "00"),  # a varint says null, where outside of tags it is the byte -1
        ({"text": "a", "number": 8}, "02" + "00" + "02" + "0008" + "03" + "02" + "0261"),  # in the order of tags
        ({"text": "x" * 200}, "01" + "03" + "ca01" + "c901" + "78" * 200),
    ],
)
def test_a_tagged_field_travels_only_when_it_differs_from_its_default(fields: dict[str, Any], tags: str) -> None:
    value = Tagged(plain=1, **fields)
    assert encode(value, 2).hex() == "01" + tags
    assert decode(Tagged, 2, hexed("01" + tags)) == value


def test_before_tags_exist_nothing_of_them_is_written() -> None:
    assert encode(Tagged(plain=1, number=8), 0).hex() == "01"
    assert decode(Tagged, 0, hexed("01")) == Tagged(plain=1)


@pytest.mark.parametrize(
    "tags",
    [
        "01" + "63" + "03" + "616263",  # alone
        "02" + "00" + "02" + "0008" + "63" + "00",  # after one that is known, and empty
        "02" + "63" + "8001" + "00" * 128 + "00" + "02" + "0008",  # before it, and long
        "01" + "04" + "02" + "0205",  # known, but not in this version
        "904e" + "6300" * 10_000,  # as many as are allowed
    ],
)
def test_unknown_tags_are_passed_over(tags: str) -> None:
    number = 8 if "0008" in tags else 7
    assert decode(Tagged, 1, hexed("01" + tags)) == Tagged(plain=1, number=number)


def test_a_struct_without_tags_of_its_own_passes_over_those_of_a_later_version() -> None:
    cls = one_field(int8(), flexible=True)
    assert decode(cls, 0, hexed("05" + "02" + "00" + "01" + "aa" + "07" + "00")).value == 5
    with pytest.raises(ProtocolError, match="more than 10000 tagged fields"):
        decode(cls, 0, hexed("05" + "914e" + "6300" * 10_001))


@pytest.mark.parametrize(
    ("tags", "reason"),
    [
        ("01" + "00" + "03" + "000800", "of another size"),  # the field ends before its size says
        ("01" + "00" + "01" + "0008", "of another size"),  # and after
        ("01" + "63" + "05" + "0000", "beyond the end"),
        ("01" + "63" + "ffffffff0f", "beyond the end"),
        ("ffffffff0f", "more than 10000 tagged fields"),  # four thousand million
        ("914e" + "6300" * 10_001, "more than 10000 tagged fields"),
        ("01", "truncated"),
        ("01" + "8080808080" + "00", "more than 32 bits"),
    ],
)
def test_tags_that_lie_about_their_size_are_refused(tags: str, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        decode(Tagged, 2, hexed("01" + tags))


# --- records ------------------------------------------------------------------------------------------------------


class FileSlice:
    def __init__(self, size: int) -> None:
        self.size = size


@struct
class Partition:
    index: int = int8()
    records: Records = batches(nullable=True)


@message(versions=range(0, 2), flexible_since=1)
class Fetched:
    partitions: Sequence[Partition] = array(Partition)
    end: int = int8()


@pytest.mark.parametrize(
    ("version", "expected", "positions"),
    [
        (0, "00000003" + "01" + "00000005" + "02" + "ffffffff" + "03" + "000003e8" + "09", [9, 19]),
        (1, "04" + "01" + "06" + "00" + "02" + "00" + "00" + "03" + "e907" + "00" + "09" + "00", [3, 10]),
    ],
)
def test_slices_stay_outside_and_their_places_are_noted(version: int, expected: str, positions: list[int]) -> None:
    slices = [FileSlice(5), FileSlice(1000)]
    value = Fetched(
        partitions=[
            Partition(index=1, records=slices[0]),
            Partition(index=2, records=None),
            Partition(index=3, records=slices[1]),
        ],
        end=9,
    )
    out = bytearray(b"header")
    noted: list[tuple[int, Slice]] = []
    encode_into(value, version, out, noted)
    assert out.hex() == b"header".hex() + expected
    assert noted == [(len(b"header") + position, each) for position, each in zip(positions, slices)]
    for position, each in reversed(noted):
        out[position:position] = bytes(each.size)
    partitions: Any = decode(Fetched, version, out[6:]).partitions
    assert [len(partition.records or b"") for partition in partitions] == [5, 0, 1000]


def test_encode_alone_refuses_slices() -> None:
    with pytest.raises(AssertionError, match="encode_into"):
        encode(Fetched(partitions=[Partition(index=1, records=FileSlice(5))], end=0), 0)


def test_records_decode_to_a_view_of_the_frame_that_can_be_written_through() -> None:
    frame = bytearray(hexed("00000001" + "01" + "00000002" + "6162" + "09"))
    view = decode(Fetched, 0, frame).partitions[0].records
    assert isinstance(view, memoryview)
    view[0] = 0x7A
    assert bytes(frame[9:11]) == b"zb"


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_records_are_written_from_any_kind_of_bytes(kind: type[bytes | bytearray | memoryview]) -> None:
    value = Fetched(partitions=[Partition(index=1, records=kind(b"ab"))], end=9)
    assert encode(value, 1).hex() == "02" + "01" + "03" + "6162" + "00" + "09" + "00"


# --- malformed input ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "flexible", "frame", "reason"),
    [
        (int32(), False, "000001", "truncated"),
        (int32(), False, "00000001" + "00", "1 bytes after the end"),
        (string(), False, "0005" + "61", "truncated"),
        (string(), False, "fffe", "null"),
        (string(), True, "818002" + "78" * 32768 + "00", "longer than Kafka allows"),
        (string(), True, "ffffffff0f" + "00", "beyond the end"),
        (string(), True, "ffffffff1f" + "00", "more than 32 bits"),
        (string(), True, "ffffffffff01" + "00", "more than 32 bits"),
        (blob(), False, "00000005" + "61", "beyond the end"),
        (batches(nullable=True), False, "7fffffff" + "61", "beyond the end"),
        (batches(nullable=True), True, "8080808008" + "61", "beyond the end"),
        (array(int8), False, "7fffffff", "array beyond the end"),
        (array(int64), False, "00000002" + "00" * 15, "array beyond the end"),
        (array(string), True, "7f" + "01" * 100, "array beyond the end"),
        (array(Point), True, "04" + "0000" * 2, "array beyond the end"),
        (array(uuid), True, "8080808008", "array beyond the end"),
    ],
)
def test_malformed_input_is_a_protocol_error_that_says_what_is_wrong(
    field: Any, flexible: bool, frame: str, reason: str
) -> None:
    cls = one_field(field, flexible=flexible)
    with pytest.raises(ProtocolError, match=reason) as caught:
        decode(cls, 0, hexed(frame))
    assert str(caught.value).startswith(("Message v0: ", "1 bytes after"))


@pytest.mark.parametrize(
    ("field", "frame"),
    [
        (string(nullable=True), "fffe"),
        (blob(nullable=True), "80000000"),
        (batches(nullable=True), "fffffff0"),
        (array(int8, nullable=True), "fffffffe"),
    ],
)
def test_every_negative_length_is_null_as_in_kafka(field: Any, frame: str) -> None:
    assert decode(one_field(field), 0, hexed(frame)).value is None


@pytest.mark.parametrize(
    ("flexible", "frame", "value"),
    [
        (False, "0004" + "6162ff63", "ab\ufffdc"),
        (True, "41" + "ff" * 64 + "00", "\ufffd" * 64),
        (False, "0003" + "e282" + "41", "\ufffdA"),  # one for what began as a letter and ended too soon
        (False, "0004" + "eda080" + "41", "\ufffdA"),  # half a surrogate pair
        (False, "0003" + "eda041", "\ufffdA"),  # and a part of one
        (False, "0002" + "eda0", "\ufffd"),
    ],
)
def test_bytes_that_are_no_utf_8_are_replaced_as_in_kafka(flexible: bool, frame: str, value: str) -> None:
    assert decode(one_field(string(), flexible=flexible), 0, hexed(frame)).value == value


def test_an_overlong_length_is_read_as_kafka_reads_it() -> None:
    assert decode(one_field(string(), flexible=True), 0, hexed("8280808000" + "61" + "00")).value == "a"


def test_a_message_may_stand_inside_a_larger_buffer() -> None:
    cls = one_field(string())
    frame = b"header" + hexed("00026162") + b"rest"
    assert decode_from(cls, 0, frame, 6) == (cls(value="ab"), 10)
    assert decode(cls, 0, frame[:10], 6) == cls(value="ab")


# --- classes ------------------------------------------------------------------------------------------------------


def test_a_field_without_a_default_must_be_given_and_an_unknown_one_is_refused() -> None:
    with pytest.raises(TypeError, match="always"):
        Versioned(name="")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="nonsense"):
        Versioned(always=1, name="", nonsense=2)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Versioned(1, "")  # type: ignore[call-arg, arg-type]


def test_a_field_that_not_every_version_carries_needs_a_default() -> None:
    for field in (int8(since=1), int8(until=3), int8(tag=0)):
        with pytest.raises(AssertionError, match=r"Message\.value"):
            one_field(field)
    assert one_field(int8(since=2), versions=range(2, 4))(value=1).value == 1  # every version here does


def test_instances_hold_their_fields_and_nothing_else() -> None:
    value = Point(x=1)
    with pytest.raises(AttributeError):
        value.z = 3  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="unhashable"):
        hash(value)


def test_equality_is_by_class_and_fields_and_arrays_compare_by_their_elements() -> None:
    assert Point(x=1, y=2) == Point(x=1, y=2)
    assert Point(x=1, y=2) != Point(x=1, y=3)
    others: list[object] = [Leader(), (1, 9)]
    assert Point(x=1) not in others
    cls = one_field(array(Point))
    assert cls(value=[Point(x=1)]) == cls(value=(Point(x=1),))
    assert cls(value=[Point(x=1)]) != cls(value=[Point(x=1), Point(x=1)])
    assert cls(value=[]) == cls(value=())


def test_a_message_prints_as_it_is_written() -> None:
    assert repr(Versioned(always=1, name=None)) == "Versioned(always=1, added=-1, removed='gone', name=None)"
    assert repr(Shape(before=1, first=Point(x=2), second=None, after=4)) == (
        "Shape(before=1, first=Point(x=2, y=9), second=None, after=4)"
    )


def test_an_empty_struct_is_shared_and_therefore_sealed() -> None:
    first, second = Tagged(plain=1), decode(Tagged, 1, hexed("01" + "00"))
    assert first.leader is second.leader
    assert first.leader == Leader()
    assert repr(first.leader) == "Leader(leader_id=-1, leader_epoch=-1)"
    with pytest.raises(AssertionError, match="share"):
        first.leader.leader_id = 3
    first.leader = Leader(leader_id=3)
    assert Tagged(plain=1).leader.leader_id == -1


def test_an_empty_message_is_nothing_or_no_tags() -> None:
    @message(versions=range(0, 2), flexible_since=1)
    class Nothing:
        pass

    assert encode(Nothing(), 0) == b""
    assert encode(Nothing(), 1) == b"\x00"
    assert decode(Nothing, 1, b"\x00") == Nothing()


def test_a_string_too_long_for_kafka_is_our_bug() -> None:
    with pytest.raises(AssertionError, match="32767"):
        encode(one_field(string(), flexible=True)(value="x" * 32768), 0)


def test_a_message_of_more_elements_than_anyone_means_is_refused_before_they_are_made() -> None:
    count = 1_000_001
    hostile = count.to_bytes(4, "big") + bytes(2 * count)  # as many topics without a name
    with pytest.raises(ProtocolError, match="more than 1000000 elements"):
        decode(MetadataRequest, 1, hostile)
