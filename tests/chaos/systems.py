"""The brokers under test: how a node of each kind is prepared and started. Both get the same settings."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import ClassVar, Protocol

from tests.barnabas.processes import environment
from tests.chaos.faults.plan import Plan
from tests.chaos.world import BROKERS, World
from tests.kafka_jars import ROOT, kafka_libs

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qk"
SETTINGS = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.segment.bytes": "1048576",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.segment.bytes": "1048576",
    "log.segment.bytes": "1048576",
    "log.cleaner.backoff.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
}


class System(Protocol):
    name: str

    def __init__(self, world: World, plan: Plan) -> None: ...
    def prepare(self) -> None: ...  # once, before the first start
    def command(self, node_id: int) -> list[str]: ...
    def log_dir(self, node_id: int) -> Path: ...
    def bugs_in(self, log: str) -> list[str]: ...  # lines that say that the broker itself is wrong


class _Nodes:
    def __init__(self, world: World, plan: Plan) -> None:
        self.world = world
        self.plan = plan

    def log_dir(self, node_id: int) -> Path:
        return self.world.disk(node_id) / "data"

    def config(self, node_id: int) -> Path:
        return self.world.folder / f"server-{node_id}.properties"

    def prepare(self) -> None:
        voters = ",".join(f"{node_id}@{self.world.addresses(node_id)[1]}" for node_id in BROKERS)
        for node_id in BROKERS:
            client, controller = self.world.addresses(node_id)
            properties = (
                SETTINGS
                | dict(self.plan.settings)
                | {
                    "node.id": str(node_id),
                    "controller.quorum.voters": voters,
                    "listeners": f"PLAINTEXT://{client},CONTROLLER://{controller}",
                    "log.dirs": str(self.log_dir(node_id)),
                }
            )
            self.config(node_id).write_text("".join(f"{key}={value}\n" for key, value in properties.items()))


class Barnabas(_Nodes):
    name = "barnabas"

    def command(self, node_id: int) -> list[str]:
        module = ["tests.chaos.planted", self.plan.defect] if self.plan.defect else ["barnabas"]
        config = str(self.config(node_id))
        return [sys.executable, "-m", *module, "start", "--config", config, "--cluster-id", CLUSTER_ID]

    def bugs_in(self, log: str) -> list[str]:
        return [line for line in log.splitlines() if "a bug: " in line or line.startswith("Traceback")]


class ApacheKafka(_Nodes):
    name = "kafka"
    JVM: ClassVar = ("-Xmx768m", "-XX:+UseG1GC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true")
    LOGGING = (
        "appender.out.type=Console\nappender.out.name=out\nappender.out.layout.type=PatternLayout\n"
        "appender.out.layout.pattern=[%d] %p %m (%c)%n\nrootLogger.level=INFO\nrootLogger.appenderRef.out.ref=out\n"
    )

    def prepare(self) -> None:
        super().prepare()
        (self.world.folder / "log4j2.properties").write_text(self.LOGGING)
        for node_id in BROKERS:
            tool = self._java("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(self.config(node_id)))
            done = subprocess.run(tool, capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr

    def command(self, node_id: int) -> list[str]:
        return self._java("kafka.Kafka", str(self.config(node_id)))

    def _java(self, *words: str) -> list[str]:
        java = shutil.which("java")
        assert java is not None, "Apache Kafka needs Java 17 or later"
        logging = f"-Dlog4j2.configurationFile={self.world.folder / 'log4j2.properties'}"
        return [java, *self.JVM, "-cp", f"{kafka_libs()}/*", logging, *words]

    def bugs_in(self, log: str) -> list[str]:
        return []


SYSTEMS: dict[str, type[System]] = {"barnabas": Barnabas, "kafka": ApacheKafka}
ENVIRONMENT = environment(PYTHONPATH=str(ROOT))
