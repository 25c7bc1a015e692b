"""Fetches into .cache/ what the tests run beside the broker: Apache Kafka, other clients, an older PySpark, the
jars of Spark's Kafka source, and the classes that a JVM with Spark loads, ready to be mapped.

Each component has a folder of its own and a stamp in it that says what it was built from. A component whose stamp is
current is not looked at again, so this is quick and works offline once done. A folder appears whole or not at all.
A missing Java, Maven, Go or Node is one line, not an error: the tests that need it say so themselves, and fail where CI
is set. `--all` fetches also what only `make compat` needs; names, only the components that are called so.
"""

import hashlib
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache"
DRIVER = sorted((ROOT / "compat_tests" / "drivers").glob("*.java"))
KAFKA_TOOLS = ROOT / "compat_tests" / "drivers" / "Tools.java"  # of the driver that has Kafka's tools beside it
STREAMS_DRIVER = ROOT / "compat_tests" / "drivers" / "streams" / "WordCount.java"
GO_DRIVER = ROOT / "compat_tests" / "drivers" / "go"
KAFKAJS = tuple(ROOT / "compat_tests" / "drivers" / "kafkajs" / f"{name}.json" for name in ("package", "package-lock"))

POM = """<project><modelVersion>4.0.0</modelVersion>
<groupId>barnabas</groupId><artifactId>components</artifactId><version>1</version><packaging>pom</packaging>
<dependencies>{dependencies}</dependencies></project>
"""
DEPENDENCY = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"

KAFKA = (
    "org.apache.kafka:kafka_2.13:4.3.0",
    "org.apache.kafka:kafka-tools:4.3.0",
    "org.apache.logging.log4j:log4j-slf4j-impl:2.25.3",
)
# Without RocksDB, which is large: the application that is tested keeps its state in memory.
KAFKA_STREAMS = ("org.apache.kafka:kafka-streams:4.3.0",)
# Beside Kafka's own version, which comes with its broker.
JAVA_CLIENTS = {
    version: (
        f"org.apache.kafka:kafka-clients:{version}",
        "com.fasterxml.jackson.core:jackson-databind:2.16.2",  # the driver's JSON
        "org.slf4j:slf4j-nop:1.7.36",
    )
    for version in ("3.9.0", "4.4.0")
}


# What Spark's Kafka source needs beyond what PySpark ships.
SPARK_CONNECTORS = {
    "4.0.0": (
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
        "org.apache.kafka:kafka-clients:3.9.0",
        "org.apache.commons:commons-pool2:2.12.0",
    ),
    "3.5.7": (
        "org.apache.spark:spark-sql-kafka-0-10_2.12:3.5.7",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.12:3.5.7",
        "org.apache.kafka:kafka-clients:3.4.1",
        "org.apache.commons:commons-pool2:2.11.1",
    ),
}
PYSPARK_3 = ("pyspark==3.5.7", "py4j==0.10.9.7")

# Does what most tests of the jobs begin with. The JVM writes down the classes that it loads for it, and one that is
# given them starts in half the time.
SPARK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SPARK_WARM_UP = """
import sys
from barnabas.pipelines.shared import options
from barnabas.pipelines.shared.spark import session

folder, jars, jvm = sys.argv[1:]
words = ["-b", "-", "--master", "local[2]", "--jars-folder", jars, "--log-file", f"{folder}/log"]
words += ["--conf", f"spark.driver.extraJavaOptions={jvm} -XX:ArchiveClassesAtExit={folder}/classes.jsa"]
spark = session.open_session("warm-up", options.parser("warm-up", "", streaming=False).parse_args(words))

def each_batch(batch, number):
    batch.write.partitionBy("value").mode("append").parquet(f"{folder}/rows")
    spark.read.parquet(f"{folder}/rows").groupBy("value").count().collect()

stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
writer = stream.writeStream.foreachBatch(each_batch).option("checkpointLocation", f"{folder}/checkpoint")
query = writer.trigger(processingTime="0 seconds").start()
while (query.lastProgress or {"batchId": 0})["batchId"] < 1:
    query.awaitTermination(1)
query.stop()
spark.stop()
jvm = spark.sparkContext._gateway.proc
jvm.stdin.close()
jvm.wait()  # it writes now, and that takes a while
"""


NEWER_PYTHONS = ("3.14", "3.13", "3.12")  # the newest first
TEST_RUNNER = ("pytest", "pytest-timeout", "pytest-xdist", "hypothesis")


class Component(NamedTuple):
    name: str
    made_from: str
    needs: tuple[str, ...]  # system commands
    make: Callable[[Path], None]  # fills the folder
    everyday: bool = True  # needed by `make test`; the others come with `make setup`


def maven(coordinates: tuple[str, ...], *, only_these: bool = False) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        pom = folder / "pom.xml"
        pom.write_text(POM.format(dependencies="".join(DEPENDENCY.format(*c.split(":")) for c in coordinates)))
        # A repository of its own: resolving leaves poms without their jars, and Spark's Ivy trips over those in ~/.m2.
        goal = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
        repository = f"-Dmaven.repo.local={CACHE / 'maven'}"
        options = (f"-DoutputDirectory={folder / 'libs'}", f"-DexcludeTransitive={str(only_these).lower()}")
        run("mvn", "-q", "-B", "-ntp", repository, "-f", str(pom), goal, *options)

    return make


def python_packages(*requirements: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        pip = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        run(*pip, "--no-deps", "--target", str(folder), *requirements)

    return make


def compiled_driver(kafka: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        libs = CACHE / kafka / "libs"
        sources = [path for path in DRIVER if path != KAFKA_TOOLS or any(libs.glob("kafka-tools-*.jar"))]
        run("javac", "-nowarn", "-cp", str(libs / "*"), "-d", str(folder), *map(str, sources))

    return make


def compiled_streams(folder: Path) -> None:
    """Needs Kafka, of which Streams is a part, beside its own jar."""
    maven(KAFKA_STREAMS, only_these=True)(folder)
    path = f"{CACHE / 'kafka-4.3.0' / 'libs' / '*'}:{folder / 'libs' / '*'}"
    run("javac", "-nowarn", "-cp", path, "-d", str(folder), str(STREAMS_DRIVER))


def go_programs(folder: Path) -> None:
    run("go", "build", "-C", str(GO_DRIVER), "-trimpath", "-buildvcs=false", "-o", f"{folder}/", "./...")


def wheels(folder: Path) -> None:
    pip = (sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:")
    run(*pip, "--python-version", system_python(), "--dest", str(folder), *image_requirements())


def image_requirements() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return [*project["build-system"]["requires"], *project["project"]["dependencies"]]


def system_python() -> str:
    """Returns the version of Debian's own Python, which an image built from this machine has."""
    version = "import sys; print(*sys.version_info[:2], sep='.')"
    return subprocess.run(["/usr/bin/python3", "-c", version], stdout=subprocess.PIPE, text=True).stdout.strip()


def node_packages(folder: Path) -> None:
    for manifest in KAFKAJS:
        shutil.copy(manifest, folder)
    run("npm", "ci", "--prefix", str(folder), "--ignore-scripts", "--no-audit", "--no-fund")


def spark_classes(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as work:
        jars = str(CACHE / f"spark-kafka-{metadata.version('pyspark')}" / "libs")
        run(sys.executable, "-c", SPARK_WARM_UP, work, jars, SPARK_JVM)
        shutil.move(Path(work, "classes.jsa"), folder)


def java_version() -> str:
    if shutil.which("java") is None:
        return ""
    return subprocess.run(["java", "-version"], stderr=subprocess.PIPE, text=True).stderr.splitlines()[-1]


def pyspark_folder() -> str:
    spec = find_spec("pyspark")
    return str(spec and spec.origin)


def components() -> list[Component]:
    source = hashlib.sha256(b"".join(path.read_bytes() for path in DRIVER)).hexdigest()
    packages = hashlib.sha256(b"".join(path.read_bytes() for path in KAFKAJS)).hexdigest()
    go_sources = sorted(path for path in GO_DRIVER.rglob("*") if path.suffix in (".go", ".mod", ".sum"))
    programs = hashlib.sha256(b"".join(path.read_bytes() for path in go_sources)).hexdigest()
    java_clients = [
        component
        for version, jars in JAVA_CLIENTS.items()
        for component in (
            Component(f"kafka-clients-{version}", " ".join(jars), ("java", "mvn"), maven(jars)),
            Component(
                f"driver-{version}", f"{jars} {source}", ("javac", "mvn"), compiled_driver(f"kafka-clients-{version}")
            ),
        )
    ]
    connectors = [
        Component(f"spark-kafka-{version}", " ".join(jars), ("java", "mvn"), maven(jars, only_these=True))
        for version, jars in SPARK_CONNECTORS.items()
    ]
    return [
        *connectors,
        Component(
            f"spark-classes-{metadata.version('pyspark')}",
            f"{SPARK_WARM_UP} {java_version()} {pyspark_folder()}",
            ("java", "mvn"),
            spark_classes,
        ),
        Component("pyspark-3.5.7", " ".join(PYSPARK_3), (), python_packages(*PYSPARK_3)),
        Component("kafka-python-2.3.3", "kafka-python==2.3.3", (), python_packages("kafka-python==2.3.3")),
        Component("kafka-4.3.0", " ".join(KAFKA), ("java", "mvn"), maven(KAFKA)),
        Component("driver-4.3.0", f"{KAFKA} {source}", ("javac", "mvn"), compiled_driver("kafka-4.3.0")),
        streams_component(),
        *java_clients,
        Component("driver-go", programs, ("go",), go_programs, everyday=False),
        Component("driver-kafkajs", packages, ("node", "npm"), node_packages, everyday=False),
        *image_components(),
        *newer_python(),
    ]


def streams_component() -> Component:
    made_from = f"{KAFKA_STREAMS} {STREAMS_DRIVER.read_text()}"
    return Component("driver-streams", made_from, ("javac", "mvn"), compiled_streams)


def image_components() -> list[Component]:
    """Returns what an image is built from where no registry answers; only for machines that can start a Docker
    daemon."""
    if shutil.which("dockerd") is None or not Path("/usr/bin/python3").exists():
        return []
    made_from = " ".join([system_python(), *image_requirements()])
    return [Component("wheels-of-image", made_from, (), wheels)]


def newer_python() -> list[Component]:
    """The newest Python of this machine with what a broker and its core tests need, if it is newer than this one."""
    mine = ".".join(map(str, sys.version_info[:2]))
    newer = NEWER_PYTHONS[: NEWER_PYTHONS.index(mine)] if mine in NEWER_PYTHONS else NEWER_PYTHONS
    version = next((version for version in newer if can_make_environments(f"python{version}")), None)
    if version is None:
        return []
    requirements = [*core_requirements(), *image_requirements()]

    def make(folder: Path) -> None:
        run(f"python{version}", "-m", "venv", str(folder))
        pip = (str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        run(*pip, *requirements)

    return [Component(f"python-{version}", " ".join(requirements), (), make)]


def can_make_environments(python: str) -> bool:
    if shutil.which(python) is None:
        return False
    return subprocess.run([python, "-c", "import ensurepip, venv"], capture_output=True).returncode == 0


def core_requirements() -> list[str]:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    return [requirement for requirement in extras["test"] if requirement.partition("==")[0] in TEST_RUNNER]


def run(*command: str) -> None:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        print(done.stdout, end="", file=sys.stderr)
        done.check_returncode()


def has_librdkafka() -> bool:
    """Says whether librdkafka is there: the benchmarks' load generator is built with it."""
    if shutil.which("gcc") is None:
        return False
    include = "#include <librdkafka/rdkafka.h>\n"
    return subprocess.run(["gcc", "-E", "-x", "c", "-"], input=include, capture_output=True, text=True).returncode == 0


def ensure(component: Component) -> None:
    folder = CACHE / component.name
    stamp = folder / "made-from"
    if stamp.is_file() and stamp.read_text() == component.made_from:
        return
    print(f"fetching {component.name}", flush=True)
    half = CACHE / f"{component.name}.part"
    shutil.rmtree(half, ignore_errors=True)
    half.mkdir(parents=True)
    component.make(half)
    (half / "made-from").write_text(component.made_from)
    shutil.rmtree(folder, ignore_errors=True)
    half.rename(folder)


def main(words: list[str]) -> int:
    names = {word for word in words if not word.startswith("-")}
    missing: set[str] = set()
    for component in components():
        is_wanted = component.name in names if names else component.everyday or "--all" in words
        if not is_wanted:
            continue
        lacking = {command for command in component.needs if shutil.which(command) is None}
        missing |= lacking
        if lacking:
            continue
        try:
            ensure(component)
        except subprocess.CalledProcessError as error:
            print(
                f"{component.name} could not be fetched: {error.cmd[0]} ended with {error.returncode}", file=sys.stderr
            )
            return 1
    if names:
        return 0  # the caller says what is missing
    if shutil.which("kcat") is None:
        missing.add("kcat")
    if not has_librdkafka():
        missing.add("gcc with librdkafka's headers")
    if missing:
        print(
            f"missing: {', '.join(sorted(missing))}. Tests that need them are skipped; to run them too, install "
            "a JDK 17 or later, Maven, kcat, gcc, librdkafka, Go 1.26 or later and Node 20 or later "
            "(Debian: openjdk-17-jdk-headless maven kcat gcc libc6-dev librdkafka-dev nodejs npm), then `make setup`."
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
