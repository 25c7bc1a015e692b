"""Which JSON values are events, and why the others are not."""

from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import SparkSession

from barnabas.pipelines.rollups.events import EventFormat, event_field, parse
from barnabas.pipelines.rollups.windows import quantile_name
from barnabas.pipelines.shared.failure import Failure

FORM = EventFormat(time=event_field("at"), keys=(event_field("user.id"),), numbers=(event_field("ms"),))
WRITTEN = datetime(2025, 11, 16, 12, tzinfo=UTC)
NOON = 1_763_294_400

NOT_JSON, NO_OBJECT = "the value is not JSON", "the value is not a JSON object"
NO_TIME, BAD_TIME = "time field at is missing", "time field at is not a time"
AHEAD = "time field at is too far ahead of the record's timestamp"
NO_KEY, NO_NUMBER = "key field user.id is missing", "value field ms is not a number"

# (value, seconds after noon, key, number)
EVENTS = [
    ('{"at": 1763294400, "user": {"id": "u"}, "ms": 5}', 0.0, "u", 5.0),
    ('{"at": 1763294400.25, "user": {"id": "u"}}', 0.25, "u", None),  # no number is no mistake
    ('{"at": 1763294401500, "user": {"id": 7}, "ms": null}', 1.5, "7", None),  # milliseconds
    ('{"at": "1763294400", "user": {"id": true}, "ms": "1e3"}', 0.0, "true", 1000.0),  # numbers as text
    ('{"at": "2025-11-16T12:00:03Z", "user": {"id": "u"}, "ms": -0.5}', 3.0, "u", -0.5),
    ('{"at": "2025-11-16 13:00:03.123456789+01:00", "user": {"id": "u"}}', 3.123456, "u", None),
    (' {"at": "2025-11-16T12:00", "user": {"id": ""}, "more": [{}]} \n', 0.0, "", None),
    ('{"at": "2025-11-16", "user": {"id": "ü"}}', -43_200.0, "ü", None),
    ('{"at": 1763380800, "user": {"id": "u"}}', 86_400.0, "u", None),  # a day ahead is allowed
]
# (value, reason)
OTHERS = [
    (None, "the record has no value"),
    ("", NO_OBJECT),
    ("null", NO_OBJECT),
    ("17", NO_OBJECT),
    ('[{"at": 1763294400}]', NO_OBJECT),
    ('{"at": 1763', NOT_JSON),
    ("{'at': 1763294400}", NOT_JSON),
    ('{"at": 1763294400}{"at": 1763294400}', NOT_JSON),  # Spark's reader alone would take the first
    ('{"at": 1763294400}, {"at": 1763294400}', NOT_JSON),
    ('{"at": 1763294400, "user": {"id": "u"}}] rubbish', NOT_JSON),  # closes the list that Spark is given
    ('{"at": 1763294400, "user": {"id": "u"}}, {}]', NOT_JSON),
    ('{"at": 1763294400, "user": {"id": "u"}},', NOT_JSON),
    ('{"at": 1763294400, "ms": NaN}', NOT_JSON),
    ('{"user": {"id": "u"}}', NO_TIME),
    ('{"at": null, "user": {"id": "u"}}', NO_TIME),
    ('{"at": "12:00:00", "user": {"id": "u"}}', BAD_TIME),  # Spark alone would take today's noon
    ('{"at": "2025-02-30T00:00:00Z", "user": {"id": "u"}}', BAD_TIME),
    ('{"at": -1, "user": {"id": "u"}}', BAD_TIME),
    ('{"at": 1e300, "user": {"id": "u"}}', BAD_TIME),
    ('{"at": {"s": 1}, "user": {"id": "u"}}', BAD_TIME),
    ('{"at": 1763380801, "user": {"id": "u"}}', AHEAD),
    ('{"at": 1763294400}', NO_KEY),
    ('{"at": 1763294400, "user": "u"}', NO_KEY),
    ('{"at": 1763294400, "user": {"id": null}}', NO_KEY),
    ('{"at": 1763294400, "user": {"id": "u"}, "ms": "fast"}', NO_NUMBER),
    ('{"at": 1763294400, "user": {"id": "u"}, "ms": [1]}', NO_NUMBER),
    ('{"at": 1763294400, "user": {"id": "u"}, "ms": 1e999}', NO_NUMBER),
]


def test_a_value_is_an_event_or_has_a_reason_why_not(spark: SparkSession) -> None:
    values = [*(value for value, _, _, _ in EVENTS), *(value for value, _ in OTHERS)]
    rows = [(None if value is None else bytearray(value.encode()), WRITTEN) for value in values]
    parsed = parse(spark.createDataFrame(rows, "value binary, timestamp timestamp"), FORM)
    columns = "reason", "CAST(unix_micros(event_time) AS DOUBLE) / 1e6 AS time", "key_0", "number_0"
    found = dict(zip(values, parsed.selectExpr(*columns).collect()))
    for value, second, key, number in EVENTS:
        assert tuple(found[value]) == (None, pytest.approx(NOON + second, abs=1e-6), key, number), value
    assert {value: found[value]["reason"] for value, _ in OTHERS} == dict(OTHERS)


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        (b"\xff\xfe", "the value is not UTF-8"),
        (b"\xc3", "the value is not UTF-8"),  # cut off
        (b"\xed\xa0\x80", "the value is not UTF-8"),  # half of a pair
        ("\ufffd\U0001f375ü".encode(), None),  # the character that stands for a wrong one may be meant
    ],
)
def test_bytes_that_are_not_utf8_are_no_key(spark: SparkSession, key: bytes, reason: str | None) -> None:
    value = bytearray(b'{"at": 1763294400, "user": {"id": "%s"}}' % key)
    frame = spark.createDataFrame([(value, WRITTEN)], "value binary, timestamp timestamp")
    assert parse(frame, FORM).collect()[0]["reason"] == reason


def test_fields_that_differ_in_case_only_are_refused() -> None:
    form = EventFormat(time=event_field("at"), keys=(event_field("a.id"),), distinct=(event_field("a.ID"),))
    with pytest.raises(Failure, match="id and ID differ in case only"):
        form.check()


def test_a_format_that_is_named_leaves_nothing_to_guess(spark: SparkSession) -> None:
    value = bytearray(b'{"at": 1763294400, "user": {"id": "u"}}')
    frame = spark.createDataFrame([(value, WRITTEN)], "value binary, timestamp timestamp")

    def reason(time_format: str) -> str:
        form = EventFormat(time=FORM.time, keys=FORM.keys, time_format=time_format, max_ahead=timedelta(0))
        row = parse(frame, form).selectExpr("reason", "CAST(event_time AS STRING) AS time").collect()[0]
        return str(row["reason"] or row["time"])

    assert [reason(each) for each in ("seconds", "millis", "iso8601")] == [
        "2025-11-16 12:00:00",
        "1970-01-21 09:48:14.4",
        BAD_TIME,
    ]


@pytest.mark.parametrize("text", ["", ".", "user.", "user..id", "mine="])
def test_what_is_no_field_is_refused(text: str) -> None:
    with pytest.raises(Failure, match="is not a field"):
        event_field(text)


@pytest.mark.parametrize(("quantile", "name"), [(0.5, "p50"), (0.95, "p95"), (0.999, "p99_9"), (0, "p0"), (1, "p100")])
def test_a_quantile_has_a_name_that_is_a_column(quantile: float, name: str) -> None:
    assert quantile_name(quantile) == name
