"""One path from the log to images: a follower that is fed a leader's batches sees the images that the leader saw."""

from collections.abc import Sequence

import pytest

from barnabas.protocol.batch_header import iter_batches
from barnabas.protocol.stored.metadata_record_serde import MetadataRecord, encode_record
from barnabas.protocol.stored.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    TopicRecord,
)
from barnabas.replication.metadata.batches import checked_batches, value_batch
from barnabas.replication.metadata.image import empty_image
from barnabas.replication.metadata.loader import MetadataLoader
from tests.replication.clusters import CLUSTER_ID, uuid


def topic(number: int) -> TopicRecord:
    return TopicRecord(name=f"topic-{number}", topic_id=uuid(number))


def batches(*of_records: Sequence[MetadataRecord]) -> list[memoryview]:
    """Each list of records as one batch of a log."""
    made, offset = [], 0
    for records in of_records:
        values = [encode_record(record) for record in records]
        made.append(memoryview(value_batch(values, now_ms=5, base_offset=offset, epoch=1)))
        offset += len(values)
    return made


def follower(*of_records: Sequence[MetadataRecord]) -> MetadataLoader:
    """One that has fetched these batches, one after the other."""
    loader = MetadataLoader(empty_image(CLUSTER_ID))
    for batch in batches(*of_records):
        loader.load(checked_batches(batch))
    return loader


def published(loader: MetadataLoader, high_watermark: int) -> list[set[str]]:
    images = []
    while (image := loader.publish_next(high_watermark)) is not None:
        images.append(set(image.topics))
    return images


@pytest.mark.parametrize(
    ("high_watermark", "expected"),
    [
        (0, []),
        (1, [{"topic-1"}]),
        (2, [{"topic-1"}]),  # in the middle of a batch
        (3, [{"topic-1"}, {"topic-1", "topic-2", "topic-3"}]),
        (9, [{"topic-1"}, {"topic-1", "topic-2", "topic-3"}]),
    ],
)
def test_images_are_published_up_to_the_high_watermark(high_watermark: int, expected: list[set[str]]) -> None:
    loader = follower([topic(1)], [topic(2), topic(3)])
    assert set(loader.appended_image.topics) == {"topic-1", "topic-2", "topic-3"}
    assert published(loader, high_watermark) == expected
    assert set(loader.image.topics) == (expected[-1] if expected else set())


def test_everybody_who_subscribed_is_called_in_order_with_what_changed() -> None:
    loader, called = follower([topic(1)], [topic(2)]), []
    for name in ("first", "second"):
        loader.subscribe(lambda image, changes, name=name: called.append((name, changes.created_topics[0].name)))  # type: ignore[misc]
    published(loader, 2)
    assert called == [("first", "topic-1"), ("second", "topic-1"), ("first", "topic-2"), ("second", "topic-2")]


BEGIN, END, ABORT = BeginTransactionRecord(name="x"), EndTransactionRecord(), AbortTransactionRecord(reason="x")


@pytest.mark.parametrize(
    ("of_records", "expected", "in_transaction"),
    [
        ([[BEGIN, topic(1)]], [set()], True),
        ([[BEGIN, topic(1)], [topic(2), END]], [set(), {"topic-1", "topic-2"}], False),
        ([[BEGIN, topic(1)], [ABORT], [topic(2)]], [set(), set(), {"topic-2"}], False),
    ],
)
def test_a_transaction_counts_when_it_has_ended(
    of_records: list[list[MetadataRecord]], expected: list[set[str]], in_transaction: bool
) -> None:
    loader = follower(*of_records)
    assert loader.in_transaction == in_transaction
    assert published(loader, 99) == expected


def test_a_transaction_survives_that_its_end_is_cut_off_and_written_again() -> None:
    loader = follower([BEGIN, topic(1)], [topic(2), END])
    loader.truncate_to(2)
    assert loader.in_transaction
    (_, again) = batches([BEGIN, topic(1)], [topic(3), END])
    loader.load(checked_batches(again))
    assert published(loader, 99) == [set(), {"topic-1", "topic-3"}]


def test_what_is_committed_cannot_be_cut_off() -> None:
    loader = follower([topic(1)], [topic(2)])
    published(loader, 1)
    with pytest.raises(AssertionError):
        loader.truncate_to(0)


def test_a_log_read_at_once_is_the_same_image_as_one_read_batch_by_batch() -> None:
    log = b"".join(batches([topic(1)], [BEGIN, topic(2)], [END], [topic(3)]))
    assert len(list(iter_batches(log))) == 4
    at_once = MetadataLoader(empty_image(CLUSTER_ID))
    at_once.load(checked_batches(memoryview(log)))
    piecewise = follower([topic(1)], [BEGIN, topic(2)], [END], [topic(3)])
    assert at_once.appended_image == piecewise.appended_image
