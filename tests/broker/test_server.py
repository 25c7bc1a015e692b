"""A broker as a whole: what keeps it from starting, and what it tells about what it does."""

import pytest

from barnabas.protocol.errors import InvalidConfig
from barnabas.testing import Broker


def test_a_broker_that_is_asked_for_acls_does_not_start_without_them():
    broker = Broker(config={"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"})
    with pytest.raises(InvalidConfig, match=r"authorizer\.class\.name"):
        broker.start()
