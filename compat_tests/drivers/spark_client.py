"""Spark with its own Kafka source and sink, unmodified. Arguments: a folder for what Spark leaves, then the jars.

    {"op": "read", "options": {name: value}} -> {"tasks": [[row]]}: what each of Spark's tasks read
    {"op": "write", "sql": the rows to be written, "options"} -> {}
    {"op": "start", "query": name, "options", "trigger": {kind: value}, "checkpoint": folder, "columns": [SQL] | null,
     "sink": {options} | null} -> {}: a query in the background; without a Kafka sink its batches are kept here
    {"op": "state", "query"} -> {"batches": [[row]], "active", "status", "failure": null | text,
     "progress": [Spark's own, of the last triggers]}
    {"op": "stop", "query"} -> the last state
    {"op": "configure", "settings": {name: value, or null for the default}} -> {}

A row is {"topic", "partition", "offset", "timestamp", "type" (0: create time, 1: append time), "key", "value",
"headers": [[name, value]] | null}; keys and values are base64 or null.
"""

import json
import os
import sys
from typing import Any

from json_lines import Answer, Request, serve, to_text
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

COLUMNS = (
    "spark_partition_id() AS task",
    "topic",
    "partition",
    "offset",
    "unix_millis(timestamp) AS timestamp",
    "timestampType AS type",
    "key",
    "value",
)

# Quick to start rather than quick later: rows are few.
SETTINGS = {
    "spark.jars": ",".join(sys.argv[2:]),
    "spark.local.dir": sys.argv[1],
    "spark.sql.warehouse.dir": f"{sys.argv[1]}/warehouse",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.catalogImplementation": "in-memory",
}


class Query:
    def __init__(self) -> None:
        self.batches: list[list[dict[str, Any]]] = []
        self.running: StreamingQuery | None = None

    def keep(self, batch: DataFrame, number: int) -> None:
        self.batches.append([row for task in tasks_of(batch) for row in task])


spark = None
queries: dict[str, Query] = {}


def session() -> SparkSession:
    global spark
    if spark is None:
        builder = SparkSession.builder.master("local[2]").appName("compat")
        for name, value in SETTINGS.items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel("WARN")
    return spark


def read(request: Request) -> Answer:
    frame = session().read.format("kafka").options(**with_bootstrap(request, "options")).load()
    return {"tasks": tasks_of(frame)}


def tasks_of(frame: DataFrame) -> list[list[dict[str, Any]]]:
    columns = (*COLUMNS, "headers") if "headers" in frame.columns else COLUMNS
    tasks: dict[int, list[dict[str, Any]]] = {}
    for row in frame.selectExpr(*columns).collect():
        fields = row.asDict()
        fields["key"], fields["value"] = to_text(row.key), to_text(row.value)
        headers = fields.get("headers")
        fields["headers"] = headers and [[header.key, to_text(header.value)] for header in headers]
        tasks.setdefault(fields.pop("task"), []).append(fields)
    return [tasks[number] for number in sorted(tasks)]


def with_bootstrap(request: Request, what: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": request["bootstrap"], **request[what]}


def write(request: Request) -> Answer:
    session().sql(request["sql"]).write.format("kafka").options(**with_bootstrap(request, "options")).save()
    return {}


def start(request: Request) -> Answer:
    query = queries[request["query"]] = Query()
    frame = session().readStream.format("kafka").options(**with_bootstrap(request, "options")).load()
    if request["sink"] is None:
        writer = frame.writeStream.foreachBatch(query.keep)
    else:
        writer = frame.selectExpr(*request["columns"]).writeStream.format("kafka")
        writer = writer.options(**with_bootstrap(request, "sink"))
    writer = writer.trigger(**request["trigger"]).option("checkpointLocation", request["checkpoint"])
    query.running = writer.start()
    return {}


def state(request: Request) -> Answer:
    query = queries[request["query"]]
    assert query.running is not None
    active = query.running.isActive  # before the batches: what is there when it has ended is all there will be
    error = query.running.exception()
    return {
        "batches": list(query.batches),
        "active": active,
        "status": query.running.status["message"],
        "failure": error and str(error),
        "progress": [json.loads(progress.json()) for progress in query.running._jsq.recentProgress()],
    }


def stop(request: Request) -> Answer:
    running = queries[request["query"]].running
    assert running is not None
    running.stop()
    return state(request)


def configure(request: Request) -> Answer:
    for name, value in request["settings"].items():
        session().conf.unset(name) if value is None else session().conf.set(name, value)
    return {}


if __name__ == "__main__":
    os.chdir(sys.argv[1])  # Spark leaves folders where it is started
    serve((read, write, start, state, stop, configure))
