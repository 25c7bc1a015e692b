"""The line of JSON that the file `quorum-state` consists of, as Kafka writes and reads it.

Version 1 holds numbers and a directory id, and is written and read here without the module json, which would take a
tenth of a start. Whatever looks different from what Kafka writes is left to that module.
"""

from barnabas.protocol.errors import KafkaStorageError
from barnabas.protocol.stored.quorum_state import QuorumStateData, Voter
from barnabas.protocol.types import uuid_of_text, uuid_text

_VERSION = "data_version"
_NAMES = ['"leaderId"', '"leaderEpoch"', '"votedId"', '"votedDirectoryId"', f'"{_VERSION}"']


def quorum_state_text(data: QuorumStateData, version: int) -> str:
    if version == 1:
        return (
            f'{{"leaderId":{data.leader_id},"leaderEpoch":{data.leader_epoch},"votedId":{data.voted_id},'
            f'"votedDirectoryId":"{uuid_text(data.voted_directory_id)}","{_VERSION}":1}}'
        )
    import json

    voters = data.current_voters
    values = {
        "clusterId": data.cluster_id,
        "leaderId": data.leader_id,
        "leaderEpoch": data.leader_epoch,
        "votedId": data.voted_id,
        "appliedOffset": data.applied_offset,
        "currentVoters": None if voters is None else [{"voterId": voter.voter_id} for voter in voters],
        _VERSION: version,
    }
    return json.dumps(values, separators=(",", ":"))


def _as_kafka_writes_it(text: str) -> QuorumStateData | None:
    """Returns the state of a line of version 1; None if it is of any other form."""
    pairs = [pair.split(":") for pair in text[1:-1].split(",")]
    if text[:1] + text[-1:] != "{}" or [pair[0] for pair in pairs] != _NAMES or any(len(pair) != 2 for pair in pairs):
        return None
    leader_id, leader_epoch, voted_id, directory_id, version = (pair[1] for pair in pairs)
    is_plain = all(number.removeprefix("-").isdecimal() for number in (leader_id, leader_epoch, voted_id))
    if not is_plain or version != "1" or directory_id[:1] + directory_id[-1:] != '""':
        return None
    return QuorumStateData(
        leader_id=int(leader_id),
        leader_epoch=int(leader_epoch),
        voted_id=int(voted_id),
        voted_directory_id=uuid_of_text(directory_id[1:-1]),
    )


def quorum_state_of_text(text: str) -> QuorumStateData:
    """Returns the state. Raises KafkaStorageError if it is unreadable: without its vote a node must not take part."""
    try:
        if (found := _as_kafka_writes_it(text)) is not None:
            return found
        import json

        values = json.loads(text)
        if values[_VERSION] not in QuorumStateData.__versions__:  # type: ignore[attr-defined]
            raise ValueError(f"version {values[_VERSION]}")
        common = {
            "leader_id": values["leaderId"],
            "leader_epoch": values["leaderEpoch"],
            "voted_id": values["votedId"],
        }
        if values[_VERSION] == 1:
            return QuorumStateData(**common, voted_directory_id=uuid_of_text(values["votedDirectoryId"]))
        voters = values["currentVoters"]
        return QuorumStateData(
            **common,
            cluster_id=values["clusterId"],
            applied_offset=values["appliedOffset"],
            current_voters=None if voters is None else [Voter(voter_id=voter["voterId"]) for voter in voters],
        )
    except (ValueError, KeyError, TypeError) as error:
        raise KafkaStorageError(f"quorum-state cannot be read: {error}") from error
