"""What a job needs on this machine before Spark can start: PySpark and Java. Imports neither."""

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

from barnabas.pipelines.shared.failure import Failure

PYSPARK_MIN = (3, 5)
JAVA_MIN = 17


def require_pyspark() -> None:
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise Failure("PySpark is not installed: pip install 'barnabas[spark]'")
    written = Path(found.origin).with_name("version.py").read_text()
    version = re.search(r"""__version__[^"']*["']((\d+)\.(\d+)[^"']*)["']""", written)
    if version is None or (int(version[2]), int(version[3])) < PYSPARK_MIN:
        told = version[1] if version else "of an unknown version"
        raise Failure(f"PySpark {told} is too old, 3.5 is the oldest that works: pip install 'barnabas[spark]'")


def require_java() -> None:
    """Checks the Java that Spark's own scripts will start: JAVA_HOME's, or the one on the path."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else "java"
    what_to_do = f"install a JDK {JAVA_MIN} or later (Debian: openjdk-17-jre-headless), or point JAVA_HOME to one"
    if shutil.which(java) is None:
        missing = f"JAVA_HOME is {home}, where there is no bin/java" if home else "there is no java on the path"
        raise Failure(f"{missing}: {what_to_do}")
    told = subprocess.run([java, "-version"], capture_output=True, text=True).stderr
    version = re.search(r'version "(?:1\.)?(\d+)', told)
    if version is None:
        raise Failure(f"{java} does not say which version it is: {what_to_do}")
    if int(version[1]) < JAVA_MIN:
        raise Failure(f"{java} is Java {version[1]}, Spark's jobs need Java {JAVA_MIN} or later: {what_to_do}")
