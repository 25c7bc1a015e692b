"""In which log dir of its broker a replica lies, and whether that dir can be used (KIP-858). Pure.

Rules:
- A dir is known by the id in its `meta.properties`, and a broker registers those that work. The controller fills in the
  only dir of a broker; one that has several chooses, and says so with AssignReplicasToDirs.
- A replica lies in a dir that has failed if its broker does not have this dir among those it registered. Where nobody
  has said where a replica lies, it is taken to be well.
"""

from barnabas.protocol.types import ZERO_UUID, Uuid
from barnabas.replication.metadata.image import METADATA_VERSION, BrokerImage, MetadataImage, PartitionImage

MIGRATING_DIRECTORY: Uuid = ZERO_UUID
"""Nobody has said where the replica lies: the cluster knew no dirs when it was created."""
UNASSIGNED_DIRECTORY: Uuid = bytes(15) + b"\x01"
"""The broker chooses one of its log dirs and says so later."""
LOST_DIRECTORY: Uuid = bytes(15) + b"\x02"
"""The replica lies in a dir that has failed, and nobody can say in which."""
_UNKNOWN = (MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY)

METADATA_VERSION_OF_DIRECTORIES = 17
"""3.7-IV2."""


def are_known(image: MetadataImage) -> bool:
    """Returns whether the metadata of this cluster can say where replicas lie."""
    return image.features.get(METADATA_VERSION, 0) >= METADATA_VERSION_OF_DIRECTORIES


def directory_of(partition: PartitionImage, broker_id: int) -> Uuid:
    """Returns where the replica on this broker lies, as far as anybody has said."""
    for replica, directory in zip(partition.replicas, partition.directories):
        if replica == broker_id:
            return directory
    return UNASSIGNED_DIRECTORY


def assigned(partition: PartitionImage, broker_id: int, directory: Uuid) -> PartitionImage:
    """Returns the partition with its replica on this broker in this dir."""
    return partition._replace(
        directories=tuple(
            directory if replica == broker_id else directory_of(partition, replica) for replica in partition.replicas
        )
    )


def is_online(broker: BrokerImage, directory: Uuid) -> bool:
    """Returns whether the broker can use this dir. A broker without any has registered when none were known."""
    if directory in broker.log_dirs or directory in _UNKNOWN:
        return True
    return directory != LOST_DIRECTORY and not broker.log_dirs


def default_directory(broker: BrokerImage | None) -> Uuid:
    """Returns in which dir of a broker a new replica lies, as far as the controller can say."""
    if broker is None or len(broker.log_dirs) != 1:
        return UNASSIGNED_DIRECTORY
    return broker.log_dirs[0]
