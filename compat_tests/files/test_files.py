"""What one broker wrote is moved into the other's data directory, and served there as it was written: both ways.

Both brokers are started here, whichever BROKER the other tests run against, each twice: once to write, once to serve
what the other wrote.
"""

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from compat_tests.brokers import Broker
from compat_tests.conftest import require
from compat_tests.differential.sides import Side
from compat_tests.files.moved_groups import GROUPS, TOPIC, consume, consumer_of, seen, write_groups
from compat_tests.files.moved_groups import SETTINGS as GROUP_SETTINGS
from compat_tests.files.moved_partitions import SETTINGS as CLEANER_SETTINGS
from compat_tests.files.moved_partitions import (
    TOPICS,
    Reading,
    Written,
    create_topics,
    epochs_in,
    read,
    records_of,
    send,
    write_partitions,
)
from compat_tests.files.sites import Site
from compat_tests.harness.clients import CLIENTS
from compat_tests.harness.driver import Driver

SETTINGS = {
    "barnabas": {**GROUP_SETTINGS, **CLEANER_SETTINGS},
    "kafka": {
        **GROUP_SETTINGS,
        **CLEANER_SETTINGS,
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "1",
    },
}
OTHER = {"kafka": "barnabas", "barnabas": "kafka"}
MOVED = [("kafka", topic) for topic in (*TOPICS, "transacted")] + [("barnabas", topic) for topic in TOPICS]
UNTOUCHED = [(source, topic) for source, topic in MOVED if topic not in ("sequences", "compacted")]
"""The topics that the other broker only reads."""
OUT_OF_ORDER_SEQUENCE_NUMBER = 45
START_MS = int(time.time() * 1000) - 12 * 3_600_000


Wrote = dict[str, tuple[dict[str, Any], Written]]
"""What each broker says of its groups, and what it wrote and read."""


class Served(NamedTuple):
    """What the other broker made of it, before it was stopped."""

    site: Site
    groups: dict[str, Any]
    readings: dict[str, Reading]
    sends: list[tuple[int, int]]
    strangers: list[Any]


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Site]:
    require(java().needs)
    folder = tmp_path_factory.mktemp("sites")
    return {name: Site(name, folder / name, settings) for name, settings in SETTINGS.items()}


def java() -> Any:
    return next(client for client in CLIENTS if client.name == "java-4.3")


@pytest.fixture(scope="module")
def written(sites: dict[str, Site]) -> Wrote:
    said = {}
    for site in sites.values():
        with site.running() as broker:
            has_transactions = site.name == "kafka"
            create_topics(broker.bootstrap)
            groups = write_groups(broker.bootstrap, with_transactions=has_transactions)
            partitions = write_partitions(broker.bootstrap, broker.port, START_MS, with_transactions=has_transactions)
            said[site.name] = groups, partitions
    return said


@pytest.fixture(scope="module")
def served(sites: dict[str, Site], written: Wrote, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Served]:
    """Returns what was served, by the broker that wrote it."""
    found = {}
    for source, target in OTHER.items():
        groups, partitions = written[source]
        site = sites[target].copy(tmp_path_factory.mktemp("moved") / target)
        site.take(sites[source], ("__consumer_offsets", *partitions.readings))
        site.take_with_its_id(sites[source], "stranger")
        with site.running() as broker:
            found[source] = serve(site, broker, partitions, len(groups["groups"]))
    return found


def serve(site: Site, broker: Broker, partitions: Written, groups: int) -> Served:
    side = Side("producer", broker.port)
    try:
        return Served(
            site,
            seen(broker.bootstrap, groups),
            {topic: read(broker.bootstrap, topic, START_MS) for topic in partitions.readings},
            [send(side, partitions.producer_id, sequence, START_MS) for sequence in (4, 99, 6)],
            records_of(broker.bootstrap, "stranger"),
        )
    finally:
        side.close()


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    driver = Driver(java(), "", tmp_path_factory.mktemp("tools") / "tools.log")
    yield driver
    driver.stop()


def dump(tools: Driver, files: list[Path], *options: str) -> str:
    """Returns what Kafka's DumpLogSegments prints, without the folder that the files are in."""
    names = ",".join(str(file) for file in files)
    done = tools.ask("tool", tool="org.apache.kafka.tools.DumpLogSegments", arguments=["--files", names, *options])
    assert done["code"] == 0, done["complained"]
    assert "mismatch" not in (done["printed"] + done["complained"]).lower()
    printed: str = done["printed"]
    return printed.replace(str(files[0].parent), "")


def files_of(site: Site, topic: str, *suffixes: str) -> list[Path]:
    (partition,) = site.partitions(topic)
    return sorted(file for file in partition.iterdir() if file.suffix in suffixes)


# ---- records


@pytest.mark.parametrize(("source", "topic"), MOVED)
def test_every_record_is_served_as_it_was_written(
    written: Wrote, served: dict[str, Served], source: str, topic: str
) -> None:
    before, after = written[source][1].readings[topic], served[source].readings[topic]
    assert len(before.records) > 5
    assert after.records == before.records
    assert after.committed == before.committed
    assert after.by_time == before.by_time


def test_only_what_was_committed_is_served_to_those_who_ask_for_that(served: dict[str, Served]) -> None:
    reading = served["kafka"].readings["transacted"]
    assert [row[3] for row in reading.committed] == [b"0", b"0", b"0", b"1", b"2", b"2", b"2"]
    assert len(reading.records) == len(reading.committed) + 2


def test_both_brokers_write_the_same(written: Wrote) -> None:
    """The same records at the same offsets, found at the same times, compacted to the same."""
    ours, kafkas = written["barnabas"][1].readings, written["kafka"][1].readings
    assert ours == {topic: kafkas[topic] for topic in ours}


@pytest.mark.parametrize("source", OTHER)
def test_an_idempotent_producer_goes_on(served: dict[str, Served], source: str) -> None:
    repeated, with_a_gap, following = served[source].sends
    assert repeated == (0, 4), "it got this offset when it was sent first"
    assert with_a_gap[0] == OUT_OF_ORDER_SEQUENCE_NUMBER
    assert following == (0, 6)


@pytest.mark.parametrize("source", OTHER)
def test_a_directory_with_another_topic_s_id_is_set_aside(served: dict[str, Served], source: str) -> None:
    assert served[source].strangers == []
    assert list(served[source].site.data_dir.glob("stranger-0.*-stray"))


def test_what_was_moved_outlives_a_kill(written: Wrote, sites: dict[str, Site], tmp_path: Path) -> None:
    """A log that was compacted elsewhere has gaps, and no checkpoint here says so."""
    readings = written["kafka"][1].readings
    site = sites["barnabas"].copy(tmp_path / "site")
    site.take(sites["kafka"], readings)
    with site.running(signal.SIGKILL) as broker:
        records_of(broker.bootstrap, "mixed")  # the others are not even opened
    with site.running() as broker:
        for topic, reading in readings.items():
            assert read(broker.bootstrap, topic, START_MS) == reading, topic


# ---- files


@pytest.mark.parametrize(("source", "topic"), UNTOUCHED)
def test_segments_that_are_only_read_stay_as_they_are(
    sites: dict[str, Site], served: dict[str, Served], source: str, topic: str
) -> None:
    before, after = files_of(sites[source], topic, ".log"), files_of(served[source].site, topic, ".log")
    assert len(before) > 1
    assert {file.name: file.read_bytes() for file in before} == {file.name: file.read_bytes() for file in after}


@pytest.mark.parametrize(("source", "topic"), MOVED)
def test_kafkas_own_tool_finds_the_same_in_both_directories(
    sites: dict[str, Site], served: dict[str, Served], tools: Driver, source: str, topic: str
) -> None:
    kinds = (".log", ".txnindex") if (source, topic) in UNTOUCHED else (".log",)
    both = [sites[source], served[source].site] if topic != "sequences" else [served[source].site]
    dumps = [dump(tools, files_of(site, topic, *kinds), "--deep-iteration", "--print-data-log") for site in both]
    assert dumps[0] == dumps[-1]
    assert "isvalid: false" not in dumps[0]


@pytest.mark.parametrize(("source", "topic"), MOVED)
def test_the_indexes_are_sane_where_they_were_written_and_where_they_were_moved(
    sites: dict[str, Site], served: dict[str, Served], tools: Driver, source: str, topic: str
) -> None:
    for site in (sites[source], served[source].site):
        indexes = files_of(site, topic, ".index", ".timeindex")
        checked = dump(tools, indexes, "--index-sanity-check")
        empty = checked.count("is empty.")  # the first batch of a segment needs no entry
        assert checked.count("passed sanity check.") == len(indexes) - empty
        assert topic != "sequences" or not empty
        dump(tools, indexes)  # every entry leads to its batch


@pytest.mark.parametrize(("source", "topic"), MOVED)
def test_leader_epochs_move_along(sites: dict[str, Site], served: dict[str, Served], source: str, topic: str) -> None:
    (before,), (after,) = sites[source].partitions(topic), served[source].site.partitions(topic)
    assert epochs_in(before)
    assert epochs_in(after)[: len(epochs_in(before))] == epochs_in(before)


@pytest.mark.parametrize("source", OTHER)
def test_producer_snapshots_are_read_by_kafkas_own_tool(
    served: dict[str, Served], written: Wrote, tools: Driver, source: str
) -> None:
    dumped = dump(tools, files_of(served[source].site, "sequences", ".snapshot")[-1:])
    assert f"producerId: {written[source][1].producer_id} producerEpoch: 0" in dumped
    assert "lastSequence: 7 lastOffset: 7" in dumped


# ---- groups


def test_both_brokers_say_the_same_about_groups_that_they_wrote(
    written: Wrote,
) -> None:
    kafka, ours = written["kafka"][0], written["barnabas"][0]
    assert set(kafka["groups"]) == set(GROUPS)
    assert ours["groups"] == {name: kafka["groups"][name] for name in ("classic", "next", "simple")}
    assert ours["offsets"] == {name: kafka["offsets"][name] for name in ("classic", "next", "simple")}
    assert kafka["offsets"]["transacted"] == {2: (20, None)}
    assert kafka["offsets"]["aborted"] == {2: (1, None)}


@pytest.mark.parametrize("source", OTHER)
def test_groups_are_served_as_they_were_written(written: Wrote, served: dict[str, Served], source: str) -> None:
    assert served[source].groups == written[source][0]


def test_a_group_goes_on_where_it_was_moved(served: dict[str, Served]) -> None:
    with (
        served["kafka"].site.running() as broker,
        consumer_of(broker.bootstrap, "next", **{"group.protocol": "consumer"}) as consumer,
    ):
        consumer.subscribe([TOPIC])
        consume(consumer, 2)  # what was not committed


def test_kafkas_own_tool_reads_the_records_of_our_groups(sites: dict[str, Site], written: Wrote, tools: Driver) -> None:
    del written  # it is there
    segments = sorted(sites["barnabas"].data_dir.glob("__consumer_offsets-*/*.log"))
    dumped = dump(tools, segments, "--offsets-decoder", "--deep-iteration")
    assert "could not be decoded" not in dumped
    for part in (
        '"group":"simple"',
        '"topic":"orders"',
        "a note of classic",
        "a note of next",
        '"protocolType":"consumer"',
    ):
        assert part in dumped, part
