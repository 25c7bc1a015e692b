"""Whether anybody listens where the clusters are, before Spark starts."""

import socket
from collections.abc import Iterator

import pytest

from barnabas.pipelines import audit, mirror
from barnabas.pipelines.shared.failure import Failure
from barnabas.pipelines.shared.spark.reach import require_brokers

NOBODY = "127.0.0.1:1"


@pytest.fixture
def somebody() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def test_one_server_that_accepts_a_connection_is_enough(somebody: str) -> None:
    require_brokers({"--bootstrap-servers": f"{NOBODY}, PLAINTEXT://{somebody}"})


@pytest.mark.parametrize("address", ["", "x", "-", "host:port", "127.0.0.1:70000"])
def test_what_is_no_address_is_left_to_kafkas_client(address: str) -> None:
    require_brokers({"--bootstrap-servers": address})


@pytest.mark.parametrize(
    ("addresses", "why"),
    [
        (NOBODY, "connection refused"),
        (f"{NOBODY},127.0.0.1:2", "connection refused"),  # told once
        ("[::ffff:127.0.0.1]:1", "connection refused"),
        ("nobody.invalid:9092", "host nobody.invalid is unknown"),
    ],
)
def test_where_nobody_listens_one_line_says_what_to_do(somebody: str, addresses: str, why: str) -> None:
    with pytest.raises(Failure) as failure:
        require_brokers({"--bootstrap-servers": somebody, "--target-bootstrap-servers": addresses})
    assert str(failure.value) == (
        f"{addresses}: the brokers do not answer ({why}): start one (`barnabas start`), or name others with "
        "--target-bootstrap-servers"
    )


def test_no_job_waits_for_spark_to_find_out(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["-b", NOBODY, "--topic", "a", "--target-bootstrap-servers", "b:1", "--checkpoint", "c"]
    assert mirror.main(words) == 1
    assert capsys.readouterr().err.startswith(f"barnabas pipeline mirror: {NOBODY}: the brokers do not answer (")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("-b a:1", {"--bootstrap-servers": "a:1"}),
        ("-b a:1 --kafka bootstrap.servers=b:1", {"--bootstrap-servers": "b:1"}),  # as Kafka's client will have it
        ("-b a:1 --copy-bootstrap-servers b:1", {"--bootstrap-servers": "a:1", "--copy-bootstrap-servers": "b:1"}),
        ("-b a:1 --archive x", {}),
        ("-b a:1 --archive x --copy-topic t", {"--bootstrap-servers": "a:1"}),
        ("-b a:1 --archive x --copy-bootstrap-servers b:1", {"--copy-bootstrap-servers": "b:1"}),
        ("-b a:1 --archive x --copy-archive y", {}),
    ],
)
def test_an_audit_asks_only_for_clusters_that_it_reads(words: str, expected: dict[str, str]) -> None:
    assert audit.servers(audit.make_parser().parse_args(["--topic", "t", *words.split()])) == expected
