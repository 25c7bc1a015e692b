"""What an ACL can allow: operations on resources, numbered as on the wire. They are plain numbers, because every start
needs them and enumerations are slow to create.

Nothing is enforced so far: every principal may do everything, and clients that ask get that answer.
"""

from collections.abc import Iterable


class AclOperation:
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


class AclResource:
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5


Access = tuple[int, int]
"""One operation on one kind of resource."""


def _bits(operations: Iterable[int]) -> int:
    return sum(1 << operation for operation in operations)


_OF_TOPICS = (
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.CREATE,
    AclOperation.DELETE,
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
)
_OF_GROUPS = (
    AclOperation.READ,
    AclOperation.DELETE,
    AclOperation.DESCRIBE,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
)
_OF_THE_CLUSTER = (
    AclOperation.CREATE,
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
    AclOperation.CLUSTER_ACTION,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
    AclOperation.IDEMPOTENT_WRITE,
)

ALL_TOPIC_OPERATIONS = _bits(_OF_TOPICS)
"""What a client may do with a topic, as a bit field: everything that there is."""
ALL_GROUP_OPERATIONS = _bits(_OF_GROUPS)
ALL_CLUSTER_OPERATIONS = _bits(_OF_THE_CLUSTER)
OPERATIONS_NOT_ASKED_FOR = -(2**31)
"""The value of such a bit field for a client that did not ask for it."""
