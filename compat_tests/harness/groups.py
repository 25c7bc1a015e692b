"""Groups in tests: members of any client in any of the drivers, and waiting until they agree."""

import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from compat_tests.harness.clients import CLIENTS, Client, taking_part
from compat_tests.harness.driver import Driver, Record
from compat_tests.harness.features import Feature

AGREE_SECONDS = 30  # on a machine that does much else; whoever leaves without a word is missed only after that
PARTITIONS = 6

CLASSIC: dict[str, Any] = {"session.timeout.ms": 45_000, "heartbeat.interval.ms": 150}
NEW_PROTOCOL: dict[str, Any] = {"group.protocol": "consumer"}


class Kind(NamedTuple):
    """A client, and how it takes part in a group."""

    client: str
    settings: dict[str, Any]

    @property
    def may_repeat(self) -> bool:
        """Records that it has read, when a partition moves."""
        in_new_protocol = self.settings.get("group.protocol") == "consumer"
        return in_new_protocol and any(client.repeats for client in CLIENTS if client.name == self.client)


def classic(client: str, strategy: str, **more: Any) -> Kind:
    return Kind(client, {**CLASSIC, "partition.assignment.strategy": strategy, **more})


def new_protocol(client: str, assignor: str = "uniform") -> Kind:
    return Kind(client, {**NEW_PROTOCOL, "group.remote.assignor": assignor})


def kind_of(client: Client, feature: Feature) -> Kind:
    """Returns the client with its first assignor, in the protocol that the feature is about."""
    if feature.consumer_protocol:
        return new_protocol(client.name, client.remote_assignors[0])
    return classic(client.name, client.assignors[0])


def kinds(*features: Feature) -> dict[str, Kind]:
    """Returns every client in every protocol that it is not left out of, by names for tests."""
    return {
        f"{client.name} consumer protocol" if feature.consumer_protocol else client.name: kind_of(client, feature)
        for feature in features
        for client in taking_part(feature)
    }


def lives(client: Client) -> dict[str, Kind]:
    """Returns every way in which a client can be a member, by names for tests."""
    old = {f"{client.name} {assignor}": classic(client.name, assignor) for assignor in client.assignors}
    new = {
        f"{client.name} consumer protocol {name}": new_protocol(client.name, name) for name in client.remote_assignors
    }
    return {**old, **new}


class Member:
    def __init__(self, driver: Driver, group: "Group", name: str) -> None:
        self.driver = driver
        self.group = group
        self.name = name

    def state(self) -> dict[str, Any]:
        state: dict[str, Any] = self.driver.ask("member_states", members=[self.name])["states"][self.name]
        return state

    def partitions(self) -> list[list[Any]]:
        partitions: list[list[Any]] = self.state()["assignment"]
        return partitions

    def leave(self) -> dict[str, Any]:
        """Closes the consumer; its last state."""
        return self.group.leave(self)[0]

    def commit(self, *offsets: dict[str, Any], asynchronous: bool = False) -> None:
        self.driver.ask("commit", member=self.name, offsets=list(offsets), asynchronous=asynchronous)

    def committed(self, *partitions: tuple[str, int]) -> list[dict[str, Any] | None]:
        committed: list[dict[str, Any] | None] = self.driver.ask(
            "committed", member=self.name, partitions=list(partitions)
        )["committed"]
        return committed


class Group:
    """One group id and the members that a test gave it."""

    def __init__(self, driver_of: Callable[[str], Driver], name: str) -> None:
        self.driver_of = driver_of
        self.name = name
        self.members: list[Member] = []
        self.left: list[dict[str, Any]] = []
        self.made = 0
        self.may_repeat = False

    def join(
        self,
        kind: Kind,
        topics: str | list[str] | None = None,
        *,
        pattern: str | None = None,
        broker_matches: bool = False,
        assign: list[tuple[str, int]] | None = None,
        commits: bool = True,
        driver: Driver | None = None,
        settings: dict[str, Any] | None = None,
    ) -> Member:
        self.made += 1
        self.may_repeat |= kind.may_repeat
        member = Member(driver or self.driver_of(kind.client), self, f"{self.name}-{self.made}")
        member.driver.ask(
            "join",
            member=member.name,
            group=self.name,
            settings={**kind.settings, **(settings or {})},
            topics=[topics] if isinstance(topics, str) else topics,
            pattern=pattern,
            broker_matches=broker_matches,
            assign=assign,
            commits=commits,
        )
        self.members.append(member)
        return member

    def states(self) -> list[dict[str, Any]]:
        """Returns the states of the members that are still there, in the order in which they joined."""
        found: dict[str, dict[str, Any]] = {}
        for driver, names in by_driver(self.members).items():
            found |= driver.ask("member_states", members=names)["states"]
        return [found[member.name] for member in self.members]

    def read(self) -> list[tuple[str, int, int]]:
        """Returns every record that any member saw, as often as it was seen."""
        return sorted(tuple(record) for state in (*self.states(), *self.left) for record in state["records"])

    def wait_until_shared(self, *topics: str, partitions: int = PARTITIONS) -> list[dict[str, Any]]:
        """Waits until every partition has exactly one owner and no member has two more than another."""
        wanted = sorted([topic, partition] for topic in topics for partition in range(partitions))

        def shared() -> list[dict[str, Any]] | None:
            states = self.states()
            owned = sorted(partition for state in states for partition in state["assignment"])
            sizes = [len(state["assignment"]) for state in states]
            return states if owned == wanted and max(sizes) - min(sizes) <= 1 else None

        states: list[dict[str, Any]] = self._wait(shared, f"{len(self.members)} members share {topics}")
        return states

    def wait_until_settled(self, *topics: str) -> list[dict[str, Any]]:
        """Waits until the partitions are shared and every member that says its generation is in the same one.

        In the consumer protocol a member has given up partitions before it hears of the epoch that took them."""

        def settled() -> list[dict[str, Any]] | None:
            states = self.wait_until_shared(*topics)
            return states if len({state["generation"] for state in states} - {None}) <= 1 else None

        states: list[dict[str, Any]] = self._wait(settled, f"{len(self.members)} members are in one generation")
        return states

    def wait_until_read(self, records: Iterable[tuple[str, int, int]]) -> None:
        """Waits until the records were seen, every one exactly once; at least once, if a member may repeat some."""
        wanted = Counter(records)

        def seen() -> Counter[tuple[str, int, int]]:
            return Counter(set(self.read()) if self.may_repeat else self.read())

        self._wait(lambda: seen().total() >= wanted.total(), f"{wanted.total()} records are read")
        read = seen()
        assert read == wanted, f"read too often: {sorted(read - wanted)}, not at all: {sorted(wanted - read)}"

    def _wait(self, condition: Callable[[], Any], what: str) -> Any:
        return eventually(condition, what, self.states)

    def committed(self, admin: Driver) -> dict[tuple[str, int], int]:
        offsets = admin.ask("group_offsets", group=self.name)["offsets"]
        return {(offset["topic"], offset["partition"]): offset["offset"] for offset in offsets}

    def wait_until_committed(self, admin: Driver, offsets: dict[tuple[str, int], int]) -> None:
        eventually(lambda: self.committed(admin) == offsets, "everything is committed", lambda: self.committed(admin))

    def kill(self, member: Member) -> None:
        """Kills the process of a member; what it read counts."""
        self.left.append(member.state())
        self.members.remove(member)
        member.driver.kill()

    def leave(self, *members: Member) -> list[dict[str, Any]]:
        """Lets these members leave, or all; returns their last states."""
        states = []
        for driver, names in by_driver(members or self.members).items():
            states += driver.ask("leave", members=names)["states"].values()
        self.members = [member for member in self.members if members and member not in members]
        self.left += states
        return states


def by_driver(members: Iterable[Member]) -> dict[Driver, list[str]]:
    names: dict[Driver, list[str]] = {}
    for member in members:
        names.setdefault(member.driver, []).append(member.name)
    return names


def eventually(
    condition: Callable[[], Any],
    what: str,
    tell: Callable[[], Any] = lambda: "",
    *,
    seconds: float = AGREE_SECONDS,
) -> Any:
    """Returns what the condition returned when it became true."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}\n{tell()}"
        time.sleep(0.05)
    return found


class Topic:
    """A topic whose records are numbered by their offsets."""

    def __init__(self, writer: Driver, name: str, partitions: int = PARTITIONS) -> None:
        self.writer = writer
        self.name = name
        self.partitions = partitions
        self.written: list[tuple[str, int, int]] = []
        self.rounds = 0
        writer.ask("create_topic", topic=name, partitions=partitions, configs={})

    def ends(self) -> dict[tuple[str, int], int]:
        return {(self.name, partition): self.rounds for partition in range(self.partitions)}

    def write(self, per_partition: int = 5) -> list[tuple[str, int, int]]:
        """Writes as many more records to every partition, and returns them."""
        offsets = [self.rounds + number for number in range(per_partition)]
        self.rounds += per_partition
        new = [(self.name, partition, offset) for partition in range(self.partitions) for offset in offsets]
        records = [Record(value=b"%d" % offset, partition=partition) for _, partition, offset in new]
        self.writer.produce(self.name, records)
        self.written += new
        return new


def live(group: Group, kind: Kind, topic: Topic) -> None:
    """Runs two members, a third, one less, then none; and one that goes on where they stopped. Nothing is read
    twice."""
    topic.write()
    first, _ = group.join(kind, topic.name), group.join(kind, topic.name)
    group.wait_until_shared(topic.name)
    group.wait_until_read(topic.written)

    group.join(kind, topic.name)
    group.wait_until_shared(topic.name)
    topic.write()
    group.wait_until_read(topic.written)

    first.leave()
    group.wait_until_shared(topic.name)
    topic.write()
    group.wait_until_read(topic.written)

    group.leave()
    topic.write()
    group.join(kind, topic.name)
    group.wait_until_read(topic.written)
