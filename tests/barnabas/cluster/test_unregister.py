"""`barnabas cluster unregister`: a broker that will not come back is forgotten."""

import json

from barnabas.testing import Cluster
from tests.barnabas.processes import environment, run


def test_a_broker_that_was_stopped_is_forgotten_and_an_unknown_one_is_refused() -> None:
    with Cluster(brokers=2) as cluster:
        env = environment(BARNABAS_BOOTSTRAP_SERVERS=cluster.bootstrap_servers)
        cluster[2].stop()
        assert b"broker 2 is no longer part of the cluster" in run("cluster", "unregister", "2", env=env).stdout
        nodes = json.loads(run("cluster", "status", "--json", env=env).stdout)["nodes"]
        assert [node["node_id"] for node in nodes if "broker" in node["roles"]] == [1]
        refused = run("cluster", "unregister", "9", env=env)
    assert refused.returncode == 1
    assert b"broker 9 was not unregistered" in refused.stderr
