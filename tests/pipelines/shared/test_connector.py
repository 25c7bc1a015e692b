"""The connector's jars: from a folder, from the cache, or resolved by Spark itself from a repository of these tests."""

import gc
import shutil
import warnings
from pathlib import Path

import pyspark
import pytest

from barnabas.pipelines.shared.failure import Failure
from barnabas.pipelines.shared.spark.connector import (
    JARS_VARIABLE,
    Spark,
    cache_folder,
    connector_jars,
    installed_spark,
)
from tests.pipelines.conftest import JARS
from tests.pipelines.jobs import DRIVER_OPTIONS

IVY_SETTINGS = """<ivysettings><settings defaultResolver="only"/><resolvers>
<ibiblio name="only" m2compatible="true" root="{root}"/></resolvers></ivysettings>"""
POM = """<project><modelVersion>4.0.0</modelVersion><groupId>{}</groupId><artifactId>{}</artifactId>
<version>{}</version><dependencies>{}</dependencies></project>"""
DEPENDENCY = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"
GROUPS = {
    "spark-sql-kafka": "org.apache.spark",
    "spark-token": "org.apache.spark",
    "kafka-clients": "org.apache.kafka",
    "commons-pool2": "org.apache.commons",
}


@pytest.fixture
def spark_version() -> Spark:
    return installed_spark()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Empty, and nothing else says where jars are."""
    monkeypatch.delenv(JARS_VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return cache_folder() / f"pyspark-{pyspark.__version__}"


def repository(root: Path) -> dict[str, str]:
    """A Maven repository with the connector and what it depends on, and the settings that make it the only one."""
    artifacts = []
    for jar in sorted(JARS.glob("*.jar")):
        name, _, version = jar.stem.rpartition("-")
        group = next(group for begin, group in GROUPS.items() if name.startswith(begin))
        artifacts.append((group, name, version))
        folder = root.joinpath(*group.split("."), name, version)
        folder.mkdir(parents=True)
        shutil.copy(jar, folder)
    for group, name, version in artifacts:
        is_connector = name.startswith("spark-sql-kafka")
        needs = [DEPENDENCY.format(*other) for other in artifacts if is_connector and other[1] != name]
        pom = root.joinpath(*group.split("."), name, version, f"{name}-{version}.pom")
        pom.write_text(POM.format(group, name, version, "".join(needs)))
    return ivy_settings(root)


def ivy_settings(root: Path) -> dict[str, str]:
    root.mkdir(exist_ok=True)
    path = root / "ivysettings.xml"
    path.write_text(IVY_SETTINGS.format(root=root.as_uri()))
    return {"spark.jars.ivySettings": str(path), "spark.driver.extraJavaOptions": DRIVER_OPTIONS}


def test_the_jars_are_fetched_once_and_then_taken_from_the_cache(
    spark_version: Spark, cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log"
    cache.mkdir(parents=True)
    (cache / "kafka-clients-3.9.0.jar").write_bytes(b"half")  # as something that died may have left it
    jars = connector_jars(spark_version, None, repository(tmp_path / "repository"), log)
    assert capsys.readouterr().err == f"downloading Spark's Kafka connector {pyspark.__version__}, this once\n"
    assert sorted(jar.stat().st_size for jar in jars) == sorted(jar.stat().st_size for jar in JARS.glob("*.jar"))
    assert sorted(cache.iterdir()) == sorted(jars)
    assert list(cache.parent.iterdir()) == [cache]  # nothing half done lies beside it
    log.unlink()
    assert connector_jars(spark_version, None, {}, log) == jars
    assert not log.exists()  # no JVM was started
    assert capsys.readouterr().err == ""


def test_without_a_repository_and_a_cache_one_line_says_what_to_do(
    spark_version: Spark, cache: Path, tmp_path: Path
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # PySpark forgets the pipe to a JVM that did not start
        try:
            connector_jars(spark_version, None, ivy_settings(tmp_path / "empty"), tmp_path / "log")
        except Failure as failure:
            told = str(failure)
        gc.collect()
    assert told.startswith(f"{spark_version.connector} could not be downloaded (")
    assert f"#{spark_version.connector.split(':')[1]};{spark_version.version}: not found)" in told
    assert "run the job once with network access, or put its jars into a folder and name it with --jars-folder" in told
    assert str(tmp_path / "log") not in told  # who tells it adds where the details are
    assert not cache.parent.exists()


def test_a_cache_that_cannot_be_is_told(spark_version: Spark, cache: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").touch()
    with pytest.raises(Failure, match=f"{tmp_path}/cache/barnabas: .*; set XDG_CACHE_HOME, or name --jars-folder"):
        connector_jars(spark_version, None, {}, tmp_path / "log")


def test_a_folder_of_jars_is_used_as_it_is(spark_version: Spark, tmp_path: Path) -> None:
    assert {jar.name for jar in connector_jars(spark_version, None, {}, tmp_path / "log")} == {
        jar.name for jar in JARS.glob("*.jar")
    }
    folder = tmp_path / "jars"
    shutil.copytree(JARS, folder)
    (folder / "unrelated.jar").touch()
    assert len(connector_jars(spark_version, str(folder), {}, tmp_path / "log")) == 4


@pytest.mark.parametrize("what", ["no whole", "several"])
def test_a_folder_that_lacks_a_jar_or_has_it_twice_is_told(spark_version: Spark, tmp_path: Path, what: str) -> None:
    folder = tmp_path / "jars"
    shutil.copytree(JARS, folder)
    clients = next(folder.glob("kafka-clients-*.jar"))
    if what == "several":
        shutil.copy(clients, folder / "kafka-clients-0.8.jar")
    else:
        clients.write_bytes(clients.read_bytes()[:1000])
    with pytest.raises(Failure, match=f"there is {what} kafka-clients-.* in {folder}: Spark .* needs exactly one"):
        connector_jars(spark_version, str(folder), {}, tmp_path / "log")


def test_another_spark_than_pyspark_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    with pytest.raises(Failure, match=f"there is no Spark in {tmp_path}: unset SPARK_HOME"):
        installed_spark()
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-core_2.12-3.3.4.jar").touch()
    with pytest.raises(Failure, match=r"SPARK_HOME is Spark 3.3.4, but PySpark .* is installed: unset SPARK_HOME"):
        installed_spark()
