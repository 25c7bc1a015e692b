"""Opens the Spark session: UTC, quiet, on loopback if it is local, with the Kafka connector."""

import argparse
import os
import signal
import tempfile
import threading
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext, java_gateway
from pyspark.sql import SparkSession

from barnabas.pipelines.connector import connector_jars


def open_session(name: str, options: argparse.Namespace) -> SparkSession:
    if under_spark_submit():
        return (
            SparkSession.builder.appName(f"barnabas {name}").config("spark.sql.session.timeZone", "UTC").getOrCreate()
        )
    log = Path(options.log_file or Path(tempfile.gettempdir()) / f"barnabas-{name}-{os.getpid()}.log")
    conf = SparkConf(loadDefaults=False)
    for key, value in settings(name, options).items():
        conf.set(key, value)
    if options.master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    with log.open("ab") as output:
        gateway = _launch(conf, {"stdout": output, "stderr": output})
    context = SparkContext(conf=conf, gateway=gateway)
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return SparkSession(context)


def _launch(conf: SparkConf, output: dict[str, Any]) -> Any:
    launch_gateway: Any = java_gateway.launch_gateway
    return launch_gateway(conf, output)


def settings(name: str, options: argparse.Namespace) -> dict[str, str]:
    jars = ",".join(path.resolve().as_uri() for path in connector_jars(options.jars_folder))
    local = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return {
        "spark.app.name": f"barnabas {name}",
        "spark.master": options.master,
        "spark.jars": jars,
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **(local if options.master.startswith("local") else {}),
        **options.conf,
    }


def under_spark_submit() -> bool:
    """spark-submit has started the JVM already, with the master and the jars that it was given."""
    return "PYSPARK_GATEWAY_PORT" in os.environ
