"""The image, built and run by a real Docker daemon; skipped with the reason where none is to be had.

On a build machine too: whether a daemon can run at all is up to the machine, not to this project. What the image runs
is tested without one beside this file.
"""

import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from testcontainers.core.config import ConnectionMode, testcontainers_config

from barnabas.base.network import Address
from barnabas.client.client import Client
from barnabas.client.errors import Unreachable
from barnabas.testing import BarnabasContainer
from tests.container.base_image import OF_THIS_MACHINE, PUBLIC, ROOT, WHEELS, has_public_base, make_base
from tests.container.compose import APACHE_KAFKA, on_ports
from tests.container.docker_engine import Docker, NoDocker, docker_engine
from tests.container.test_entry_point import free_ports

IMAGE = "barnabas-test"
ANSWER_S_MAX = 20


@pytest.fixture(scope="module")
def docker() -> Iterator[Docker]:
    try:
        with docker_engine() as docker:
            yield docker
    except NoDocker as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def image(docker: Docker, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Built as a user builds it, if without a registry on another base and offline."""
    words = ["build", "--tag", IMAGE]
    if has_public_base(docker):
        docker(*words, "--build-arg", f"BASE={PUBLIC}", str(ROOT), timeout_s=300)
        return IMAGE
    folder = tmp_path_factory.mktemp("context")
    try:
        make_base(docker, folder)
    except NoDocker as error:
        pytest.skip(str(error))
    copy_context(folder)
    arguments = (f"BASE={OF_THIS_MACHINE}", "PIP_OPTIONS=--no-index --find-links wheels")
    docker(*words, *(f"--build-arg={argument}" for argument in arguments), str(folder), timeout_s=300)
    return IMAGE


def copy_context(folder: Path) -> None:
    """What .dockerignore lets through, and the wheels."""
    ignore = ROOT / ".dockerignore"
    names = [line[1:] for line in ignore.read_text().splitlines() if line.startswith("!")]
    for name in ("Dockerfile", *names):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, symlinks=True)
        else:
            shutil.copy2(ROOT / name, folder / name)
    shutil.copytree(WHEELS, folder / "wheels")
    (folder / ".dockerignore").write_text(ignore.read_text().replace("*\n", "*\n!wheels\n", 1))


@contextmanager
def container(docker: Docker, *words: str) -> Iterator[str]:
    name = docker("run", "--detach", *words)
    try:
        yield name
    finally:
        docker("rm", "--force", "--volumes", name)


def variables(environment: dict[str, str]) -> list[str]:
    return [f"--env={name}={value}" for name, value in environment.items()]


def published(port: int) -> list[str]:
    return ["--publish", f"127.0.0.1:{port}:{port}"]


def wait_for_an_answer(docker: Docker, name: str, port: int) -> Address:
    """The address that the broker advertises."""
    deadline = time.monotonic() + ANSWER_S_MAX
    while True:
        try:
            with Client([Address("127.0.0.1", port)], timeout_s=5) as client:
                return client.metadata(()).brokers[1]
        except Unreachable as error:
            if time.monotonic() > deadline:
                log = docker.attempt("logs", name)
                pytest.fail(f"{error}\n{log.stdout}{log.stderr}", pytrace=False)
        time.sleep(0.01)


def send(bootstrap_servers: str, value: bytes) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap_servers)
    producer.send("orders", value, partition=0).get(30)
    producer.close()


def read(bootstrap_servers: str, count: int) -> list[bytes]:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap_servers, consumer_timeout_ms=30_000)
    consumer.assign([TopicPartition("orders", 0)])
    consumer.seek_to_beginning()
    values = [next(consumer).value for _ in range(count)]
    consumer.close()
    return values


def test_the_image_is_small_and_its_user_is_not_root(
    docker: Docker, image: str, record_property: Callable[[str, object], None]
) -> None:
    about = json.loads(docker("image", "inspect", image))[0]
    base = json.loads(docker("image", "inspect", PUBLIC if has_public_base(docker) else OF_THIS_MACHINE))[0]
    record_property("image_mb", about["Size"] // 1_000_000)
    record_property("image_mb_without_base", (about["Size"] - base["Size"]) // 1_000_000)
    assert about["Size"] - base["Size"] < 100_000_000
    assert about["Config"]["User"] == "1000"
    assert "9092/tcp" in about["Config"]["ExposedPorts"]
    assert "/var/lib/kafka/data" in about["Config"]["Volumes"]


def test_a_compose_file_for_kafka_works_with_this_image(docker: Docker, image: str) -> None:
    """One listener for the host, one for other containers, which find the broker by its name; and it gets healthy."""
    external, internal = free_ports(2)
    environment = variables(on_ports(APACHE_KAFKA, external, internal))
    network = docker("network", "create", "barnabas-test")
    try:
        words = ["--network", network, "--network-alias", "broker", *published(external), *environment, image]
        with container(docker, *words) as name:
            assert wait_for_an_answer(docker, name, external) == Address("localhost", external)
            send(f"localhost:{external}", b"from the host")
            inside = ("run", "--rm", "--network", network, image)
            listed = docker(*inside, "topics", "list", "--bootstrap-servers", f"broker:{internal}", "--json")
            assert "orders" in listed
            wait_for_health(docker, name)
    finally:
        docker("network", "rm", network)


def wait_for_health(docker: Docker, name: str) -> None:
    deadline = time.monotonic() + 60
    while (status := docker("inspect", "--format", "{{.State.Health.Status}}", name)) != "healthy":
        log = docker("inspect", "--format", "{{json .State.Health.Log}}", name)
        assert status == "starting", log
        assert time.monotonic() < deadline, log
        time.sleep(0.2)


def test_what_was_stored_outlives_the_container(
    docker: Docker, image: str, record_property: Callable[[str, object], None]
) -> None:
    (port,) = free_ports(1)
    volume = docker("volume", "create")
    words = ["--volume", f"{volume}:/var/lib/kafka/data", *published(port)]
    words += ["--env", f"KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://127.0.0.1:{port}", image]
    try:
        began = time.monotonic()
        with container(docker, *words) as name:
            wait_for_an_answer(docker, name, port)
            record_property("run_to_first_answer_ms", round((time.monotonic() - began) * 1000))
            record_property("ready", docker("logs", name))
            send(f"127.0.0.1:{port}", b"first")
            began = time.monotonic()
            docker("stop", name)
            assert time.monotonic() - began < 8, "Docker had to kill it"
            assert docker("inspect", "--format", "{{.State.ExitCode}}", name) == "0"
        with container(docker, *words) as name:
            wait_for_an_answer(docker, name, port)
            send(f"127.0.0.1:{port}", b"second")
            assert read(f"127.0.0.1:{port}", 2) == [b"first", b"second"]
            assert "cut " not in docker.attempt("logs", name).stderr, "the stop was not clean"
    finally:
        docker("volume", "rm", volume)


def test_a_mounted_file_is_read_and_a_user_of_ones_own_will_do(docker: Docker, image: str, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    tmp_path.chmod(0o755)  # the user below is not the one who runs the tests
    (tmp_path / "server.properties").write_text(f"listeners=PLAINTEXT://:{port}\nnum.partitions=7\nnode.id=1\n")
    words = ["--volume", f"{tmp_path}:/mnt/shared/config:ro", "--user", "12345:0", "--read-only", *published(port)]
    words += ["--env", "KAFKA_NUM_PARTITIONS=3", image, "--log-format", "json"]
    with container(docker, *words) as name:
        wait_for_an_answer(docker, name, port)
        with Client([Address("127.0.0.1", port)]) as client:
            assert len(client.topic("orders", auto_create=True).partitions) == 3
        log = docker.attempt("logs", name).stderr
        assert all(json.loads(line)["level"] for line in log.splitlines())


def test_what_cannot_work_is_one_line_and_no_loop(docker: Docker, image: str, tmp_path: Path) -> None:
    done = docker.attempt("run", "--rm", "--env", "KAFKA_LISTENERS=SSL://:9092", image)
    assert done.returncode == 1
    assert "only PLAINTEXT is supported so far" in done.stderr
    tmp_path.chmod(0o700)
    done = docker.attempt("run", "--rm", "--volume", f"{tmp_path}:/mnt/shared/config:ro", "--user", "12345:0", image)
    assert done.returncode == 1
    assert "cannot read /mnt/shared/config/server.properties" in done.stderr


# ---- under testcontainers


@pytest.fixture
def at_this_daemon(docker: Docker, monkeypatch: pytest.MonkeyPatch) -> None:
    if docker.is_of_our_own:
        monkeypatch.setenv("DOCKER_HOST", docker.environment["DOCKER_HOST"])
        # Its ports are on this machine's loopback, also if this machine is a container.
        monkeypatch.setattr(testcontainers_config, "connection_mode_override", ConnectionMode.docker_host)
    monkeypatch.setattr(testcontainers_config, "ryuk_disabled", True)  # a container more, which would have to be pulled


@pytest.mark.usefixtures("at_this_daemon")
def test_a_container_for_tests_is_reached_under_the_port_that_docker_chose(
    docker: Docker, image: str, record_property: Callable[[str, object], None]
) -> None:
    began = time.monotonic()
    with BarnabasContainer(image).with_kraft().with_cluster_id("4L6g3nShT-eMCtK--X86sw") as kafka:
        record_property("start_ms", round((time.monotonic() - began) * 1000))
        bootstrap_servers = kafka.get_bootstrap_server()
        send(bootstrap_servers, b"hello")
        assert read(bootstrap_servers, 1) == [b"hello"]
        host, _, port = bootstrap_servers.rpartition(":")
        with Client([Address(host, int(port))]) as client:
            cluster = client.metadata(())
        assert cluster.brokers == {1: Address(host, int(port))}
        assert cluster.cluster_id == "4L6g3nShT-eMCtK--X86sw"
        name = kafka.get_wrapped_container().id
    assert docker.attempt("inspect", name).returncode != 0, "it is gone"


@pytest.mark.usefixtures("at_this_daemon")
def test_a_container_for_tests_takes_settings_and_a_port(image: str) -> None:
    with BarnabasContainer(image, port=7000, env={"KAFKA_NUM_PARTITIONS": "5"}) as kafka:
        host, _, port = kafka.get_bootstrap_server().rpartition(":")
        assert port == str(kafka.get_exposed_port(7000))
        with Client([Address(host, int(port))]) as client:
            assert len(client.topic("orders", auto_create=True).partitions) == 5


@pytest.mark.usefixtures("at_this_daemon")
def test_a_container_that_does_not_start_says_why_and_is_removed(docker: Docker, image: str) -> None:
    kafka = BarnabasContainer(image).with_env("KAFKA_NUM_PARTITIONS", "none")
    with pytest.raises(RuntimeError, match=r"num\.partitions"), kafka:
        pass
    assert docker("ps", "--all", "--quiet", "--filter", f"ancestor={image}") == ""
