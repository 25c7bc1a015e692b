"""What the changes of a topic's partitions depend on: its configuration, and whether ELR is on.

A value is looked for in the topic's own configuration, then in that of all brokers, then in the controller's own.
"""

from barnabas.protocol.config_types import ResourceType
from barnabas.replication.controller.cluster_control import MIN_INSYNC_REPLICAS
from barnabas.replication.controller.elr import is_elr_enabled
from barnabas.replication.controller.partitions.partition_changes import Candidates, Circumstances, Election
from barnabas.replication.controller.settings import ControllerSettings
from barnabas.replication.metadata.image import MetadataImage, TopicImage

UNCLEAN_LEADER_ELECTION_ENABLE = "unclean.leader.election.enable"


def circumstances_of(
    topic: TopicImage, image: MetadataImage, settings: ControllerSettings, candidates: Candidates
) -> Circumstances:
    election = Election.UNCLEAN if allows_unclean_elections(topic.name, image, settings) else Election.ONLINE
    min_isr = effective_min_isr(topic, image, settings)
    return Circumstances(candidates, election, min_isr, is_elr_enabled(image))


def allows_unclean_elections(topic: str, image: MetadataImage, settings: ControllerSettings) -> bool:
    text = _topic_config(UNCLEAN_LEADER_ELECTION_ENABLE, topic, image)
    return settings.unclean_leader_election_enable if text is None else text.strip().lower() == "true"


def effective_min_isr(topic: TopicImage, image: MetadataImage, settings: ControllerSettings) -> int:
    """Returns how many replicas must be in sync; never more than there are."""
    text = _topic_config(MIN_INSYNC_REPLICAS, topic.name, image)
    asked = settings.defaults.min_insync_replicas if text is None else int(text)
    return min(asked, topic.replication_factor)


def _topic_config(key: str, topic: str, image: MetadataImage) -> str | None:
    own = image.config(ResourceType.TOPIC, topic).get(key)
    return image.config(ResourceType.BROKER, "").get(key) if own is None else own
