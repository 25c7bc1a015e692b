"""A broker behind a proxy that lies as told, as a system that the harness can measure."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchmarks import generator
from benchmarks.bench import Bench
from benchmarks.systems import Barnabas
from tests.lying import lies
from tests.lying.proxy import Lie, LyingProxy


@pytest.fixture(scope="session")
def program() -> Path:
    """The load generator. Where it cannot be built there is nothing to test; on a build machine that is a failure."""
    reason = generator.missing()
    if reason and os.environ.get("CI"):
        pytest.fail(reason, pytrace=False)
    if reason:
        pytest.skip(reason)
    return generator.build()


class LyingBroker(Barnabas):
    name = "liar"
    lie: Lie

    def start(self) -> float:
        self.proxy = LyingProxy(type(self).lie)
        self.settings = {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.proxy.port}"}
        seconds = super().start()
        self.proxy.start(self.port)
        self.addresses = [f"127.0.0.1:{self.proxy.port}"]
        return seconds

    def kill(self) -> None:
        super().kill()
        self.proxy.close()


def liar(lie: Lie) -> type[LyingBroker]:
    return type("Liar", (LyingBroker,), {"lie": staticmethod(lie)})


@pytest.fixture(scope="module")
def lying_broker(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LyingBroker]:
    system = liar(lies.none)(tmp_path_factory.mktemp("liar") / "broker", {})
    system.start()
    yield system
    system.kill()


@pytest.fixture
def bench_behind(lying_broker: LyingBroker, program: Path, tmp_path: Path) -> Callable[[Lie], Bench]:
    """The same broker for all tests; its topics keep them apart."""

    def make(lie: Lie) -> Bench:
        lying_broker.proxy.tell(lie)
        return Bench(lying_broker, program, tmp_path, scale=1, topic_prefix=tmp_path.name)

    return make
