"""The folder `artifacts` that Spark 4.0.0 leaves in the current directory (SPARK-52396; later versions do not).

It is for code that users add to a session. The jobs add none, so they remove it at once, and even a job that is killed
leaves nothing there.
"""

import os
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from barnabas.pipelines.shared.explain import SPARK_ERRORS, innermost
from barnabas.pipelines.shared.failure import Failure

AFFECTED = "4.0.0"


def remove_artifacts_folder(spark: SparkSession) -> None:
    if spark.version != AFFECTED:
        return
    was_there = Path("artifacts").exists()  # then it is somebody else's
    own: Any = spark._jsparkSession
    try:
        folder = Path(str(own.artifactManager().artifactRootPath()))
    except SPARK_ERRORS as error:
        raise Failure(
            f"Spark {AFFECTED} creates a folder in the current directory, and could not ({innermost(error)}): change to"
            " another directory, or upgrade to PySpark 4.0.1"
        ) from error
    try:
        os.rmdir(folder)
        if not was_there:
            os.rmdir(folder.parent)
    except OSError:
        pass  # another job has its own there
