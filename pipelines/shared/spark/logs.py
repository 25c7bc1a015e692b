"""Where everything goes that is not for the terminal: Spark's log, the JVM's own words, the details of an error."""

import logging
import os
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

from barnabas.pipelines.shared.failure import Failure

LOG4J = Path(__file__).with_name("log4j2.properties")
KEPT_PER_JOB = 20


def new_log_file(job: str, given: str | None) -> Path:
    """Returns the file that the user named, or a new one in the state folder, from which it removes the oldest."""
    folder = state_folder() if given is None else Path(given).absolute().parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Failure(f"{folder}: {error.strerror}; name another file with --log-file") from error
    if given is not None:
        return Path(given).absolute()
    for old in sorted(folder.glob(f"{job}-*.log"))[: -KEPT_PER_JOB + 1]:
        for rolled in folder.glob(f"{old.name}*"):
            rolled.unlink(missing_ok=True)
    return folder / f"{job}-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"


def state_folder() -> Path:
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "barnabas" / "pipelines"


def java_options(log_file: Path) -> str:
    """Returns options of the driver's JVM. The quotes are for paths with spaces."""
    return f'"-Dlog4j2.configurationFile={LOG4J.as_uri()}" "-Dbarnabas.log.file={log_file}"'


def write_details(log_file: str | None, error: BaseException) -> None:
    """Writes the details of an error of which the terminal shows one line."""
    if log_file is None or not Path(log_file).parent.is_dir():
        return
    with Path(log_file).open("a") as log:
        log.write(f"{time.strftime('%Y-%m-%dT%H:%M:%S')} the job failed\n")
        log.writelines(traceback.format_exception(error))


def _pyspark_loggers() -> list[logging.Logger]:
    """Returns the loggers of PySpark 4, which log each exception that it raises, to stderr, with Java's stack."""
    try:
        from pyspark.logger import PySparkLogger
    except ImportError:
        return []
    return [PySparkLogger.getLogger(f"{kind}QueryContextLogger") for kind in ("DataFrame", "SQL")]


def keep_off_the_terminal(log_file: Path) -> None:
    """Redirects Python's warnings and logs: py4j logs each call that failed or was cut off, with its traceback."""
    handler = logging.FileHandler(log_file, delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    for logger in (logging.getLogger(), *_pyspark_loggers()):
        logger.handlers = [handler]
        logger.propagate = False

    def show(message: Any, category: Any, filename: str, lineno: int, file: Any = None, line: Any = None) -> None:
        with log_file.open("a") as log:
            log.write(warnings.formatwarning(message, category, filename, lineno, line))

    warnings.showwarning = show
