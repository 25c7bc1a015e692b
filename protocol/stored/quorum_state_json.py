"""The line of JSON that the file `quorum-state` consists of, as Kafka writes and reads it."""

import json
from typing import Any

from barnabas.protocol.errors import KafkaStorageError
from barnabas.protocol.stored.quorum_state import QuorumStateData, Voter
from barnabas.protocol.types import uuid_of_text, uuid_text

_VERSION = "data_version"


def quorum_state_text(data: QuorumStateData, version: int) -> str:
    values: dict[str, Any] = {}
    if version == 0:
        values["clusterId"] = data.cluster_id
    values |= {"leaderId": data.leader_id, "leaderEpoch": data.leader_epoch, "votedId": data.voted_id}
    if version == 0:
        voters = data.current_voters
        values["appliedOffset"] = data.applied_offset
        values["currentVoters"] = None if voters is None else [{"voterId": voter.voter_id} for voter in voters]
    else:
        values["votedDirectoryId"] = uuid_text(data.voted_directory_id)
    return json.dumps({**values, _VERSION: version}, separators=(",", ":"))


def quorum_state_of_text(text: str) -> QuorumStateData:
    """Returns the state. Raises KafkaStorageError if it is unreadable: without its vote a node must not take part."""
    try:
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
