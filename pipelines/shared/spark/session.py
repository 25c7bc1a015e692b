"""Opens the Spark session: UTC, quiet, on loopback if it is local, with the Kafka connector."""

import argparse
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from barnabas.pipelines.shared.explain import SPARK_ERRORS, innermost
from barnabas.pipelines.shared.failure import Failure
from barnabas.pipelines.shared.spark import gateway, logs
from barnabas.pipelines.shared.spark.artifacts import remove_artifacts_folder
from barnabas.pipelines.shared.spark.connector import connector_jars, installed_spark
from barnabas.pipelines.shared.spark.requirements import require_java

SOURCE_CLASS = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
LOOPBACK = "127.0.0.1"


def open_session(name: str, options: argparse.Namespace) -> SparkSession:
    """Opens a session. Sets `options.log_file` to Spark's log file; to None under spark-submit, which has its own."""
    if under_spark_submit():
        options.log_file = None
        return _submitted_session(name, options)
    require_java()
    log_file = logs.new_log_file(name, options.log_file)
    options.log_file = str(log_file)
    settings = session_settings(name, options, log_file)
    if _is_local(options.master):
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    launched = gateway.launch(settings, log_file)
    conf = SparkConf(_jvm=launched.jvm)
    for key, value in settings.items():
        conf.set(key, value)
    spark = SparkSession(_context(launched, conf))
    remove_artifacts_folder(spark)
    return spark


@contextmanager
def session(name: str, options: argparse.Namespace) -> Iterator[SparkSession]:
    spark = open_session(name, options)
    launched: Any = SparkContext._gateway
    try:
        yield spark
    except KeyboardInterrupt:
        # A call that was cut off leaves its connection to the JVM unusable: nothing can be asked of it any more.
        gateway.kill(launched)
        raise
    except BaseException:
        _close(spark, launched)
        raise
    _close(spark, launched)


def _close(spark: SparkSession, launched: Any) -> None:
    try:
        spark.stop()
    except SPARK_ERRORS:
        pass  # the JVM has died, and nobody listens any more
    gateway.close(launched)


def under_spark_submit() -> bool:
    """Says whether spark-submit has started the JVM, with the master and the jars that it was given."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def session_settings(name: str, options: argparse.Namespace, log_file: Path) -> dict[str, str]:
    """Returns our settings, overridden by the user's --conf; lists are joined."""
    own_jars = [jar.as_uri() for jar in connector_jars(installed_spark(), options.jars_folder, options.conf, log_file)]
    given = dict(options.conf)
    jars = ",".join([*own_jars, *filter(None, [given.pop("spark.jars", "")])])
    java = " ".join([logs.java_options(log_file), given.pop("spark.driver.extraJavaOptions", "")]).strip()
    local = {
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        "spark.sql.shuffle.partitions": "8",  # the default of 200 is for a cluster; each costs a stateful query time
    }
    return {
        "spark.app.name": f"barnabas {name}",
        "spark.master": options.master,
        "spark.jars": jars,
        "spark.driver.extraJavaOptions": java,
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **(local if _is_local(options.master) else {}),
        **given,
    }


def _is_local(master: str) -> bool:
    return master.startswith("local")


def _context(launched: Any, conf: SparkConf) -> SparkContext:
    try:
        context = SparkContext(conf=conf, gateway=launched)
    except SPARK_ERRORS as error:
        failure = Failure(f"Spark did not start: {innermost(error)}")
        gateway.close(launched)
        raise failure from error
    if threading.current_thread() is threading.main_thread():
        # pyspark's own handler would cancel the running jobs, a batch in its middle.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return context


def _submitted_session(name: str, options: argparse.Namespace) -> SparkSession:
    _require_connector()
    builder = SparkSession.builder.appName(f"barnabas {name}").config("spark.sql.session.timeZone", "UTC")
    for key, value in options.conf.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    remove_artifacts_folder(spark)
    return spark


def _require_connector() -> None:
    """Asks the JVM before a session is opened, so that no user waits for one that cannot be used."""
    SparkContext._ensure_initialized()
    jvm: Any = SparkContext._jvm
    try:
        jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(SOURCE_CLASS)
    except SPARK_ERRORS as error:
        scala = ".".join(jvm.scala.util.Properties.versionNumberString().split(".")[:2])
        connector = f"org.apache.spark:spark-sql-kafka-0-10_{scala}:{pyspark.__version__}"
        raise Failure(f"Spark's Kafka connector is missing: add --packages {connector} to spark-submit") from error
