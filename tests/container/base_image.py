"""The image that ours is built on: python:3.13-slim where a registry answers, else one made of this machine's Debian.

The second holds the files of the installed packages that Python and a shell need. Nothing is downloaded for it: the
wheels that pip installs come from .cache, where `make setup` puts them.
"""

import os
import re
import subprocess
import tarfile
from pathlib import Path

from tests.container.docker_engine import Docker, NoDocker

ROOT = Path(__file__).resolve().parent.parent.parent
WHEELS = ROOT / ".cache" / "wheels-of-image"
PUBLIC = "python:3.13-slim"
OF_THIS_MACHINE = "barnabas-test-base"
PULL_S_MAX = 120

_PACKAGES = ("base-files", "bash", "coreutils", "dash", "libc-bin", "python3-venv")
_GENERATED = ("etc/ld.so.cache", "etc/ssl/certs/ca-certificates.crt")


def has_public_base(docker: Docker) -> bool:
    if docker.attempt("image", "inspect", PUBLIC).returncode == 0:
        return True
    try:
        return docker.attempt("pull", "--quiet", PUBLIC, timeout_s=PULL_S_MAX).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def make_base(docker: Docker, folder: Path) -> None:
    """Imports the image; raises NoDocker where this machine is not made for it."""
    if not Path("/var/lib/dpkg/status").is_file():
        raise NoDocker(f"{PUBLIC} cannot be pulled, and this machine is no Debian to make a base of")
    if not WHEELS.is_dir():
        raise NoDocker(f"{PUBLIC} cannot be pulled, and there are no wheels in .cache: `make setup` fetches them")
    archive = folder / "base.tar"
    with tarfile.open(archive, "w") as tar:
        for path in _files(_closure(_PACKAGES)):
            tar.add(path, path.lstrip("/"), recursive=False)
    docker("import", str(archive), OF_THIS_MACHINE, timeout_s=120)
    archive.unlink()


def _closure(packages: tuple[str, ...]) -> set[str]:
    """The packages and all that they depend on, of those that are installed."""
    depends, providers = _installed()
    missing = [name for name in packages if name not in depends]
    if missing:
        raise NoDocker(f"a base image would need the packages {', '.join(missing)}")
    found: set[str] = set()
    waiting = list(packages)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        for alternatives in depends[name]:
            waiting += [providers[word] for word in alternatives if word in providers][:1]
    return found


def _installed() -> tuple[dict[str, list[list[str]]], dict[str, str]]:
    """What each installed package depends on, as lists of alternatives; and which package provides each name."""
    fields = "${db:Status-Status}\t${Package}\t${Provides}\t${Pre-Depends}, ${Depends}\n"
    listed = subprocess.run(["dpkg-query", "-W", "-f", fields], capture_output=True, text=True, check=True).stdout
    depends: dict[str, list[list[str]]] = {}
    providers: dict[str, str] = {}
    for line in listed.splitlines():
        status, package, provides, wanted = line.split("\t")
        if status == "installed":
            depends[package] = [_names(part.split("|")) for part in wanted.split(",") if part.strip()]
            providers |= dict.fromkeys(_names(provides.split(",")), package) | {package: package}
    return depends, providers


def _names(parts: list[str]) -> list[str]:
    return [match[1] for part in parts if (match := re.match(r"\s*([a-z0-9][a-z0-9.+-]*)", part))]


def _files(packages: set[str]) -> list[str]:
    """Every file once, under its real name: /bin is a link to /usr/bin since Debian merged them."""
    listed = subprocess.run(["dpkg-query", "-L", *packages], capture_output=True, text=True, check=True).stdout
    paths = {line for line in listed.splitlines() if line.startswith("/") and os.path.lexists(line)}
    paths |= {f"/{name}" for name in (*_GENERATED, "bin", "lib", "lib64", "sbin")}
    real = {os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path)) for path in paths}
    real = {os.path.normpath(path) for path in real} - {"/"}
    without = ("/usr/share/doc/", "/usr/share/man/", "/usr/share/locale/", "/usr/share/info/")
    return sorted(path for path in real if os.path.lexists(path) and not path.startswith(without))
