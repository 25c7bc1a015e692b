"""In which of a broker's log dirs a new replica lies, as far as the controller can say."""

from barnabas.protocol.types import Uuid
from barnabas.replication.metadata.image import BrokerImage

UNASSIGNED_DIRECTORY: Uuid = bytes(15) + b"\x01"
"""The broker chooses one of its log dirs and says so later."""


def default_directory(broker: BrokerImage | None) -> Uuid:
    if broker is None or len(broker.log_dirs) != 1:
        return UNASSIGNED_DIRECTORY
    return broker.log_dirs[0]
