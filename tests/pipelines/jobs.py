"""Jobs as users run them: processes of their own, with a session of their own, that can be signalled and killed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

ROOT = Path(__file__).resolve().parent.parent.parent
LOCAL_CLUSTER = "local-cluster[2,1,1024]"
"""Two executors in processes of their own, with a core each."""

TIMEOUT_S = 120
JVM_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A test never runs long enough for more compilation."""
CLASSES = ROOT / ".cache" / f"spark-classes-{pyspark.__version__}" / "classes.jsa"
DRIVER_OPTIONS = f"{JVM_OPTIONS} -XX:SharedArchiveFile={CLASSES}" if CLASSES.exists() else JVM_OPTIONS
"""Classes that are mapped need not be loaded: a session opens in half the time."""
QUICK = {
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "768m",
    "spark.driver.extraJavaOptions": DRIVER_OPTIONS,
    "spark.executor.memory": "768m",
    "spark.executor.extraJavaOptions": JVM_OPTIONS,
    "spark.sql.streaming.pollingDelay": "5ms",
}


class Job:
    """What it writes to its terminal is in `output()`, stdout and stderr as they come."""

    def __init__(self, process: "subprocess.Popen[bytes]", folder: Path) -> None:
        self.process = process
        self.folder = folder

    @property
    def pid(self) -> int:
        return self.process.pid

    def output(self) -> str:
        return (self.folder / "output").read_text()

    def log(self) -> str:
        path = self.folder / "spark.log"
        return path.read_text() if path.exists() else ""

    def wait(self, timeout_s: float = TIMEOUT_S) -> int:
        """The exit code."""
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the job did not end:\n{self.output()}\n{self.log()[-4000:]}") from None

    def wait_until(self, condition: Callable[[], bool], timeout_s: float = TIMEOUT_S) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert self.process.poll() is None, f"the job ended:\n{self.output()}\n{self.log()[-4000:]}"
            assert time.monotonic() < deadline, f"it did not happen in time:\n{self.output()}\n{self.log()[-4000:]}"
            time.sleep(0.05)

    def interrupt(self) -> None:
        """Ctrl-C at a terminal, which goes to the whole process group."""
        os.killpg(self.process.pid, signal.SIGINT)

    def terminate(self) -> None:
        self.process.terminate()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """It sees at once what happens meanwhile, and nothing of it before."""
        os.killpg(self.process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.killpg(self.process.pid, signal.SIGCONT)

    def kill(self) -> None:
        """The driver, its JVM and all executors at once, as when the machine dies."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()


@contextmanager
def running_job(
    folder: Path,
    *words: str,
    module: str = "barnabas",
    master: str = "local[2]",
    conf: dict[str, str] | None = None,
) -> Iterator[Job]:
    """`barnabas pipeline …`, or another module with a job's main(); it and its JVMs are gone when the block ends.

    It runs in the folder: whatever Spark leaves in its current directory is there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    settings = {**QUICK, "spark.local.dir": str(folder / "local"), **(conf or {})}
    command = [sys.executable, "-m", module, *words, "--master", master, "--log-file", str(folder / "spark.log")]
    command += [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
    home = {"SPARK_HOME": str(_spark_home(folder))} if master.startswith("local-cluster") else {}
    variables = {**os.environ, "PYTHONPATH": str(ROOT), **home}
    with (folder / "output").open("ab") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, env=variables, cwd=folder, start_new_session=True
        )
    job = Job(process, folder)
    try:
        yield job
    finally:
        job.kill()


def _spark_home(folder: Path) -> Path:
    """PySpark's own folder, but with a `work` of its own: that is where a local cluster leaves its executors' files."""
    home = folder / "spark-home"
    if not home.exists():
        home.mkdir()
        for part in Path(pyspark.__file__).parent.iterdir():
            (home / part.name).symlink_to(part)
    return home
