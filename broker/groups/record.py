"""A record of `__consumer_offsets`."""

from barnabas.protocol.named_tuple import NamedTuple
from barnabas.protocol.stored.group_record_serde import GroupKey, GroupValue


class GroupRecord(NamedTuple):
    key: GroupKey
    value: GroupValue | None
    """None if what the key stands for is gone."""
