"""From the log to images: the one path that every record takes, on the leader, on a follower and after a restart.

Rules:
- A batch is replayed as soon as it is in the log, into `appended_image`. The leader decides on that image, because the
  next decision must see the last one.
- An image is published when the high watermark reaches its end, in the order of the log. `image` is the last one that
  was published, and the only one that anybody but the controller may look at.
- What was appended and never committed can be taken back: `truncate_to` follows the log, and `image` never goes back.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from barnabas.protocol.batch_header import BatchHeader
from barnabas.protocol.named_tuple import NamedTuple
from barnabas.protocol.stored.metadata_record_serde import MetadataRecord
from barnabas.replication.metadata.batches import BatchReplay, HeldBack
from barnabas.replication.metadata.image import ImageChanges, MetadataImage, changes_between
from barnabas.replication.metadata.image_delta import MetadataDelta

Publish = Callable[[MetadataImage, ImageChanges], None]


class _Appended(NamedTuple):
    """One step of the log that is not committed so far."""

    image: MetadataImage
    changes: ImageChanges
    held_back: HeldBack | None
    """The records of a transaction that has not ended at this point of the log."""


class MetadataLoader:
    __slots__ = ("_appended", "_committed_held_back", "_publishers", "image")

    def __init__(self, image: MetadataImage) -> None:
        """Begins with the image of a snapshot, or with an empty one."""
        self.image = image
        self._committed_held_back: HeldBack | None = None
        self._appended: deque[_Appended] = deque()
        self._publishers: list[Publish] = []

    @property
    def appended_image(self) -> MetadataImage:
        return self._appended[-1].image if self._appended else self.image

    @property
    def in_transaction(self) -> bool:
        """Returns whether the log, as far as it was replayed, ends inside a transaction."""
        return self._held_back is not None

    @property
    def is_within_transaction(self) -> bool:
        """Returns whether what is committed ends inside a transaction: the image lacks its first records."""
        return self._committed_held_back is not None

    @property
    def _held_back(self) -> HeldBack | None:
        return self._appended[-1].held_back if self._appended else self._committed_held_back

    def subscribe(self, publish: Publish) -> None:
        """Calls `publish` with each image that is committed from now on, and with what changed in it."""
        self._publishers.append(publish)

    # ---- what is appended

    def load(self, batches: Iterable[tuple[BatchHeader, memoryview]]) -> None:
        """Replays batches that are in the log: those a start finds, or those a follower has fetched."""
        replay = BatchReplay(self.appended_image, self._held_back)
        for header, batch in batches:
            replay.load(header, batch)
        held_back = replay.held_back
        image, changes = replay.finish()
        if image.end_offset > self.appended_image.end_offset:
            self._appended.append(_Appended(image, changes, held_back))

    def replayed(self, records: Sequence[MetadataRecord]) -> MetadataDelta:
        """Replays what a leader is about to append. Raises AssertionError for what cannot be replayed: such a record
        must never be in the log."""
        delta = MetadataDelta(self.appended_image)
        for record in records:
            delta.replay(record)
        return delta

    def append(self, delta: MetadataDelta, *, end_offset: int, epoch: int, now_ms: int, controller_id: int) -> None:
        """Takes over what a leader has appended; `delta` comes from `replayed`. A transaction that is open stays so."""
        assert delta.image is self.appended_image, "something was appended in between"
        image, changes = delta.finish(
            end_offset=end_offset, epoch=epoch, timestamp_ms=now_ms, controller_id=controller_id
        )
        self._appended.append(_Appended(image, changes, self._held_back))

    def begin_at(self, image: MetadataImage) -> None:
        """Goes on from a snapshot of another node, which holds everything that was committed before its end."""
        changes = changes_between(self.image, image)
        self._appended.clear()
        self._committed_held_back = None
        self._publish(image, changes)

    def truncate_to(self, end_offset: int) -> None:
        """Forgets what the log no longer holds: another leader has written something else there. Where several batches
        were loaded in one step, those of them that are left must be loaded again."""
        assert end_offset >= self.image.end_offset, "what is committed cannot be taken back"
        while self._appended and self._appended[-1].image.end_offset > end_offset:
            self._appended.pop()

    # ---- what is committed

    def publish_next(self, high_watermark: int) -> MetadataImage | None:
        """Publishes the next image that the high watermark has reached, and returns it; None if there is none."""
        if not self._appended or self._appended[0].image.end_offset > high_watermark:
            return None
        image, changes, self._committed_held_back = self._appended.popleft()
        self._publish(image, changes)
        return image

    def _publish(self, image: MetadataImage, changes: ImageChanges) -> None:
        self.image = image
        for publish in self._publishers:
            publish(image, changes)
