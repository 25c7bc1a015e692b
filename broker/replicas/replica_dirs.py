"""In which log dir each replica of this broker lies; and the controller is told where the metadata say something else.

A broker that has one log dir, which the controller knows, never has anything to tell.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from barnabas.protocol.errors import KafkaError
from barnabas.protocol.types import TopicPartition, Uuid
from barnabas.replication.controller.partitions.directories import directory_of
from barnabas.replication.metadata.image import PartitionImage, TopicImage
from barnabas.storage.log import Log
from barnabas.storage.log_config import LogConfig
from barnabas.storage.log_manager import LogManager


class Assignments(Protocol):
    """How the controller is told; `dir_assignments.py` does it."""

    def assign(self, topic_id: Uuid, index: int, directory: Uuid) -> None: ...

    def close(self) -> None: ...


class ReplicaDirs:
    def __init__(self, node_id: int, logs: LogManager, new_assignments: Callable[[], Assignments]) -> None:
        """Calls `new_assignments` when there is something to tell for the first time."""
        self._node_id = node_id
        self._logs = logs
        self._new_assignments = new_assignments
        self._assignments: Assignments | None = None

    def log(
        self,
        name: TopicPartition,
        topic: TopicImage,
        described: PartitionImage,
        config: LogConfig,
        *,
        is_new: bool = False,
    ) -> Log:
        """Returns the log of a partition. One that is not there so far is created: in the dir that the metadata say, if
        they say one of this broker, else in any."""
        directory = directory_of(described, self._node_id)
        log = self._logs.create(name, topic.topic_id, config, is_new=is_new, directory=directory)
        self.tell(name, topic, described)
        return log

    def tell(self, name: TopicPartition, topic: TopicImage, described: PartitionImage) -> None:
        """Lets the controller know where the replica lies, if the metadata say something else."""
        log_dir = self._logs.dir_of(name)
        directory = None if log_dir is None else log_dir.directory_id
        if directory is not None and directory != directory_of(described, self._node_id):
            if self._assignments is None:
                self._assignments = self._new_assignments()
            self._assignments.assign(topic.topic_id, name.partition, directory)

    def note_committed(self, name: TopicPartition) -> None:
        """Notes on the disk how far a partition is committed whose only replica is here, before it gets others: whoever
        leads it next, after a crash too, could not tell what all of them must have."""
        with suppress(KafkaError):  # a log that cannot be opened now is not led here until it can
            log = self._logs.get(name)
            log.note_high_watermark()
            log.log_dir.checkpoint_high_watermarks({})

    def is_offline(self, name: TopicPartition) -> bool:
        """Returns whether the log dir of the replica has failed."""
        log_dir = self._logs.dir_of(name)
        return log_dir is not None and log_dir.error is not None

    def check_online(self, name: TopicPartition) -> None:
        """Raises KafkaStorageError if the log dir of the replica has failed."""
        log_dir = self._logs.dir_of(name)
        if log_dir is not None and log_dir.error is not None:
            raise log_dir.offline_error()

    def close(self) -> None:
        """Tells nothing any more."""
        if self._assignments is not None:
            self._assignments.close()
