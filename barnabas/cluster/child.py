"""One broker of several on a machine, in the process that the supervisor has forked for it."""

import gc
import signal
from collections.abc import Mapping

from barnabas.base.environment import Report
from barnabas.broker.process import BrokerProcess
from barnabas.cluster.channel import FAILED, IN_SYNC, LEAVE, LEFT, READY, Channel
from barnabas.commands.start import failure_of

_IN_SYNC_MS = 60_000
"""After this time a rolling restart goes on all the same: a broker may never catch up with what others write."""


def run_broker(properties: Mapping[str, str], channel: Channel, report: Report, *, local_brokers: int) -> int:
    """Runs a broker until it is told to stop, or until the supervisor is gone. Returns the exit code."""
    try:
        process = BrokerProcess(properties, report=report, is_alone=True, local_brokers=local_brokers)
        signal.signal(signal.SIGTERM, lambda _number, _frame: process.stop())
        process.watch(channel.fileno(), lambda: _on_message(process, channel))
        process.run(lambda: _on_ready(process, channel))
    except Exception as error:
        if (failure := failure_of(error, properties)) is None:
            raise
        channel.send(FAILED, failure.line)
        return 1
    return 0


def _on_ready(process: BrokerProcess, channel: Channel) -> None:
    channel.send(READY)
    process.server.node.when_in_sync(_IN_SYNC_MS).when_done(lambda _: channel.send(IN_SYNC))
    gc.freeze()
    gc.enable()


def _on_message(process: BrokerProcess, channel: Channel) -> None:
    for word, _ in channel.receive():
        if word == LEAVE:
            _leave(process, channel)
    if channel.is_closed_by_peer:
        process.unwatch(channel.fileno())
        process.stop()


def _leave(process: BrokerProcess, channel: Channel) -> None:
    """Hands over what the broker leads, while its controller goes on voting."""
    process.server.node.leave().when_done(lambda _: channel.send(LEFT))
