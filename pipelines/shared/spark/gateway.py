"""The JVM that Spark's driver runs in: started with all its output in the log file, and ended with us."""

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark import SparkConf, java_gateway
from pyspark.errors import PySparkException

from barnabas.pipelines.shared.failure import Failure

END_TIMEOUT_S = 10


def launch(settings: Mapping[str, str], log_file: Path) -> Any:
    conf = SparkConf(loadDefaults=False)
    for key, value in settings.items():
        conf.set(key, value)
    launch_gateway: Any = java_gateway.launch_gateway
    with log_file.open("ab") as output:
        try:
            return launch_gateway(conf, {"stdout": output, "stderr": output})
        except PySparkException as error:
            raise Failure("Spark's JVM did not start") from error


def kill(gateway: Any) -> None:
    """Ends the JVM at once, though it may still remove its temporary files."""
    if gateway.proc is not None:
        gateway.proc.terminate()
        _await_end(gateway.proc)


def close(gateway: Any) -> None:
    """Closes the JVM's stdin: it then ends, and removes its temporary files."""
    if gateway.proc is not None:  # spark-submit's JVM is not ours to end
        gateway.proc.stdin.close()
        _await_end(gateway.proc)


def _await_end(process: "subprocess.Popen[bytes]") -> None:
    try:
        process.wait(END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
