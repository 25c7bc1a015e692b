"""How one member moves from what it has to what it shall have: revoke before assign, and wait for what others have."""

import pytest

from barnabas.broker.groups.consumer.current_assignment import Reconciliation
from barnabas.broker.groups.consumer.member import ConsumerMember, MemberState, with_epoch
from barnabas.protocol.errors import FencedMemberEpoch
from barnabas.protocol.types import Uuid
from tests.broker.groups.consumer.client import topic_id

STABLE, UNREVOKED = MemberState.STABLE, MemberState.UNREVOKED_PARTITIONS
UNRELEASED, UNKNOWN = MemberState.UNRELEASED_PARTITIONS, MemberState.UNKNOWN
ORDERS, BILLS = topic_id("orders"), topic_id("bills")
BOTH = frozenset({ORDERS, BILLS})

Numbers = dict[Uuid, frozenset[int]]


def of(*numbers: int, bills: tuple[int, ...] = ()) -> Numbers:
    """Partitions of orders, and of bills."""
    both = {ORDERS: frozenset(numbers), BILLS: frozenset(bills)}
    return {topic: partitions for topic, partitions in both.items() if partitions}


def member(state: MemberState, epoch: int, assigned: Numbers, revoking: Numbers | None = None) -> ConsumerMember:
    return ConsumerMember(
        "m",
        member_epoch=epoch,
        previous_member_epoch=epoch - 1,
        state=state,
        assigned_partitions=with_epoch(assigned, epoch),
        partitions_pending_revocation=with_epoch(revoking or {}, epoch),
    )


def reconcile(
    before: ConsumerMember,
    target: Numbers,
    owned: Numbers | None = None,
    *,
    taken: Numbers | None = None,
    target_epoch: int = 8,
    topic_ids: frozenset[Uuid] = BOTH,
    has_subscription_changed: bool = False,
) -> ConsumerMember:
    others = taken or {}
    step = Reconciliation(
        before,
        target_epoch=target_epoch,
        target=target,
        topic_ids=topic_ids,
        is_taken=lambda topic, number: number in others.get(topic, ()),
        owned=owned,
    )
    return step.next(has_subscription_changed=has_subscription_changed)


def numbers_of(epochs: object) -> Numbers:
    assert isinstance(epochs, dict)
    return {topic: frozenset(numbers) for topic, numbers in epochs.items()}


@pytest.mark.parametrize(
    ("state", "assigned", "revoking", "target", "owned", "taken", "then"),
    [
        # what it shall have is free: it has it, at once and in the new epoch
        (STABLE, of(), of(), of(1, 2), None, of(), (STABLE, 8, of(1, 2), of())),
        # nothing changes but the epoch
        (STABLE, of(1, 2), of(), of(1, 2), None, of(), (STABLE, 8, of(1, 2), of())),
        # something goes: it keeps its epoch, and gets nothing new before it has given that up
        (STABLE, of(1, 2), of(), of(2, 3), None, of(), (UNREVOKED, 7, of(2), of(1))),
        # the same when it says that it still owns it
        (STABLE, of(1, 2), of(), of(2, 3), of(1, 2), of(), (UNREVOKED, 7, of(2), of(1))),
        # it says that it has not got it: there is nothing to wait for
        (STABLE, of(1, 2), of(), of(2, 3), of(2), of(), (STABLE, 8, of(2, 3), of())),
        # what another one has, it waits for
        (STABLE, of(1), of(), of(1, 2, 3), None, of(3), (UNRELEASED, 8, of(1, 2), of())),
        (STABLE, of(1), of(), of(1, 3), None, of(3), (UNRELEASED, 8, of(1), of())),
        # it was asked to give 1 up, and says nothing
        (UNREVOKED, of(2), of(1), of(2, 3), None, of(), (UNREVOKED, 7, of(2), of(1))),
        # it was asked to give 1 up, and has it still
        (UNREVOKED, of(2), of(1), of(2, 3), of(1, 2), of(), (UNREVOKED, 7, of(2), of(1))),
        # it gave 1 up, and moves on
        (UNREVOKED, of(2), of(1), of(2, 3), of(2), of(), (STABLE, 8, of(2, 3), of())),
        # it gave 1 up, and the target has moved on meanwhile: the next thing to give up
        (UNREVOKED, of(2, 3), of(1), of(2), of(2, 3), of(), (UNREVOKED, 7, of(2), of(3))),
        # it gave 1 up, and gets it back, although the group still counts it as its own
        (UNREVOKED, of(2), of(1), of(1, 2), of(2), of(1), (STABLE, 8, of(1, 2), of())),
        # the other one has let go
        (UNRELEASED, of(1), of(), of(1, 2), None, of(), (STABLE, 8, of(1, 2), of())),
        (UNRELEASED, of(1), of(), of(1, 2), None, of(2), (UNRELEASED, 8, of(1), of())),
        # while it waited, the target took something from it
        (UNRELEASED, of(1, 2), of(), of(2, 3), of(1, 2), of(3), (UNREVOKED, 7, of(2), of(1))),
        # a state that a later version wrote: it has joined anew, and begins with nothing
        (UNKNOWN, of(), of(), of(1), of(), of(), (STABLE, 8, of(1), of())),
    ],
)
def test_a_step_towards_the_target(
    state: MemberState,
    assigned: Numbers,
    revoking: Numbers,
    target: Numbers,
    owned: Numbers | None,
    taken: Numbers,
    then: tuple[MemberState, int, Numbers, Numbers],
) -> None:
    before = member(state, 7, assigned, revoking)
    after = reconcile(before, target, owned, taken=taken)
    is_now = numbers_of(after.assigned_partitions), numbers_of(after.partitions_pending_revocation)
    assert (after.state, after.member_epoch, *is_now) == then
    assert after == before or after.previous_member_epoch == 7


def test_a_member_that_is_where_it_shall_be_is_left_alone() -> None:
    before = member(STABLE, 8, of(1))
    assert reconcile(before, of(1)) is before


def test_a_partition_keeps_the_epoch_in_which_it_was_assigned() -> None:
    after = reconcile(member(STABLE, 3, of(1)), of(1, 2), target_epoch=8)
    assert after.assigned_partitions == {ORDERS: {1: 3, 2: 8}}
    assert [after.assignment_epoch_of(ORDERS, number) for number in (1, 2, 3)] == [3, 8, None]


@pytest.mark.parametrize("owned", [None, of(1)])
def test_a_member_in_a_state_that_is_not_known_must_join_with_nothing(owned: Numbers | None) -> None:
    with pytest.raises(FencedMemberEpoch):
        reconcile(member(UNKNOWN, 7, of(1)), of(1), owned)


@pytest.mark.parametrize(
    ("state", "revoking", "owned", "then"),
    [
        # it says nothing about what it owns
        (STABLE, of(), None, (UNREVOKED, of(1), of(bills=(0,)))),
        # it reads bills no more, and still has a partition of it
        (STABLE, of(), of(1, bills=(0,)), (UNREVOKED, of(1), of(bills=(0,)))),
        # it has let go of it together with the subscription
        (STABLE, of(), of(1), (STABLE, of(1), of())),
        # it is asked to give up more than before
        (UNREVOKED, of(2), of(1, 2, bills=(0,)), (UNREVOKED, of(1), of(2, bills=(0,)))),
    ],
)
def test_partitions_of_a_topic_that_is_no_longer_subscribed_go_at_once(
    state: MemberState,
    revoking: Numbers,
    owned: Numbers | None,
    then: tuple[MemberState, Numbers, Numbers],
) -> None:
    before = member(state, 8, of(1, bills=(0,)), revoking)
    after = reconcile(before, of(1, bills=(0,)), owned, topic_ids=frozenset({ORDERS}), has_subscription_changed=True)
    is_now = numbers_of(after.assigned_partitions), numbers_of(after.partitions_pending_revocation)
    assert (after.state, *is_now) == then
    assert after.member_epoch == 8


def test_a_subscription_that_grew_takes_nothing_away() -> None:
    before = member(STABLE, 8, of(1))
    assert reconcile(before, of(1), has_subscription_changed=True) is before


def test_a_target_of_a_topic_that_is_no_longer_subscribed_is_not_assigned() -> None:
    after = reconcile(member(STABLE, 7, of(1)), of(1, bills=(0,)), topic_ids=frozenset({ORDERS}))
    assert (after.state, numbers_of(after.assigned_partitions)) == (STABLE, of(1))
