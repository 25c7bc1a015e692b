"""What to do about an error, where there is something to do."""

from barnabas.protocol.errors import ErrorCode

_HINTS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "`barnabas topics list` shows the topics there are",
    ErrorCode.TOPIC_ALREADY_EXISTS: "`barnabas topics alter` changes one that exists",
    ErrorCode.INVALID_REPLICATION_FACTOR: "a topic has at most as many replicas as the cluster has brokers",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "a name has 1 to 249 letters, digits, dots, dashes and underscores",
    ErrorCode.INVALID_PARTITIONS: "the number of partitions can only grow",
    ErrorCode.INVALID_CONFIG: "`barnabas configs describe --all --topic TOPIC` (or --broker ID) lists the keys",
    ErrorCode.MESSAGE_TOO_LARGE: "raise the limit: barnabas configs alter --topic TOPIC --set max.message.bytes=N",
    ErrorCode.RECORD_LIST_TOO_LARGE: "raise the topic's segment.bytes",
    ErrorCode.NOT_ENOUGH_REPLICAS: "fewer replicas are in sync than min.insync.replicas asks for",
    ErrorCode.LEADER_NOT_AVAILABLE: "is a broker down? `barnabas topics describe` shows where the replicas are",
    ErrorCode.BROKER_NOT_AVAILABLE: "is that broker running?",
    ErrorCode.KAFKA_STORAGE_ERROR: "the broker's disk failed or is full: its log says more",
    ErrorCode.UNSUPPORTED_VERSION: "the broker is too old or too new for this command",
    ErrorCode.GROUP_ID_NOT_FOUND: "`barnabas groups list` shows the groups there are",
    ErrorCode.NON_EMPTY_GROUP: "stop them first; one that died or has a group.instance.id leaves when its session ends",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "stop the members that subscribe to the topic first",
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "the broker still reads its groups: try again, with a longer --timeout",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "is a broker down? `barnabas topics describe __consumer_offsets` says more",
    ErrorCode.UNSTABLE_OFFSET_COMMIT: "an open transaction holds offsets back: `barnabas groups lag` says which one",
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "`barnabas transactions list` shows the transactional ids there are",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "you are not allowed to",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "you are not allowed to",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "you are not allowed to",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "you are not allowed to",
}


def hint_for(code: ErrorCode) -> str:
    return _HINTS.get(code, "")
