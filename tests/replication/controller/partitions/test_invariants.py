"""Whatever happens to brokers, and whatever leaders ask for, in any order: what must hold of every partition."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.protocol.errors import KafkaError
from barnabas.protocol.messages.alter_partition import (
    AlterPartitionData,
    AlterPartitionRequest,
    AlterPartitionTopic,
    BrokerState,
)
from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest
from barnabas.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.replication.controller.channel import own_context
from barnabas.replication.metadata.image import NO_LEADER, MetadataImage, PartitionImage
from barnabas.replication.metadata.image_delta import replayed
from tests.replication.clusters import cluster, controller, new_topic, registration, topic_of, uuid, with_topics

BROKERS = (1, 2, 3, 4)
RECOVERING = 1
ALL_IN_SYNC = 15


class World:
    """A cluster whose controller decides one thing after the other; every change is judged."""

    def __init__(self, *, elr: bool, unclean: bool) -> None:
        configs: dict[str, str | None] = {"min.insync.replicas": "2", "unclean.leader.election.enable": str(unclean)}
        assignments = {0: [1, 2, 3], 1: [2, 3, 4], 2: [4, 1, 2]}
        self.image = with_topics(cluster(*BROKERS, elr=elr), new_topic("orders", -1, -1, assignments, configs))
        self.image = self.image._replace(end_offset=1_000)
        self.controller = controller()
        self.unclean = unclean
        self.lives = 0
        self.joining: set[int] = set()
        """Those that may be in sync because somebody says so."""

    def decide(self, request: Any) -> None:
        try:
            decision = self.controller.decide(request, own_context(request), self.image, now_ms=0)
        except KafkaError:
            return
        self.apply(decision.records)

    def apply(self, records: Any) -> None:
        after = replayed(self.image, records)._replace(end_offset=self.image.end_offset + len(records))
        before, self.image = self.image, after
        check(before, after, self.joining)

    # ---- what can happen

    def heartbeat(self, broker_id: int, *, stops: bool = False) -> None:
        request = BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=self.image.brokers[broker_id].broker_epoch,
            current_metadata_offset=self.image.end_offset,
            want_fence=False,
            want_shut_down=stops,
        )
        self.decide(request)

    def silent(self, broker_id: int, _: int) -> None:
        self.controller.sessions.contact(broker_id, self.image.brokers[broker_id].broker_epoch, 0, now_ms=0)
        self.controller.sessions.end(broker_id)
        while (fencing := self.controller.next_fencing(self.image, now_ms=0)) is not None:
            self.apply(fencing.records)

    def restart(self, broker_id: int, choice: int) -> None:
        """After a clean stop, or after a crash."""
        self.controller.sessions.end(broker_id)
        self.lives += 1
        epoch = self.image.brokers[broker_id].broker_epoch if choice % 2 else -1
        self.decide(registration(broker_id, incarnation_id=uuid(1_000 + self.lives), previous_broker_epoch=epoch))

    def back(self, broker_id: int, _: int) -> None:
        """One that wants to stop does not change its mind."""
        self.heartbeat(broker_id, stops=self.image.brokers[broker_id].in_controlled_shutdown)

    def stop(self, broker_id: int, _: int) -> None:
        self.heartbeat(broker_id, stops=True)

    def alter(self, index: int, choice: int) -> None:
        """The leader declares some of the replicas in sync: the bits of `choice`."""
        topic = topic_of(self.image, "orders")
        index %= len(topic.partitions)
        partition = topic.partitions[index]
        if partition.leader == NO_LEADER:
            return
        isr = [each for bit, each in enumerate(partition.replicas) if choice >> bit & 1 or each == partition.leader]
        epochs = {each: self.image.brokers[each].broker_epoch for each in isr}
        data = AlterPartitionData(
            partition_index=index,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            new_isr_with_epochs=[BrokerState(broker_id=each, broker_epoch=epochs[each]) for each in isr],
        )
        self.joining = {each for each in isr if self.image.brokers[each].is_active}
        self.decide(
            AlterPartitionRequest(
                broker_id=partition.leader,
                broker_epoch=self.image.brokers[partition.leader].broker_epoch,
                topics=[AlterPartitionTopic(topic_id=topic.topic_id, partitions=[data])],
            )
        )
        self.joining = set()

    def reassign(self, index: int, choice: int) -> None:
        """Moves a partition to some of the brokers, or cancels that. To cancel may be an unclean election: then the
        first of the former replicas is in sync because the operator wants it."""
        replicas = [each for bit, each in enumerate(BROKERS) if choice >> bit & 1] or None
        partition = ReassignablePartition(partition_index=index % 3, replicas=replicas)
        topic = ReassignableTopic(name="orders", partitions=[partition])
        if replicas is None and self.unclean:
            self.joining = set(BROKERS)
        self.decide(AlterPartitionReassignmentsRequest(topics=[topic]))
        self.joining = set()

    def elect(self, _: int, choice: int) -> None:
        self.decide(ElectLeadersRequest(election_type=choice % 2, topic_partitions=None))

    def configure(self, _: int, choice: int) -> None:
        config = AlterableConfig(name="min.insync.replicas", config_operation=0, value=str(choice % 3 + 1))
        resource = AlterConfigsResource(resource_type=2, resource_name="orders", configs=[config])
        self.decide(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False))


def check(before: MetadataImage, after: MetadataImage, joining: set[int]) -> None:
    partitions = zip(topic_of(before, "orders").partitions, topic_of(after, "orders").partitions, strict=True)
    for old, new in partitions:
        about = f"{old} became {new}"
        check_partition(new, after, about)
        assert (new == old) == (new.partition_epoch == old.partition_epoch), about
        assert new.partition_epoch >= old.partition_epoch, about
        assert new.leader_epoch >= old.leader_epoch + (new.leader != old.leader), about
        assert set(new.isr) - set(old.isr) - joining <= {new.leader}, about
        if new.leader not in (old.leader, NO_LEADER) and new.leader not in {*old.isr, *joining}:
            was_eligible = new.leader in old.eligible_leader_replicas
            assert was_eligible or new.leader_recovery_state == RECOVERING, about
            assert new.isr == (new.leader,), about


def check_partition(partition: PartitionImage, image: MetadataImage, about: str) -> None:
    assert set(partition.isr) <= set(partition.replicas), about
    assert set(partition.eligible_leader_replicas) <= set(partition.replicas), about
    assert set(partition.isr).isdisjoint(partition.eligible_leader_replicas), about
    assert partition.leader == NO_LEADER or partition.leader in partition.isr, about
    assert partition.leader == NO_LEADER or image.brokers[partition.leader].is_active, about
    assert len(set(partition.replicas)) == len(partition.replicas) == len(partition.directories), about


Happens: TypeAlias = Callable[[World, int, int], None]
HAPPENS: tuple[Happens, ...] = (
    World.alter,
    World.alter,
    World.back,
    World.configure,
    World.elect,
    World.reassign,
    World.restart,
    World.silent,
    World.stop,
)


def steps_of(happens: Sequence[Happens]) -> st.SearchStrategy[list[tuple[Happens, int, int]]]:
    return st.lists(st.tuples(st.sampled_from(happens), st.sampled_from(BROKERS), st.integers(0, 15)), max_size=60)


@given(steps=steps_of(HAPPENS), elr=st.booleans(), unclean=st.booleans())
@settings(max_examples=150, deadline=None)
def test_whatever_happens_every_partition_is_sound_and_leaders_change_cleanly_or_say_so(
    steps: list[tuple[Happens, int, int]], elr: bool, unclean: bool
) -> None:
    world = World(elr=elr, unclean=unclean)
    for happen, broker_id, choice in steps:
        happen(world, broker_id, choice)


@given(steps=steps_of([happens for happens in HAPPENS if happens is not World.configure]), elr=st.booleans())
@settings(max_examples=50, deadline=None)
def test_when_all_brokers_are_back_every_partition_has_a_leader_and_reassignments_end(
    steps: list[tuple[Happens, int, int]], elr: bool
) -> None:
    """As in Kafka, a new minimum is an exception: then it is forgotten who led a partition that has no leader."""
    world = World(elr=elr, unclean=False)
    for happen, broker_id, choice in steps:
        happen(world, broker_id, choice)
    for broker_id in BROKERS:
        world.restart(broker_id, 1)
    for broker_id in BROKERS:
        world.back(broker_id, 0)
    for partition in topic_of(world.image, "orders").partitions:
        assert partition.leader != NO_LEADER, partition
    for index in range(3):
        world.alter(index, ALL_IN_SYNC)
        world.alter(index, ALL_IN_SYNC)
    for partition in topic_of(world.image, "orders").partitions:
        assert (partition.adding_replicas, partition.removing_replicas) == ((), ()), partition
