"""In which order the elements of an answer are compared."""

from typing import Any

from compat_tests.differential.sides import place


def offset_of(topic_id: bytes, offset: int) -> dict[str, Any]:
    return {"TopicId": topic_id, "Partitions": [{"PartitionIndex": 0, "CommittedOffset": offset}]}


def test_topics_whose_ids_are_each_brokers_own_are_ordered_by_what_is_said_of_them() -> None:
    kafka = [offset_of(b"k1", 4), offset_of(b"k2", 33)]
    barnabas = [offset_of(b"b1", 33), offset_of(b"b2", 4)]
    assert [element["TopicId"] for element in sorted(kafka, key=place)] == [b"k2", b"k1"]
    assert [element["TopicId"] for element in sorted(barnabas, key=place)] == [b"b1", b"b2"]


def test_what_both_brokers_name_alike_is_ordered_by_its_name() -> None:
    answers = [{"Name": "b", "ErrorCode": 0}, {"Name": "a", "ErrorCode": 3}]
    assert [element["Name"] for element in sorted(answers, key=place)] == ["a", "b"]
