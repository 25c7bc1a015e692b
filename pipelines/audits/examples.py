"""A few rows out of many, for people to look at."""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, Row, Window
from pyspark.sql import functions as F

from barnabas.pipelines.audits.records import KEY_PREFIX_BYTES
from barnabas.pipelines.audits.report import EXAMPLES

Kinds = dict[str, tuple[int, list[dict[str, Any]]]]
"""The number of rows of each kind, and the first of them."""


def first_of_each_kind(rows: DataFrame, order: list[str]) -> Kinds:
    """Returns how many rows there are of each `kind`, and the first of them as examples."""
    rows = rows.persist()
    try:
        counts = {row["kind"]: row["count"] for row in rows.groupBy("kind").count().collect()}
        if not counts:
            return {}
        place = F.row_number().over(Window.partitionBy("kind").orderBy(*order))
        first = rows.withColumn("place", place).filter(F.col("place") <= EXAMPLES).drop("place").collect()
    finally:
        rows.unpersist()
    first.sort(key=lambda row: [(row[name] is None, row[name] or 0) for name in order])
    return {name: (count, [_example(row) for row in first if row["kind"] == name]) for name, count in counts.items()}


def _example(row: Row) -> dict[str, Any]:
    values: Mapping[str, Any] = row.asDict()
    return {
        name: key_text(value) if name == "key" else value
        for name, value in values.items()
        if name != "kind" and value is not None
    }


def key_text(key: bytes | None) -> str | None:
    """Shows a key as text if it is text, in hex if not, and only the beginning of a long one."""
    if key is None:
        return None
    raw, more = bytes(key), "…" if len(key) == KEY_PREFIX_BYTES else ""
    for cut in range(4 if more else 1):  # the last character may have been cut in two
        try:
            text = raw[: len(raw) - cut].decode()
        except UnicodeDecodeError:
            continue
        if text.isprintable():
            return text + more
    return "0x" + raw.hex() + more
