from barnabas.protocol.stored.control_records import KRaftVersionRecord, LeaderChangeMessage, Voter
from barnabas.replication.metadata.batches import value_batch
from barnabas.replication.quorum.batches import control_batch, read_batches
from tests.replication.quorum.cores import voter_set


def test_control_records_come_back_as_they_were() -> None:
    voters = [Voter(voter_id=1), Voter(voter_id=2)]
    records = [
        LeaderChangeMessage(version=0, leader_id=1, voters=voters, granting_voters=voters),
        KRaftVersionRecord(version=0, kraft_version=1),
        voter_set(1, 2).record(),
    ]
    (batch,) = read_batches(control_batch(records, now_ms=5))
    assert (batch.base_offset, batch.end_offset, list(batch.control)) == (0, 3, records)


def test_batches_of_metadata_are_not_looked_into() -> None:
    data = value_batch([b"a", b"b"], now_ms=5, epoch=2) + value_batch([b"c"], now_ms=5, base_offset=2, epoch=3)
    found = [(batch.base_offset, batch.end_offset, batch.epoch, batch.control) for batch in read_batches(data)]
    assert found == [(0, 2, 2, ()), (2, 3, 3, ())]
    assert read_batches(None) == []
