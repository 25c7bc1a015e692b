"""Which partitions are opened before those who wait are told of a change, and when the others are."""

from barnabas.broker.replicas.opening_queue import AT_ONCE, OpeningQueue
from barnabas.protocol.types import TopicPartition
from tests.fakes import FakeClock

OPENING_MS = 1


class Opened:
    """Partitions that take a while to open, one after the other."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.names: list[TopicPartition] = []
        self.are_new: list[bool] = []
        self.queue = OpeningQueue(self.clock, self._open)

    def _open(self, name: TopicPartition, is_new: bool) -> None:
        self.names.append(name)
        self.are_new.append(is_new)
        self.clock.advance(OPENING_MS)


def partitions(count: int, topic: str = "orders") -> list[TopicPartition]:
    return [TopicPartition(topic, index) for index in range(count)]


def test_the_first_few_of_a_change_are_opened_at_once_of_however_many_topics() -> None:
    opened = Opened()
    for topic in ("a", "b", "c"):
        opened.queue.begin_change()
        for number in range(AT_ONCE + 10):
            opened.queue.create(partitions(1, f"{topic}-{number}"))
    assert len(opened.names) == 3 * AT_ONCE, "each change has its own first few"


def test_the_others_are_opened_between_requests_in_their_order() -> None:
    opened, all_ = Opened(), partitions(AT_ONCE + 100)
    opened.queue.begin_change()
    opened.queue.create(all_)
    opened.clock.turn()
    assert AT_ONCE < len(opened.names) < AT_ONCE + 10, "requests have their turn"
    opened.clock.advance(1_000)
    assert opened.names == all_
    assert all(opened.are_new)


def test_what_a_start_finds_is_opened_later_and_is_not_new() -> None:
    opened = Opened()
    opened.queue.open_later(partitions(3), are_new=False)
    assert not opened.names
    opened.clock.turn()
    assert opened.are_new == [False] * 3


def test_a_broker_that_stops_opens_nothing_more() -> None:
    opened = Opened()
    opened.queue.begin_change()
    opened.queue.create(partitions(AT_ONCE + 100))
    opened.queue.close()
    opened.clock.turn()
    opened.clock.advance(1_000)
    assert len(opened.names) == AT_ONCE, "its log dirs may be another process's by now"
