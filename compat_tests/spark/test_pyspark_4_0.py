"""Spark's Kafka connector as PySpark 4.0 has it, with kafka-clients 3.9."""

from compat_tests.spark.losses import *  # noqa: F403
from compat_tests.spark.reading import *  # noqa: F403
from compat_tests.spark.streaming import *  # noqa: F403
from compat_tests.spark.transactions import *  # noqa: F403
from compat_tests.spark.writing import *  # noqa: F403

PYSPARK = "4.0.0"
