"""Turns records whose value is a JSON object into rows with a time, keys and numbers, or with the reason why not.

Everything is an expression of Spark SQL: what runs on executors is Spark alone.
"""

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, StringType, StructField, StructType

from barnabas.pipelines.shared.failure import Failure

TIME_FORMATS = ("auto", "seconds", "millis", "iso8601")

_NUMBER = r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$"
# A date at least: Spark would read "12:00" as today's noon, and another day's replay would give another result.
_ISO_8601 = (
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?(Z|[+-][0-9]{2}(:?[0-9]{2})?)?)?$"
)
_STRICT_JSON = {"allowSingleQuotes": "false", "allowNonNumericNumbers": "false"}
# From here on a number of seconds would lie after the year 5138; as milliseconds it is 1973.
_MILLIS_FROM = 1e11
_MICROS_MAX = 253402300800 * 1_000_000  # the year 10000


class EventField(NamedTuple):
    """A value inside the JSON object: `path` leads there by dots, `name` is its column in the output."""

    name: str
    path: tuple[str, ...]

    @property
    def label(self) -> str:
        return ".".join(self.path)


def event_field(text: str) -> EventField:
    """Parses user.id, or customer=user.id, which gives the field a name of its own."""
    name, _, dotted = text.rpartition("=")
    path = tuple(dotted.split("."))
    if not all(path):
        raise Failure(f"{text!r} is not a field: write its name, with a dot before each inner field, as in user.id")
    return EventField(name or re.sub(r"\W", "_", dotted), path)


@dataclass(frozen=True, kw_only=True)
class EventFormat:
    """The fields of a record's value that are used."""

    time: EventField
    time_format: str = "auto"
    keys: tuple[EventField, ...] = ()
    numbers: tuple[EventField, ...] = ()
    distinct: tuple[EventField, ...] = ()
    max_ahead: timedelta = timedelta(days=1)

    @property
    def fields(self) -> tuple[EventField, ...]:
        return (self.time, *self.keys, *self.numbers, *self.distinct)

    def check(self) -> None:
        """Raises Failure if the fields cannot all be asked for at once."""
        _schema(self.fields)


def parse(records: DataFrame, form: EventFormat) -> DataFrame:
    """Adds `event_time`, `key_0`…, `number_0`…, `distinct_0`… to records, and a `reason` if they cannot be used."""
    text = F.col("value").cast("string")
    # In a list, because Spark's reader stops after the first value and would not see what follows it. Nobody can close
    # the list for us: its last element has a name that no value knows.
    end = secrets.token_hex(16)
    listed = F.concat(F.lit("["), text, F.lit(f',{{"{end}":""}}]'))
    schema = _schema([*form.fields, EventField(end, (end,))])
    found = F.col("events")
    is_one = (F.size(found) == 2) & F.element_at(found, -1).getField(end).isNotNull()
    one = records.withColumn("events", F.from_json(listed, ArrayType(schema), _STRICT_JSON))
    one = one.withColumn("events", F.when(is_one, F.slice(found, 1, 1)))
    # explode keeps the optimizer from parsing again for each column: it moves no expression past it.
    parsed = one.select(*records.columns, F.explode_outer("events").alias("event"))
    parsed = parsed.withColumns(
        {
            **{f"key_{n}": _text_of(field) for n, field in enumerate(form.keys)},
            **{f"distinct_{n}": _text_of(field) for n, field in enumerate(form.distinct)},
        }
    )
    parsed = _with_time(_with_numbers(parsed, form), form)
    return parsed.withColumn("reason", _reason(form, text)).drop("event")


def _schema(fields: Sequence[EventField]) -> StructType:
    """Reads every wanted field as text, to distinguish a wrong type from a missing field."""
    tree: dict[str, object] = {}
    for field in fields:
        level = tree
        for step in field.path[:-1]:
            deeper = level.setdefault(step, {})
            if not isinstance(deeper, dict):
                raise Failure(f"{field.label} is inside a field that is also asked for: ask for one of them")
            level = deeper
        if isinstance(level.setdefault(field.path[-1], None), dict):
            raise Failure(f"{field.label} is asked for, and so are fields inside it: ask for one of them")
    return _struct(tree)


def _struct(tree: dict[str, object]) -> StructType:
    spelled: dict[str, str] = {}
    for name in tree:
        if spelled.setdefault(name.lower(), name) != name:
            raise Failure(
                f"{spelled[name.lower()]} and {name} differ in case only, and Spark takes them for one field: "
                "ask for one of them"
            )

    def kind(below: object) -> DataType:
        return _struct(below) if isinstance(below, dict) else StringType()

    return StructType([StructField(name, kind(below)) for name, below in tree.items()])


def _text_of(field: EventField) -> Column:
    column = F.col("event")
    for step in field.path:
        column = column.getField(step)
    return column


# An expression that stands in several places is computed in each of them. What is used more than once is therefore a
# column of its own, and the next step refers to it: Spark does not put it back into the places.


def _with_numbers(parsed: DataFrame, form: EventFormat) -> DataFrame:
    numbers = {f"number_{n}": _as_number(_text_of(field)) for n, field in enumerate(form.numbers)}
    finite = {name: F.when(F.abs(F.col(name)) < float("inf"), F.col(name)) for name in numbers}
    return parsed.withColumns(numbers).withColumns(finite) if numbers else parsed


def _as_number(text: Column) -> Column:
    return F.when(text.rlike(_NUMBER), text.cast("double"))


def _with_time(parsed: DataFrame, form: EventFormat) -> DataFrame:
    """Adds `event_time`, null for a time before 1970: Spark's watermark begins there, so it would always be late."""
    text, time = _text_of(form.time), F.col("event_time")
    moment = F.when(F.abs(time) < _MICROS_MAX, F.timestamp_micros(F.round(time).cast("long")))
    if form.time_format == "iso8601":
        steps = [_iso_8601(text)]
    elif form.time_format == "auto":
        micros = F.when(F.abs(time) < _MILLIS_FROM, time * 1_000_000).otherwise(time * 1000)
        steps = [_as_number(text), micros, F.coalesce(moment, _iso_8601(text))]
    else:
        steps = [_as_number(text) * (1000 if form.time_format == "millis" else 1_000_000), moment]
    for step in [*steps, F.when(time >= F.timestamp_seconds(F.lit(0)), time)]:
        parsed = parsed.withColumn("event_time", step)
    return parsed


def _iso_8601(text: Column) -> Column:
    return F.when(text.rlike(_ISO_8601), F.try_to_timestamp(text))


def _reason(form: EventFormat, text: Column) -> Column:
    time = _text_of(form.time)
    is_object = F.trim(text).startswith("{")
    reason = (
        F.when(F.col("value").isNull(), "the record has no value")
        .when(~_is_utf8(text), "the value is not UTF-8")
        .when(F.col("event").isNull() & ~is_object, "the value is not a JSON object")
        .when(F.col("event").isNull(), "the value is not JSON")
        .when(time.isNull(), f"time field {form.time.label} is missing")
        .when(F.col("event_time").isNull(), f"time field {form.time.label} is not a time")
        .when(_too_far_ahead(form), f"time field {form.time.label} is too far ahead of the record's timestamp")
    )
    for n, field in enumerate(form.keys):
        reason = reason.when(F.col(f"key_{n}").isNull(), f"key field {field.label} is missing")
    for n, field in enumerate(form.numbers):
        wrong = _text_of(field).isNotNull() & F.col(f"number_{n}").isNull()
        reason = reason.when(wrong, f"value field {field.label} is not a number")
    return reason


def _is_utf8(text: Column) -> Column:
    """Checks the bytes: Java replaces all that are not UTF-8 by the same character, and different keys would become
    one."""
    if hasattr(F, "is_valid_utf8"):  # from Spark 4.0 on
        return F.is_valid_utf8(text)
    return F.format_string("%s", text) == text


def _too_far_ahead(form: EventFormat) -> Column:
    """Finds clocks that run ahead: each would advance the watermark and make all other events late."""
    written = F.col("timestamp")
    ahead = F.unix_micros(F.col("event_time")) - F.unix_micros(written)
    return (F.unix_micros(written) >= 0) & (ahead > int(form.max_ahead.total_seconds() * 1_000_000))
