"""The cluster as clients see it: which brokers there are, where they listen, and which of them is the controller."""

from compat_tests.conftest import Drivers
from compat_tests.harness.driver import Driver


def test_the_brokers_are_those_at_the_addresses_that_clients_started_from(admin: Driver, drivers: Drivers) -> None:
    described = admin.ask("describe_cluster")
    addresses = {broker_id: f"{host}:{port}" for broker_id, host, port in described["brokers"]}
    assert addresses == dict(enumerate(admin.bootstrap.split(","), start=1))
    assert described["controller"] in (*addresses, None)

    # Some read it from Metadata, some from DescribeCluster: both say the same.
    as_others_see_it = drivers["java-4.3"].ask("describe_cluster")
    assert sorted(as_others_see_it["brokers"]) == sorted(described["brokers"])
    assert described["cluster_id"] in (as_others_see_it["cluster_id"], None)
    assert as_others_see_it["cluster_id"]
