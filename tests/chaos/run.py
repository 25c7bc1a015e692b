"""A run from its beginning to its end: brokers, clients, faults, healing, the reading back, the comparing.

After the last fault all is mended. Then, within bounds that only a defect breaks, all brokers must be there, all
replicas in sync, and every client served; everything is read back twice; the brokers stop, and their replicas are
compared.
"""

from collections import Counter
from collections.abc import Callable
from secrets import token_hex

from barnabas.client.admin import EARLIEST, LATEST, create_topic, list_offsets
from barnabas.output import plural
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.verification.events import Begin, Bounds
from barnabas.verification.findings import Kind
from barnabas.verification.history import line_of
from barnabas.verification.judge import Verdict
from barnabas.verification.recording.tape import now_ms
from barnabas.verification.report import sentence
from tests.chaos.clients.given import Given
from tests.chaos.clients_of_run import ClientProcess, Clients, Offsets
from tests.chaos.cluster import READY_S, Cluster
from tests.chaos.faults.plan import Plan
from tests.chaos.faults.storm import Storm
from tests.chaos.faults.targets import GROUPS, PARTITIONS, TABLE, TABLE_PARTITIONS, TOPIC, TRANSACTIONS
from tests.chaos.judging.history import merged, table_lines, verdict_of
from tests.chaos.judging.new_epochs import Copies, copies_in, offsets_of_new_epochs
from tests.chaos.judging.replicas import Replica, differences
from tests.chaos.judging.table import Place, Table, table_of
from tests.chaos.outcome import Outcome
from tests.chaos.systems import System
from tests.chaos.world import BROKERS, World

TRANSACTIONAL = "transactions"
FIRST_ANSWERS_S = 180.0
IN_SYNC_S = 120.0
SERVED_S = 90.0
SILENCE_S = 60.0
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "2000",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "1000",
}
APPENDED = {TOPIC: GROUPS, TRANSACTIONS: (TRANSACTIONAL,)}
"""The topics that are not compacted, and their clients: each has a history of its own."""
INTERNAL = ("__consumer_offsets", "__transaction_state")
SAID_OF_A_KIND = 5


class Run:
    def __init__(self, plan: Plan, system: System, world: World, tell: Callable[[str], None]) -> None:
        self._plan = plan
        self._system = system
        self._world = world
        self._tell = tell
        self.cluster = Cluster(system, world)
        self.storm = Storm(plan, self.cluster, tell)
        self._id = token_hex(8)
        self._found: list[tuple[str, str]] = []
        self._begins: dict[str, str] = {}
        self._compared = 0
        self._copies = Copies(0, 0)
        self._sent_again: set[Place] = set()

    def execute(self, rate: float, left_out: str) -> Outcome:
        """Makes the run, and returns what came of it."""
        self._system.prepare()
        self.cluster.start()
        self._create_topics()
        clients = Clients([])
        try:
            for topic, names in APPENDED.items():
                for number, name in enumerate(names):
                    given = self._given(topic, number, rate / len(GROUPS))
                    clients.processes.append(ClientProcess(name, given, self._world))
            self._wait_for_all(clients, FIRST_ANSWERS_S, "not-served", "before anything went wrong")
            self._tell("all clients are served; the faults begin")
            self.storm.rage(lambda: self._look(clients))
            self._require_health(clients)
            bounds = self._read_all(clients)
        finally:
            clients.end()
        self._compare_replicas()
        return self._outcome(clients, bounds, left_out)

    def _given(self, topic: str, number: int, rate: float) -> Given:
        topics = topic, PARTITIONS, TABLE, TABLE_PARTITIONS
        return Given(self.cluster.bootstrap, self._id, *topics, number, rate, SILENCE_S)

    def _create_topics(self) -> None:
        with self.cluster.client(timeout_s=30) as client:
            plain: dict[str, str] = {}
            wanted = [*((topic, PARTITIONS, plain) for topic in APPENDED), (TABLE, TABLE_PARTITIONS, COMPACTED)]
            for name, partitions, configs in wanted:
                try:
                    create_topic(client, name, partitions, len(BROKERS), configs)
                except KafkaError as error:
                    if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                        raise
        self.cluster.wait_until(lambda: bool(self._ends(*APPENDED, TABLE)), READY_S, "all topics are there")
        for topic in APPENDED:
            begin = Begin(now_ms(), self._id, topic, [0] * PARTITIONS, "all", True, False)
            self._begins[topic] = line_of(begin)

    def _look(self, clients: Clients) -> None:
        clients.check()

    def counts(self, clients: Clients) -> str:
        return f"{clients.count('acknowledged'):,} records acknowledged"

    # ---- afterwards

    def _require_health(self, clients: Clients) -> None:
        """Waits until all is as before, and notes what is not within its bound."""
        missing: list[str] = []

        def is_in_sync() -> bool:
            with self.cluster.client() as client:
                cluster = client.metadata(None)
            missing[:] = [
                f"{name}-{partition.partition_index} has {','.join(map(str, partition.isr)) or 'nobody'} in sync"
                for name, topic in cluster.topics.items()
                for partition in topic.partitions
                if len(partition.isr) < len(BROKERS)
            ]
            return len(cluster.brokers) == len(BROKERS) and not missing

        if self.cluster.wait_until(is_in_sync, IN_SYNC_S, "all replicas are in sync"):
            self._tell("all replicas are in sync")
        else:
            said = "; ".join(missing) or "a broker is missing"
            self._found.append(("not-in-sync", f"{IN_SYNC_S:.0f} s after everything was mended: {said}"))
        self._wait_for_all(clients, SERVED_S, "not-served", "after everything was mended")

    def _wait_for_all(self, clients: Clients, within_s: float, slug: str, when: str) -> None:
        before = [dict(process.counts) for process in clients.processes]

        def are_served() -> bool:
            clients.check()
            return not clients.behind(before)

        if not self.cluster.wait_until(are_served, within_s, "all clients are served"):
            late = ", ".join(clients.behind(before))
            self._found.append((slug, f"{within_s:.0f} s {when} nothing was acknowledged to, or read by: {late}"))

    def _read_all(self, clients: Clients) -> dict[str, list[str]]:
        """Lets everybody read to the end, and one client of each topic read it back. Returns the events of the
        bounds."""
        clients.ask("quiet", 3 * SILENCE_S)
        ends = self._ends(*APPENDED, TABLE)
        clients.ask("finish", 10 * SILENCE_S, ends)
        self._tell("everything was read; reading it back")
        readers = Clients([clients.named(names[0]) for names in APPENDED.values()])
        readers.ask("read-back", 10 * SILENCE_S, ends)
        with self.cluster.client(timeout_s=30) as client:
            starts = {topic: list_offsets(client, client.topic(topic), EARLIEST) for topic in APPENDED}
        return {
            topic: [line_of(Bounds(now_ms(), index, starts[topic][index], end)) for index, end in ends[topic].items()]
            for topic in APPENDED
        }

    def _ends(self, *topics: str) -> Offsets:
        with self.cluster.client(timeout_s=SILENCE_S) as client:
            return {name: list_offsets(client, client.topic(name), LATEST) for name in topics}

    def _compare_replicas(self) -> None:
        ends = self._ends(*APPENDED, TABLE, *INTERNAL)
        self.cluster.stop()
        for topic, by_partition in ends.items():
            for index, end in by_partition.items():
                folders = [Replica(each, self._system.log_dir(each) / f"{topic}-{index}") for each in BROKERS]
                found = differences(folders, end, is_compacted=topic not in APPENDED)
                self._found += [("replicas-differ", said) for said in found]
                self._compared += 1
                self._look_for_copies(topic, index, end)
        self._tell(f"the replicas of {plural(self._compared, 'partition')} were compared")

    def _look_for_copies(self, topic: str, index: int, end: int) -> None:
        folders = [self._system.log_dir(each) / f"{topic}-{index}" for each in BROKERS]
        if topic in APPENDED:
            found = copies_in(folders[0], end)
            self._copies = Copies(*(one + more for one, more in zip(self._copies, found)))
        elif topic == TABLE:
            self._sent_again |= {Place(index, offset) for offset in offsets_of_new_epochs(folders, end)}

    # ---- judging

    def _outcome(self, clients: Clients, bounds: dict[str, list[str]], left_out: str) -> Outcome:
        verdicts = {
            topic: verdict_of(self._begins[topic], merged(clients.journals(names)), bounds[topic])
            for topic, names in APPENDED.items()
        }
        table = table_of(table_lines(merged(clients.journals(GROUPS))))
        anomalies: dict[str, int] = {}
        said: list[str] = []
        for topic, verdict in verdicts.items():
            for kind in self._kinds_in(topic, verdict):
                anomalies[kind.slug] = anomalies.get(kind.slug, 0) + verdict.findings.counts[kind]
                examples = verdict.anomalies[kind][:SAID_OF_A_KIND]
                said += [f"{kind.slug}: {topic}: {sentence(each)}" for each in examples]
        for slug, text in [*self._found, *self.cluster.found, *table.findings(self._sent_again), *self._bugs()]:
            anomalies[slug] = anomalies.get(slug, 0) + 1
            if anomalies[slug] <= SAID_OF_A_KIND:
                said.append(f"{slug}: {text}")
        plan = self._plan
        return Outcome(
            self._system.name,
            plan.seed,
            plan.seconds,
            self.storm.faults,
            self._counts(verdicts, table),
            anomalies,
            said,
            dict(sum((Counter(verdict.errors) for verdict in verdicts.values()), Counter())),
            left_out,
        )

    def _kinds_in(self, topic: str, verdict: Verdict) -> list[Kind]:
        """Returns what is wrong with a topic. What a producer has sent again in a new epoch may be there twice, but not
        in transactions."""
        kinds = [kind for kind in Kind if kind in verdict.anomalies]
        may_be_twice = topic == TOPIC and not self._copies.in_one_epoch
        return [kind for kind in kinds if not (may_be_twice and kind is Kind.DUPLICATE)]

    def _bugs(self) -> list[tuple[str, str]]:
        return [
            ("bug", f"broker {node.node_id} says: {line}")
            for node in self.cluster.nodes.values()
            for line in self._system.bugs_in(node.log.read_text(errors="replace"))
        ]

    def _counts(self, verdicts: dict[str, Verdict], table: Table) -> dict[str, int]:
        """Returns how much there was of everything. What was sent, acknowledged and read is that of all topics."""
        counts = [verdict.counts for verdict in verdicts.values()]
        transactions = verdicts[TRANSACTIONS].counts.transactions
        return {
            "starts of brokers": sum(node.starts for node in self.cluster.nodes.values()),
            "sent": sum(each.sent for each in counts),
            "acknowledged": sum(each.acknowledged for each in counts),
            "may be stored or not": sum(each.unknown for each in counts),
            "read": sum(each.read for each in counts),
            "commits": sum(each.commits for each in counts),
            "assignments": sum(each.assignments for each in counts),
            **{f"transactions {end}": count for end, count in transactions.items()},
            "acknowledged in the compacted topic": table.acknowledged,
            "removed by compaction": table.compacted(),
            "there again in a new epoch of their producer": self._copies.in_new_epochs,
            "partitions compared": self._compared,
        }
