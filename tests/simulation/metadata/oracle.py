"""What must be true of a metadata quorum, whatever happens: it hears of everything that any node says or shows."""

from typing import NamedTuple

from barnabas.protocol.stored.metadata_record_serde import encode_record
from barnabas.replication.metadata.image import MetadataImage
from barnabas.replication.metadata.snapshots import image_records


class Answer(NamedTuple):
    """A decision that was answered: the key has this number, or a later one, at this offset and ever after."""

    end_offset: int
    key: str
    number: int


class Oracle:
    def __init__(self) -> None:
        self._leaders: dict[int, int] = {}
        self._images: dict[int, tuple[int, list[bytes]]] = {}
        self._latest: dict[str, Answer] = {}
        self.answers = 0
        self.published_to: dict[str, int] = {}

    @property
    def epochs(self) -> int:
        return len(self._leaders)

    def leads(self, node_id: int, epoch: int) -> None:
        assert self._leaders.setdefault(epoch, node_id) == node_id, f"epoch {epoch} has two leaders"

    def published(self, name: str, image: MetadataImage) -> None:
        """Images at one offset are equal on all nodes and at all times, and hold everything that was answered."""
        found = (image.epoch, [bytes(encode_record(record)) for record in image_records(image)])
        known = self._images.setdefault(image.end_offset, found)
        assert known == found, f"{name} has another image at {image.end_offset}: {found} instead of {known}"
        self.published_to[name] = image.end_offset
        numbers = {key: int(number) for values in image.configs.values() for key, number in values.items()}
        for answer in self._latest.values():
            is_there = answer.end_offset > image.end_offset or numbers.get(answer.key, 0) >= answer.number
            assert is_there, f"{name} lacks {answer} at {image.end_offset}"

    def answered(self, answer: Answer) -> None:
        self.answers += 1
        self._latest[answer.key] = answer
