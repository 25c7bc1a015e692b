"""What the figures depend on besides the brokers, for the report; and whether there is room to measure."""

import os
import platform
import resource
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from statistics import median

from benchmarks import network
from benchmarks.systems import output


def described(folder: Path, own_network: bool) -> dict[str, str]:
    return {
        "cpu": _first_value("/proc/cpuinfo", "model name"),
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 1e9:.1f} GB",
        "kernel": f"{platform.system()} {platform.release()}",
        "TCP congestion control": network.SAME_FOR_BOTH if own_network else _unequal(),
        "disk": output("findmnt", "-no", "SOURCE,FSTYPE", "-T", str(folder)) or "unknown",
        "one fdatasync of 4 KB": f"{_fdatasync_ms(folder):.2f} ms",  # no broker acknowledges faster than its disk
        "librdkafka": _librdkafka(),
        "compiler": output("gcc", "--version").partition("\n")[0],
        "load average at the start": " ".join(f"{value:.1f}" for value in os.getloadavg()),
    }


def _unequal() -> str:
    """Returns the congestion control of each: the system's holds for loopback, too, unless a program chooses
    another."""
    found = network.congestion_control()
    return found if found == network.SAME else f"{found}; {network.SAME} where Barnabas sends"


def _fdatasync_ms(folder: Path) -> float:
    """Measures the median fdatasync of a file that grows, as a log does."""
    waits = []
    with tempfile.TemporaryFile(dir=folder) as file:
        for _ in range(50):
            file.write(bytes(4096))
            file.flush()
            started = time.perf_counter()
            os.fdatasync(file.fileno())
            waits.append(time.perf_counter() - started)
    return median(waits) * 1000


def _first_value(path: str, key: str) -> str:
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        lines = []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(key)), "unknown")


def _librdkafka() -> str:
    probe = "#include <librdkafka/rdkafka.h>\nversion RD_KAFKA_VERSION\n"
    found = subprocess.run(["gcc", "-E", "-x", "c", "-"], input=probe, capture_output=True, text=True).stdout.split()
    number = int(found[-1], 16) if found and found[-1].startswith("0x") else 0
    return f"{number >> 24}.{number >> 16 & 255}.{number >> 8 & 255}"


def lacking_space(folder: Path, needed_bytes: float) -> str | None:
    free = shutil.disk_usage(folder).free
    if free >= needed_bytes:
        return None
    return f"{folder} has {free / 1e9:.1f} GB free and {needed_bytes / 1e9:.0f} GB are needed; --folder names another"


def allow_open_files() -> None:
    """Raises the limit of open files: the generator and both brokers inherit it, and ten thousand partitions need
    it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
