"""docs/apis.md is what the code says."""

from tests.kafka_jars import ROOT
from tools.api_reference import reference


def test_the_committed_reference_is_current() -> None:
    committed = (ROOT / "docs" / "apis.md").read_text()
    assert committed == reference(), "run: python -m tools.api_reference > docs/apis.md"
