"""docs/configuration.md is what the code says."""

from barnabas.broker.config import BrokerConfig
from barnabas.broker.config_reference import reference
from barnabas.broker.group_config_keys import GroupConfigKeys
from barnabas.storage.log_config import LogConfig
from tests.kafka_jars import ROOT


def test_the_committed_reference_is_current():
    committed = (ROOT / "docs" / "configuration.md").read_text()
    assert committed == reference(), "run: python -m barnabas.broker.config_reference > docs/configuration.md"


def test_the_reference_has_a_row_for_every_key():
    text = reference()
    for name in (*LogConfig.KEYS, *GroupConfigKeys.KEYS, *BrokerConfig.KEYS):
        assert f"\n| `{name}` |" in text
