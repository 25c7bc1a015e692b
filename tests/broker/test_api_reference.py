"""docs/apis.md is what the code says."""

from barnabas.broker.api_reference import reference
from tests.kafka_jars import ROOT


def test_the_committed_reference_is_current():
    committed = (ROOT / "docs" / "apis.md").read_text()
    assert committed == reference(), "run: python -m barnabas.broker.api_reference > docs/apis.md"
