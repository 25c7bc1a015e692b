"""One Spark session and one broker for all tests of the jobs, and what they need to produce, read, kill and restart."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from barnabas.pipelines.shared import options
from barnabas.pipelines.shared.spark import session
from compat_tests.brokers import apache_kafka
from tests.kafka_jars import kafka_libs
from tests.pipelines.gated_broker import GatedBroker
from tests.pipelines.jobs import DRIVER_OPTIONS
from tests.pipelines.records import create_topic
from tests.processes.broker_process import BrokerProcess

ROOT = Path(__file__).resolve().parent.parent.parent
JARS = ROOT / ".cache" / f"spark-kafka-{pyspark.__version__}" / "libs"

os.environ["BARNABAS_SPARK_JARS"] = str(JARS)

FAST_CONF = {
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.driver.memory": "768m",
    "spark.driver.extraJavaOptions": DRIVER_OPTIONS,
    "spark.sql.streaming.pollingDelay": "5ms",
    # No query here runs long enough for its code to be worth compiling; jobs that are processes of their own do it.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """PySpark leaves the sockets over which `collect` gets its rows to the garbage collector."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))


@pytest.fixture(scope="session", autouse=True)
def what_spark_needs() -> None:
    """Without it the tests are skipped with the reason; on CI that is a failure."""
    java = Path(os.environ["JAVA_HOME"], "bin", "java") if os.environ.get("JAVA_HOME") else "java"
    if shutil.which(java) is None:
        reason = "no java on the path: install a JDK, version 17 or later"
    elif not any(JARS.glob("spark-sql-kafka-*.jar")):
        reason = f"no jars of Spark's Kafka source in {JARS}: `make setup` fetches them"
    else:
        return
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    folder = tmp_path_factory.mktemp("spark")
    words = ["--bootstrap-servers", "-", "--master", "local[2]", "--log-file", str(folder / "spark.log")]
    conf = {**FAST_CONF, "spark.sql.warehouse.dir": str(folder / "warehouse"), "spark.local.dir": str(folder / "local")}
    words += [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
    opened = session.open_session("tests", options.parser("tests", "", streaming=False).parse_args(words))
    yield opened
    opened.stop()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker for everybody: use topics of your own (`new_topic`), and do not stop it."""
    folder = tmp_path_factory.mktemp("broker")
    with BrokerProcess(folder / "data", settings={"auto.create.topics.enable": "false"}) as process:
        yield process


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Apache Kafka, which has transactions: use topics of your own."""
    kafka_libs()
    one_broker = {f"transaction.state.log.{key}": "1" for key in ("replication.factor", "min.isr", "num.partitions")}
    with apache_kafka(tmp_path_factory.mktemp("kafka"), one_broker) as started:
        yield started.bootstrap


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker of the test's own: `kill()` or `stop()` it and `start()` it again, same port and data."""
    with BrokerProcess(tmp_path / "broker-data", settings={"auto.create.topics.enable": "false"}) as process:
        yield process


@pytest.fixture
def gated_broker(tmp_path: Path) -> Iterator[GatedBroker]:
    """One more, whose clients can be stopped in the middle of writing; it, too, can be killed and started again."""
    with GatedBroker(tmp_path / "gated-data", settings={"auto.create.topics.enable": "false"}) as process:
        yield process


@pytest.fixture
def new_topic(broker: BrokerProcess, request: pytest.FixtureRequest) -> Callable[..., str]:
    """new_topic(partitions=1, **configs): creates a topic with a name that nobody else uses."""
    made: list[str] = []

    def create(partitions: int = 1, **configs: str) -> str:
        name = f"t{abs(hash(request.node.nodeid)) % 10**10}-{len(made)}"
        made.append(name)
        create_topic(broker.bootstrap_servers, name, partitions, {k.replace("_", "."): v for k, v in configs.items()})
        return name

    return create
