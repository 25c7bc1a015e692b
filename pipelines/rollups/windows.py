"""Event-time windows: how rows are grouped, what is computed for a group, and when a record comes too late for all."""

from dataclasses import dataclass
from datetime import timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from barnabas.pipelines.rollups.events import EventFormat
from barnabas.pipelines.shared.failure import Failure

# 4096 counters in a sketch: some hundred values are counted exactly, many with a standard error of 1.6 %.
SKETCH_SIZE_LOG2 = 12
NUMBER_COLUMNS = ("count", "sum", "min", "max")


@dataclass(frozen=True, kw_only=True)
class Windows:
    """Tumbling (`length`), sliding (`length` and `slide`) or sessions that end after `gap` without an event."""

    length: timedelta | None = None
    slide: timedelta | None = None
    gap: timedelta | None = None

    def column(self) -> Column:
        if self.gap is not None:
            return F.session_window("event_time", _interval(self.gap))
        assert self.length is not None, "the options ask for a length or a gap"
        return F.window("event_time", _interval(self.length), _interval(self.slide or self.length))

    def first_end_micros(self) -> Column:
        """Returns the end of the first window that a record belongs to: from there on it misses something."""
        time = F.unix_micros(F.col("event_time"))
        if self.gap is not None:
            return time + _micros(self.gap)
        length, step = self._length_and_step()
        return time + step - F.pmod(time - length, F.lit(step))

    def last_end_micros(self) -> Column:
        """Returns the end of the last window that a record belongs to: from there on it belongs to none."""
        time = F.unix_micros(F.col("event_time"))
        if self.gap is not None:
            return time + _micros(self.gap)
        length, step = self._length_and_step()
        return time - F.pmod(time, F.lit(step)) + length

    def _length_and_step(self) -> tuple[int, int]:
        assert self.length is not None, "the options ask for a length or a gap"
        return _micros(self.length), _micros(self.slide or self.length)


@dataclass(frozen=True, kw_only=True)
class Aggregates:
    quantiles: tuple[float, ...] = ()
    quantile_accuracy: int = 1000


def roll_up(events: DataFrame, form: EventFormat, windows: Windows, aggregates: Aggregates) -> DataFrame:
    """Returns a row for each key and window. `events` can all be used; a stream already has its watermark."""
    keys = [f"key_{n}" for n in range(len(form.keys))]
    grouped = events.groupBy(windows.column().alias("window"), *keys).agg(*_aggregates(form, aggregates))
    columns = [
        F.col("window.start").alias("window_start"),
        F.col("window.end").alias("window_end"),
        *(F.col(f"key_{n}").alias(field.name) for n, field in enumerate(form.keys)),
        F.col("count"),
    ]
    for n, field in enumerate(form.numbers):
        columns += [F.col(f"number_{n}_{what}").alias(f"{field.name}_{what}") for what in NUMBER_COLUMNS]
        columns += [
            F.col(f"number_{n}_quantiles")[position].alias(f"{field.name}_{quantile_name(quantile)}")
            for position, quantile in enumerate(aggregates.quantiles)
        ]
    columns += [F.col(f"distinct_{n}").alias(f"{field.name}_distinct") for n, field in enumerate(form.distinct)]
    return grouped.select(columns)


def _aggregates(form: EventFormat, aggregates: Aggregates) -> list[Column]:
    wanted = [F.count(F.lit(1)).alias("count")]
    for n in range(len(form.numbers)):
        number = F.col(f"number_{n}")
        wanted += [
            F.count(number).alias(f"number_{n}_count"),
            F.sum(number).alias(f"number_{n}_sum"),
            F.min(number).alias(f"number_{n}_min"),
            F.max(number).alias(f"number_{n}_max"),
        ]
        if aggregates.quantiles:
            quantiles = F.percentile_approx(number, list(aggregates.quantiles), aggregates.quantile_accuracy)
            wanted.append(quantiles.alias(f"number_{n}_quantiles"))
    for n in range(len(form.distinct)):
        # A sketch in one column; approx_count_distinct would spread its counters over hundreds.
        sketch = F.hll_sketch_agg(f"distinct_{n}", SKETCH_SIZE_LOG2)
        wanted.append(F.coalesce(F.hll_sketch_estimate(sketch), F.lit(0)).alias(f"distinct_{n}"))
    return wanted


def column_names(form: EventFormat, aggregates: Aggregates) -> list[str]:
    """Returns the columns of the output, each name once; Spark ignores their case."""
    names = ["window_start", "window_end", *(field.name for field in form.keys), "count"]
    for field in form.numbers:
        names += [f"{field.name}_{what}" for what in NUMBER_COLUMNS]
        names += [f"{field.name}_{quantile_name(quantile)}" for quantile in aggregates.quantiles]
    names += [f"{field.name}_distinct" for field in form.distinct]
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            raise Failure(f"two columns would be called {name}: give one field another name, as in mine={name}")
        seen.add(name.lower())
    return names


def quantile_name(quantile: float) -> str:
    """Returns p50 for 0.5, p99_9 for 0.999."""
    return f"p{quantile * 100:.10g}".replace(".", "_")


def _interval(length: timedelta) -> str:
    return f"{_micros(length)} microseconds"


def _micros(length: timedelta) -> int:
    return round(length.total_seconds() * 1_000_000)
