"""What became of an append."""

from barnabas.protocol.named_tuple import NamedTuple


class AppendInfo(NamedTuple):
    base_offset: int
    last_offset: int
    log_append_time: int
    """-1 under CreateTime."""
    log_start_offset: int
    duplicate: bool
    """The batch was stored before; these are the offsets it got then."""
