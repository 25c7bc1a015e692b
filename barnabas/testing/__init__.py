"""Brokers for the tests of your own software, inside the test's process.

    with Broker(topics={"orders": 3}) as broker:
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)

A broker listens on a free port of 127.0.0.1, keeps its data in a temporary directory, runs on a thread of its own and
is gone, with its thread, its files and its sockets, when the block ends. `Broker(brokers=3)` is a `Cluster`, whose
nodes a test can kill, pause and cut off from each other. `BarnabasContainer` is a broker in a container, under
testcontainers.
"""

from typing import TYPE_CHECKING, Any

from barnabas.testing.broker import Broker

if TYPE_CHECKING:
    from barnabas.testing.cluster import Cluster
    from barnabas.testing.node import ClusterNode
    from barnabas.testing_container import BarnabasContainer

__all__ = ["BarnabasContainer", "Broker", "Cluster", "ClusterNode"]


def __getattr__(name: str) -> Any:
    """Imports what is asked for: a test with one broker does not pay for a cluster, and `BarnabasContainer` needs
    testcontainers, which is not always installed."""
    if name == "Cluster":
        from barnabas.testing.cluster import Cluster

        return Cluster
    if name == "ClusterNode":
        from barnabas.testing.node import ClusterNode

        return ClusterNode
    if name == "BarnabasContainer":
        return _container_class()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _container_class() -> Any:
    try:
        from barnabas.testing_container import BarnabasContainer
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != "testcontainers":
            raise
        raise ImportError("BarnabasContainer needs testcontainers: pip install 'barnabas[testcontainers]'") from error
    return BarnabasContainer
