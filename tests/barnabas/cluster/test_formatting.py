"""`barnabas format`: the dirs are what Kafka's own storage tool makes of them, and nothing is formatted twice."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from barnabas.base.properties import parse_properties
from barnabas.broker.system.disk import OsFiles
from barnabas.broker.system.entropy import Entropy
from barnabas.cluster.formatting import Formatter, InitialController, NodeFormat, parse_controllers
from barnabas.options import Failure
from barnabas.replication.quorum.opening import voters_of_snapshot
from tests.barnabas.processes import broker, one_line, run
from tests.kafka_jars import run_java

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
CONTROLLERS = (
    "1@localhost:29091:AAAAAAAAAAAAAAAAAAAAAQ,"
    "2@127.0.0.1:29092:3gEB3nShTeKMCtKYAA8asA,"
    "3@h.example:29093:4gEB3nShTeKMCtKYAA8asA"
)
CHECKPOINT = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"


@pytest.fixture
def formatter() -> Formatter:
    return Formatter(OsFiles(), Entropy(), now_ms=1_700_000_000_000)


def config(path: Path, *dirs: Path, node_id: int = 1, roles: str = "broker,controller", more: str = "") -> Path:
    listeners = "PLAINTEXT://127.0.0.1:19091" + (",CONTROLLER://127.0.0.1:29091" if "controller" in roles else "")
    path.write_text(
        f"process.roles={roles}\nnode.id={node_id}\nlog.dirs={','.join(map(str, dirs))}\nlisteners={listeners}\n"
        "controller.listener.names=CONTROLLER\ncontroller.quorum.bootstrap.servers=127.0.0.1:29091\n" + more
    )
    return path


def ran(*words: str) -> tuple[int, str, str]:
    done = run("format", *words)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def files_below(path: Path) -> list[str]:
    return sorted(str(file.relative_to(path)) for file in path.rglob("*") if file.is_file())


# ---- as Kafka does it


def dumped(*paths: Path) -> list[str]:
    """What Kafka's tool shows of the files, without the moment at which they were written."""
    text = run_java("DumpMetadata.java", "\n".join(map(str, paths)))
    assert "isvalid: false" not in text
    lines = [line for line in text.splitlines() if line.startswith(("baseOffset", "|", "Snapshot"))]
    return [re.sub(r"(CreateTime: |crc: |Timestamp\":)\d+", r"\1", line) for line in lines]


@pytest.mark.parametrize(
    ("node_id", "roles", "words"),
    [
        (2, "broker,controller", ("--initial-controllers", CONTROLLERS)),
        (4, "broker", ("--initial-controllers", CONTROLLERS)),  # one that does not vote is told who does
        (4, "broker,controller", ("--no-initial-controllers",)),
        (4, "broker", ()),
    ],
)
def test_dirs_are_what_kafka_makes_of_them(tmp_path: Path, node_id: int, roles: str, words: Sequence[str]) -> None:
    ours, theirs = ([tmp_path / name / part for part in "ab"] for name in ("ours", "theirs"))
    given = ["--cluster-id", CLUSTER_ID, *words]
    status, _, err = ran(
        "--config", str(config(tmp_path / "ours.properties", *ours, node_id=node_id, roles=roles)), *given
    )
    assert status == 0, err
    path = config(tmp_path / "theirs.properties", *theirs, node_id=node_id, roles=roles)
    run_java("FormatStorage.java", "\n".join(["format", "--config", str(path), *given]))
    assert files_below(tmp_path / "ours") == files_below(tmp_path / "theirs")
    for our_dir, their_dir in zip(ours, theirs):
        our_meta, their_meta = (
            parse_properties((path / "meta.properties").read_text()) for path in (our_dir, their_dir)
        )
        if not (our_dir / CHECKPOINT).exists() or node_id == 4:
            assert our_meta.pop("directory.id") != their_meta.pop("directory.id")  # both drew one
        assert our_meta == their_meta
        if (our_dir / CHECKPOINT).exists():
            assert dumped(our_dir / CHECKPOINT) == dumped(their_dir / CHECKPOINT)


def test_kafka_reads_the_first_records_of_a_new_cluster(tmp_path: Path, formatter: Formatter) -> None:
    formatter.format(NodeFormat(CLUSTER_ID, 1), [str(tmp_path)])
    payloads = [line.partition("payload: ")[2] for line in dumped(tmp_path / "bootstrap.checkpoint")]
    assert (
        '{"type":"FEATURE_LEVEL_RECORD","version":0,"data":{"name":"metadata.version","featureLevel":30}}' in payloads
    )


# ---- what they say


def test_the_snapshot_names_the_voters(tmp_path: Path, formatter: Formatter) -> None:
    controllers = parse_controllers(CONTROLLERS)
    formatter.format(NodeFormat(CLUSTER_ID, 2, controllers), [str(tmp_path)])
    found = voters_of_snapshot((tmp_path / CHECKPOINT).read_bytes())
    assert found is not None
    assert found.kraft_version == 1
    assert [
        InitialController(voter.key.node_id, *voter.addresses[0][1:], voter.key.directory_id) for voter in found.voters
    ] == [*controllers]
    meta = formatter.read(str(tmp_path))
    assert meta is not None
    assert (meta.node_id, meta.directory_id) == (2, controllers[1].directory_id)


def test_controllers_are_written_as_they_are_read() -> None:
    text = CONTROLLERS + ",4@[::1]:29094:5gEB3nShTeKMCtKYAA8asA"
    controllers = parse_controllers(text)
    assert controllers[3].host == "::1"
    assert ",".join(map(str, controllers)) == text


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("1@h:1", "must be ID@HOST:PORT:DIRECTORY-ID"),
        ("x@h:1:AAAAAAAAAAAAAAAAAAAAAQ", "must be ID@HOST:PORT:DIRECTORY-ID"),
        ("1@h:70000:AAAAAAAAAAAAAAAAAAAAAQ", "must be ID@HOST:PORT:DIRECTORY-ID"),
        ("1@h:1:short", "'short' is not a directory id"),
        ("1@h:1:AAAAAAAAAAAAAAAAAAAAAQ,1@h:2:AAAAAAAAAAAAAAAAAAAAAg", "names a node twice"),
    ],
)
def test_controllers_that_make_no_sense_are_refused(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=re.escape(complaint)):
        parse_controllers(text)


# ---- once


def test_a_formatted_dir_is_refused_with_the_remedy(tmp_path: Path, formatter: Formatter) -> None:
    formatter.format(NodeFormat(CLUSTER_ID, 1), [str(tmp_path / "a")])
    with pytest.raises(Failure, match="is formatted already, for node 1") as refused:
        formatter.format(NodeFormat(CLUSTER_ID, 1), [str(tmp_path / "b"), str(tmp_path / "a")])
    assert "--ignore-formatted" in refused.value.hint
    assert not (tmp_path / "b").exists()  # nothing was changed in any
    new = formatter.format(NodeFormat(CLUSTER_ID, 1), [str(tmp_path / "b"), str(tmp_path / "a")], ignore_formatted=True)
    assert new == [str(tmp_path / "b")]


@pytest.mark.parametrize("other", [NodeFormat(CLUSTER_ID, 2), NodeFormat("another", 1)])
def test_a_dir_of_another_node_is_never_ignored(tmp_path: Path, formatter: Formatter, other: NodeFormat) -> None:
    formatter.format(NodeFormat(CLUSTER_ID, 1), [str(tmp_path)])
    with pytest.raises(Failure, match="belongs to node 1 of cluster"):
        formatter.format(other, [str(tmp_path)], ignore_formatted=True)


# ---- the command


def test_a_node_that_was_formatted_alone_starts(tmp_path: Path) -> None:
    path = config(tmp_path / "server.properties", tmp_path / "data")
    status, out, err = ran("--config", str(path), "--standalone")
    assert (status, err) == (0, "")
    said = re.fullmatch(rf"formatted {tmp_path}/data for node 1 of cluster (\S{{22}})\n", out)
    assert said is not None
    status, _, err = ran("--config", str(path), "--standalone")
    assert status == 1
    assert "is formatted already" in err
    assert one_line(err)
    assert ran("--config", str(path), "--standalone", "--ignore-formatted")[0] == 0
    with broker("--data-dir", str(tmp_path / "data"), "--port", "0"):
        pass
    meta = parse_properties((tmp_path / "data" / "meta.properties").read_text())
    assert meta["cluster.id"] == said[1]


@pytest.mark.parametrize(
    ("roles", "more", "words", "status", "complaint"),
    [
        ("broker,controller", "", (), 1, "give one of --standalone"),
        ("broker,controller", "", ("--standalone", "--no-initial-controllers"), 2, "exclude each other"),
        ("broker", "", ("--standalone",), 1, "--standalone is for a controller"),
        (
            "broker,controller",
            "controller.quorum.voters=1@127.0.0.1:29091\n",
            ("--standalone",),
            1,
            "remove it and set controller.quorum.bootstrap.servers",
        ),
        ("broker", "node.id=one\n", (), 1, "node.id"),
        ("broker", "", ("--initial-controllers", "1"), 2, "must be ID@HOST:PORT:DIRECTORY-ID"),
    ],
)
def test_what_cannot_be_formatted_is_one_line(
    tmp_path: Path, roles: str, more: str, words: Sequence[str], status: int, complaint: str
) -> None:
    path = config(tmp_path / "server.properties", tmp_path / "data", roles=roles, more=more)
    found, _, err = ran("--config", str(path), *words)
    assert found == status
    assert complaint in err
    assert one_line(err)
    assert not (tmp_path / "data").exists()


def test_an_id_is_printed_for_those_who_need_one_first() -> None:
    status, out, _ = ran("--new-id")
    assert status == 0
    assert parse_controllers(f"1@host:1:{out.strip()}")
