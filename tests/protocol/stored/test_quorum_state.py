import pytest

from barnabas.protocol.errors import KafkaStorageError
from barnabas.protocol.stored.quorum_state import QuorumStateData, Voter
from barnabas.protocol.stored.quorum_state_json import quorum_state_of_text, quorum_state_text


@pytest.mark.parametrize(
    ("data", "version", "text"),
    [
        (
            QuorumStateData(leader_id=-1, leader_epoch=7, voted_id=3, voted_directory_id=bytes(15) + b"\x01"),
            1,
            '{"leaderId":-1,"leaderEpoch":7,"votedId":3,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAQ","data_version":1}',
        ),
        (
            QuorumStateData(leader_id=1, leader_epoch=2, current_voters=[Voter(voter_id=1), Voter(voter_id=2)]),
            0,
            '{"clusterId":"","leaderId":1,"leaderEpoch":2,"votedId":-1,"appliedOffset":0,'
            '"currentVoters":[{"voterId":1},{"voterId":2}],"data_version":0}',
        ),
    ],
)
def test_the_file_reads_like_kafkas(data: QuorumStateData, version: int, text: str) -> None:
    assert quorum_state_text(data, version) == text
    assert quorum_state_of_text(text) == data


def test_json_of_another_form_says_the_same() -> None:
    text = (
        '{"data_version": 1, "votedDirectoryId": "AAAAAAAAAAAAAAAAAAAAAQ", "votedId": 3, "leaderEpoch": 7, '
        '"leaderId": -1, "later": ["unknown"]}\n'
    )
    known = QuorumStateData(leader_id=-1, leader_epoch=7, voted_id=3, voted_directory_id=bytes(15) + b"\x01")
    assert quorum_state_of_text(text) == known


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        '{"data_version":2}',
        '{"data_version":1,"leaderId":1}',
        '{"leaderId":,"leaderEpoch":,"votedId":,"votedDirectoryId":,"data_version":1}',
        '{"leaderId":1,"leaderEpoch":2,"votedId":3,"votedDirectoryId":"AAAA","data_version":1}',
        '{"leaderId":1,"leaderEpoch":2,"votedId":3,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAQ","data_version":1',
    ],
)
def test_a_file_that_cannot_be_understood_is_refused(text: str) -> None:
    with pytest.raises(KafkaStorageError):
        quorum_state_of_text(text)
