"""docs/configuration.md is what the code says."""

from barnabas.broker.config.broker_config import BrokerConfig
from barnabas.broker.config.group_keys import GroupConfigKeys
from barnabas.storage.log_config import LogConfig
from tests.kafka_jars import ROOT
from tools.config_reference import reference


def test_the_committed_reference_is_current() -> None:
    committed = (ROOT / "docs" / "configuration.md").read_text()
    assert committed == reference(), "run: python -m tools.config_reference > docs/configuration.md"


def test_the_reference_has_a_row_for_every_key() -> None:
    text = reference()
    for name in (*LogConfig.KEYS, *GroupConfigKeys.KEYS, *BrokerConfig.KEYS):
        assert f"\n| `{name}` |" in text
