"""What Spark read is compared with what was written, without a session."""

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from benchmarks.spark_load import Content, Wrong, compare

WRITTEN = Content(records=3, bytes=300, crc32_sum=4_711)


def test_the_same_content_passes() -> None:
    compare("Spark read", Content(3, 300, 4_711), WRITTEN)


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (Content(2, 200, 4_711), "Spark read 2 records of 200 bytes, not 3"),
        (Content(3, 299, 4_711), "Spark read 3 records of 299 bytes, not 3"),
        (Content(3, 300, 4_712), "as many records and bytes as were written, but not the same"),
    ],
)
def test_other_content_fails(found: Content, reason: str) -> None:
    with pytest.raises(Wrong, match=reason):
        compare("Spark read", found, WRITTEN)
