"""The states of a classic group, and which may follow which.

Empty -> PreparingRebalance (members join) -> CompletingRebalance (the leader assigns) -> Stable, and from each of the
last two back to PreparingRebalance. A group without members that finishes a rebalance is Empty. One that was deleted,
or whose coordinator is elsewhere, is Dead.
"""

from enum import StrEnum


class ClassicGroupState(StrEnum):
    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


EMPTY = ClassicGroupState.EMPTY
PREPARING_REBALANCE = ClassicGroupState.PREPARING_REBALANCE
COMPLETING_REBALANCE = ClassicGroupState.COMPLETING_REBALANCE
STABLE = ClassicGroupState.STABLE
DEAD = ClassicGroupState.DEAD

PREVIOUS_STATES = {
    EMPTY: (PREPARING_REBALANCE,),
    PREPARING_REBALANCE: (EMPTY, COMPLETING_REBALANCE, STABLE),
    COMPLETING_REBALANCE: (PREPARING_REBALANCE,),
    STABLE: (COMPLETING_REBALANCE,),
    DEAD: tuple(ClassicGroupState),
}
