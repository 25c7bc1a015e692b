"""The jars of Spark's Kafka source and sink, which PySpark does not ship."""

import os
from pathlib import Path

import pyspark

from barnabas.pipelines.failure import Failure

JARS_VARIABLE = "BARNABAS_SPARK_JARS"
PARTS = ("spark-sql-kafka-0-10_", "spark-token-provider-kafka-0-10_", "kafka-clients-", "commons-pool2-")


def connector_jars(folder: str | None) -> list[Path]:
    given = folder or os.environ.get(JARS_VARIABLE)
    if given is None:
        raise Failure(f"name the folder of the connector's jars for PySpark {pyspark.__version__} in {JARS_VARIABLE}")
    found = sorted(Path(given).glob("*.jar"))
    return [jar for jar in found if any(part in jar.name for part in PARTS)]
