"""Offsets that groups commit, by members and by consumers without a subscription, and how they are found again."""

from typing import Any

import pytest

from compat_tests.harness.driver import DriverError
from compat_tests.harness.features import COMMITS, LONE_COMMITS, NEW_COMMITS
from compat_tests.harness.groups import Group, Kind, Topic, eventually, kinds

MEMBERS = kinds(COMMITS, NEW_COMMITS)
LONERS = kinds(LONE_COMMITS)


def offset(topic: Topic, value: int, metadata: str = "", leader_epoch: int = -1, partition: int = 0) -> dict[str, Any]:
    return {
        "topic": topic.name,
        "partition": partition,
        "offset": value,
        "metadata": metadata,
        "leader_epoch": leader_epoch,
    }


@pytest.mark.parametrize("kind", LONERS.values(), ids=LONERS)
def test_a_consumer_without_a_subscription_commits_and_finds_it_again(kind: Kind, group: Group, topic: Topic) -> None:
    topic.write()
    partition = (topic.name, 0)
    consumer = group.join(kind, assign=[partition], commits=False)
    assert consumer.committed(partition) == [None]
    eventually(lambda: len(consumer.state()["records"]) == 5, "everything is read", consumer.state)

    fields = consumer.driver.client.commit_fields
    consumer.commit(offset(topic, 3, "halfway", leader_epoch=0))
    (committed,) = consumer.committed(partition)
    told = {"metadata": "halfway", "leader_epoch": 0 if "leader_epoch" in fields else -1} if fields else {}
    assert committed == {"offset": 3, **told}

    consumer.commit(offset(topic, 4), asynchronous=True)
    eventually(lambda: consumer.committed(partition)[0]["offset"] == 4, "the later commit is found")  # type: ignore[index]
    consumer.driver.ask("seek_to_committed", member=consumer.name, partitions=[partition])
    eventually(lambda: len(consumer.state()["records"]) == 6, "the last record is read again", consumer.state)
    consumer.leave()

    following = group.join(kind, assign=[partition], commits=False)
    eventually(lambda: following.state()["records"] == [[topic.name, 0, 4]], "it goes on from there", following.state)


@pytest.mark.parametrize("kind", MEMBERS.values(), ids=MEMBERS)
def test_a_member_commits_in_both_ways_and_the_next_one_goes_on(kind: Kind, group: Group, topic: Topic) -> None:
    topic.write()
    member = group.join(kind, topic.name, commits=False)
    group.wait_until_shared(topic.name)
    member.commit(*(offset(topic, 3, "all", partition=partition) for partition in range(topic.partitions)))
    member.commit(offset(topic, 1), asynchronous=True)  # back, for one of them
    partitions = list(topic.ends())
    eventually(
        lambda: [found["offset"] for found in member.committed(*partitions) if found] == [1, 3, 3, 3, 3, 3],
        "both commits are found",
        lambda: member.committed(*partitions),
    )
    member.leave()
    group.left.clear()

    group.join(kind, topic.name)
    group.wait_until_read(record for record in topic.written if record[2] >= (3 if record[1] else 1))


@pytest.mark.parametrize("kind", LONERS.values(), ids=LONERS)
def test_a_stranger_cannot_commit_for_a_group_that_has_members(kind: Kind, group: Group, topic: Topic) -> None:
    group.join(kind, topic.name, commits=False)
    group.wait_until_shared(topic.name)
    stranger = group.join(kind, assign=[(topic.name, 0)], commits=False)
    with pytest.raises(DriverError, match=r"(?i)commit.?failed|unknown.?member|rebalanc"):
        stranger.commit(offset(topic, 3))
    assert stranger.committed((topic.name, 0)) == [None]


@pytest.mark.parametrize("kind", LONERS.values(), ids=LONERS)
def test_metadata_above_the_limit_is_refused(kind: Kind, group: Group, topic: Topic) -> None:
    consumer = group.join(kind, assign=[(topic.name, 0)], commits=False)
    with pytest.raises(DriverError, match=r"(?i)metadata"):
        consumer.commit(offset(topic, 3, "x" * 4097))
    consumer.commit(offset(topic, 3, "x" * 4095))  # confluent-kafka sends the end of the string with it
    (committed,) = consumer.committed((topic.name, 0))
    assert committed is not None
    assert committed["offset"] == 3
