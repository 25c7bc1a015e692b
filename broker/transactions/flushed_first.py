"""Puts a decision on the disk before its markers, where one of them will be there at once.

A partition with `flush.messages=1` has each append on the disk before it is acknowledged, markers as well. If the
decision itself were not there, a power cut would leave one partition committed, and the coordinator would abort the
rest.
"""

from collections.abc import Callable

from barnabas.base.promise import Promise
from barnabas.broker.coordinator.definition import CoordinatorPartition
from barnabas.broker.transactions.marking import MarkerSender, TransactionMarkers
from barnabas.storage.log_config import LogConfig


class FlushedFirst:
    def __init__(self, sender: MarkerSender, log_config: Callable[[str], LogConfig]) -> None:
        """Takes `log_config`, which returns how the logs of a topic are configured, wherever they are."""
        self._sender = sender
        self._log_config = log_config

    def send(self, markers: TransactionMarkers, decided_in: CoordinatorPartition) -> Promise[None]:
        """Sends markers of what was decided in a partition of `__transaction_state`."""
        topics = {partition.topic for partition in markers.partitions}
        if not any(self._log_config(topic).flush_messages == 1 for topic in topics):
            return self._sender.send(markers)
        sent: Promise[None] = Promise()

        def on_flushed(flushed: Promise[None]) -> None:
            if flushed.error is not None:
                sent.fail(flushed.error)
            else:
                self._sender.send(markers).when_done(on_sent)

        def on_sent(done: Promise[None]) -> None:
            if done.error is not None:
                sent.fail(done.error)
            else:
                sent.resolve(None)

        decided_in.when_flushed().when_done(on_flushed)
        return sent
