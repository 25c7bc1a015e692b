"""The jars of Spark's Kafka source and sink, which PySpark does not ship.

They are resolved once for each PySpark version by Spark itself, as `--packages` would, and kept in a cache folder:
later runs need no network and do not wait for Ivy. A cache folder appears whole or not at all.
"""

import os
import re
import shutil
import tempfile
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pyspark

from barnabas.pipelines.shared.failure import Failure
from barnabas.pipelines.shared.progress import say
from barnabas.pipelines.shared.spark import gateway

JARS_VARIABLE = "BARNABAS_SPARK_JARS"


class Spark(NamedTuple):
    """The Spark that will be started."""

    home: Path
    version: str
    scala_version: str

    @property
    def connector(self) -> str:
        """Returns the name that `--packages` takes."""
        return f"org.apache.spark:spark-sql-kafka-0-10_{self.scala_version}:{self.version}"

    @property
    def jars(self) -> tuple[str, ...]:
        """Returns patterns of the four jars; whatever else the connector needs is in Spark."""
        own = f"_{self.scala_version}-{self.version}.jar"
        return (
            f"spark-sql-kafka-0-10{own}",
            f"spark-token-provider-kafka-0-10{own}",
            "kafka-clients-[0-9]*.jar",
            "commons-pool2-[0-9]*.jar",
        )


def installed_spark() -> Spark:
    home = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    cores = [re.fullmatch(r"spark-core_([\d.]+)-(.+)\.jar", jar.name) for jar in home.glob("jars/spark-core_*.jar")]
    if len(cores) != 1 or cores[0] is None:
        raise Failure(f"there is no Spark in {home}: unset SPARK_HOME, or point it to one")
    spark = Spark(home, version=cores[0][2], scala_version=cores[0][1])
    if spark.version != pyspark.__version__:
        raise Failure(
            f"SPARK_HOME is Spark {spark.version}, but PySpark {pyspark.__version__} is installed: "
            f"unset SPARK_HOME, or pip install pyspark=={spark.version}"
        )
    return spark


def connector_jars(spark: Spark, folder: str | None, conf: Mapping[str, str], log_file: Path) -> list[Path]:
    """Returns jars from the folder that the user named, or from the cache, which is filled first if need be."""
    if given := folder or os.environ.get(JARS_VARIABLE):
        return _jars_in(Path(given), spark)
    cache = cache_folder() / f"pyspark-{spark.version}"
    if not _is_whole(cache, spark):
        _fetch(spark, cache, conf, log_file)
    return _jars_in(cache, spark)


def cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "barnabas"


def _jars_in(folder: Path, spark: Spark) -> list[Path]:
    found = []
    for pattern in spark.jars:
        jars = [jar for jar in folder.glob(f"*{pattern}") if zipfile.is_zipfile(jar)]
        if len(jars) != 1:
            what = "several" if jars else "no whole"
            raise Failure(f"there is {what} {pattern} in {folder}: Spark {spark.version} needs exactly one")
        found.append(jars[0].resolve())
    return found


def _fetch(spark: Spark, cache: Path, conf: Mapping[str, str], log_file: Path) -> None:
    say(f"downloading Spark's Kafka connector {spark.version}, this once")
    try:
        cache.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Failure(f"{cache.parent}: {error.strerror}; set XDG_CACHE_HOME, or name --jars-folder") from error
    try:
        with tempfile.TemporaryDirectory(prefix=f"{cache.name}.part-", dir=cache.parent) as work:
            _fill(cache, _resolve(spark, Path(work), conf, log_file), Path(work, "whole"), spark)
    finally:
        with suppress(OSError):  # not empty, as it should be
            cache.parent.rmdir()


def _fill(cache: Path, resolved: Path, half: Path, spark: Spark) -> None:
    half.mkdir()
    for jar in _jars_in(resolved, spark):
        shutil.copy(jar, half)
    if not _is_whole(cache, spark):  # somebody else may have been quicker, and uses it
        shutil.rmtree(cache, ignore_errors=True)
        try:
            half.rename(cache)
        except OSError:
            pass  # not empty: quicker by a hair


def _is_whole(folder: Path, spark: Spark) -> bool:
    try:
        return bool(_jars_in(folder, spark))
    except Failure:
        return False


def _resolve(spark: Spark, work: Path, conf: Mapping[str, str], log_file: Path) -> Path:
    """Lets Spark resolve the connector as it does for --packages, with its own mirrors if the user named any."""
    # A home of its own: Ivy looks into ~/.m2 first, and fails on poms whose jars were never fetched.
    java_options = f'"-Duser.home={work}" {conf.get("spark.driver.extraJavaOptions", "")}'  # which may name a proxy
    settings = {
        "spark.jars.ivy": str(work / "ivy"),
        "spark.driver.extraJavaOptions": java_options.strip(),
        **{key: value for key, value in conf.items() if key in ("spark.jars.repositories", "spark.jars.ivySettings")},
        "spark.jars.packages": spark.connector,
    }
    try:
        gateway.close(gateway.launch(settings, log_file))
    except Failure as error:
        raise Failure(
            f"{spark.connector} could not be downloaded ({_reason(log_file)}): run the job once with network "
            f"access, or put its jars into a folder and name it with --jars-folder or {JARS_VARIABLE}"
        ) from error
    return work / "ivy" / "jars"


def _reason(log_file: Path) -> str:
    """Returns what Ivy said: that a repository does not answer, or that none has it."""
    told = re.search(r"(Server access error at url .*)|\[(unresolved dependency: [^]]*)\]", log_file.read_text())
    return " ".join((told[1] or told[2]).split()) if told else "no repository answered"
