"""The cluster as clients see it: which brokers there are, where they listen, and which of them is the controller."""

from compat_tests.conftest import Drivers
from compat_tests.harness.driver import Driver


def test_the_cluster_is_one_broker_at_the_address_that_clients_started_from(admin: Driver, drivers: Drivers) -> None:
    described = admin.ask("describe_cluster")
    ((broker_id, host, port),) = described["brokers"]
    assert f"{host}:{port}" == admin.bootstrap
    assert described["controller"] in (broker_id, None)

    # Some read it from Metadata, some from DescribeCluster: both say the same.
    as_others_see_it = drivers["java-4.3"].ask("describe_cluster")
    assert as_others_see_it["brokers"] == described["brokers"]
    assert described["cluster_id"] in (as_others_see_it["cluster_id"], None)
    assert as_others_see_it["cluster_id"]
