"""What the page of docs/ calls the things that are tested: a row each, and the tests that count in it.

clients.py says which client is left out of which row, and why.
"""

from functools import cache
from typing import NamedTuple


class Feature(NamedTuple):
    title: str
    tests: tuple[str, ...]  # folders, files, or files and functions
    column: str = ""  # of the README's table; several features may share one
    consumer_protocol: bool | None = None  # None: whichever protocol a group speaks

    def in_the_consumer_protocol(self) -> "Feature":
        """Returns the same tests for groups that speak the protocol of KIP-848."""
        return Feature(f"{self.title}, KIP-848", self.tests, NEW_GROUPS if self.column == GROUPS else self.column, True)


def of_groups(title: str, *tests: str, column: str = "") -> tuple[Feature, Feature]:
    """Returns a row for each protocol."""
    classic = Feature(title, tests, column or GROUPS, False)
    return classic, classic.in_the_consumer_protocol()


PRODUCER, CONSUMER, GROUPS, NEW_GROUPS, EXACTLY_ONCE, ADMIN, RESTARTS = COLUMNS = (
    "produce", "consume", "groups", "groups (KIP-848)", "transactions", "admin", "broker restarts",
)  # fmt: skip

# Producers
RECORDS = Feature("Records: keys, headers, timestamps, five compressions", ("test_records.py",), PRODUCER)
ACKS = Feature("Every acks, and 1 byte to 10 MB", ("test_producers.py",), PRODUCER)
IDEMPOTENCE = Feature(
    "Idempotent producer", ("test_producers.py::test_an_idempotent_producer_gets_consecutive_offsets",), PRODUCER
)
BATCHES = Feature("Batches: none, the largest, the broker's clock", ("test_batches.py",), PRODUCER)
MANY_RECORDS = Feature("Batches of many records", ("test_batches.py::test_many_small_records_share_batches",), PRODUCER)
CREATION = Feature("Topics that create themselves, and that do not", ("test_topic_creation.py",), PRODUCER)
WAITING_FOR_TOPICS = Feature(
    "Members that wait for a topic",
    ("test_topic_creation.py::test_members_that_wait_for_a_topic_read_it_when_it_comes",),
    GROUPS,
)

# Consumers
OFFSETS = Feature("Offsets by place and by time, seek", ("test_offsets.py",), CONSUMER)
MANY_OFFSETS = Feature(
    "Offsets of several partitions at once",
    ("test_offsets.py::test_the_offsets_of_several_partitions_are_found_in_one_question",),
    CONSUMER,
)
PAUSE = Feature(
    "Pause and resume",
    ("test_consumers.py::test_nothing_comes_from_paused_partitions_until_they_are_resumed",),
    CONSUMER,
)
RESETS = Feature("From the end, and after offsets out of range", ("test_consumers.py",), CONSUMER)
OUT_OF_RANGE = Feature(
    "Offsets out of range as errors",
    ("test_consumers.py::test_an_offset_that_is_not_there_is_an_error_where_no_reset_is_wanted",),
    CONSUMER,
)

# Groups
LIFE, NEW_LIFE = of_groups("Groups: members come and go", "groups/test_groups.py", "groups/test_groups_java.py")
MIGRATION = Feature(
    "Groups move between the protocols",
    ("groups/test_group_mixtures.py::test_a_group_moves_to_the_consumer_protocol_and_back_member_by_member",),
    NEW_GROUPS,
)
STATIC, NEW_STATIC = of_groups(
    "Static members", "groups/test_group_members.py::test_a_static_member_comes_back_without_disturbing_the_others"
)
KILLED, NEW_KILLED = of_groups(
    "Killed members", "groups/test_group_members.py::test_the_partitions_of_a_killed_member_move_when_its_session_ends"
)
PATTERNS, NEW_PATTERNS = of_groups(
    "Subscription by pattern", "groups/test_group_members.py::test_a_pattern_finds_the_topics_that_match_it"
)
BROKER_PATTERNS = Feature(
    "Patterns that the broker matches, KIP-848",
    ("groups/test_group_members.py::test_a_pattern_that_the_broker_matches_finds_them_too",),
    NEW_GROUPS,
)
COMMITS, NEW_COMMITS = of_groups(
    "Commits of members", "groups/test_group_offsets.py::test_a_member_commits_in_both_ways_and_the_next_one_goes_on"
)
LONE_COMMITS = Feature("Commits without a subscription", ("groups/test_group_offsets.py",), GROUPS)

# Transactions
TRANSACTIONS = Feature(
    "Transactions: commit, abort, isolation, fencing, timeout",
    ("transactions/test_transactions.py", "transactions/test_transactions_java.py"),
    EXACTLY_ONCE,
)
TRANSACTIONS_GO_ON = Feature(
    "Transactions after a batch that was refused",
    ("transactions/test_transactions.py::test_a_producer_goes_on_after_a_batch_that_was_refused",),
    EXACTLY_ONCE,
)
TRANSACTIONAL_OFFSETS = Feature(
    "Offsets committed with a transaction",
    ("transactions/test_transactions.py::test_offsets_are_committed_with_their_transaction",),
    EXACTLY_ONCE,
)
COPIES = Feature(
    "Consume, transform, produce",
    ("transactions/test_transactions.py::test_a_copy_is_exact_although_some_transactions_are_aborted",),
    EXACTLY_ONCE,
)

# Administration
TOPICS = Feature("Topics, their configuration, records, the cluster", ("test_admin.py", "test_cluster.py"), ADMIN)
WATCHING_GROUPS = Feature("Groups listed and described, and their offsets", ("groups/test_group_admin.py",), ADMIN)
WATCHING_NEW_GROUPS = Feature(
    "Groups of KIP-848 described",
    ("groups/test_group_admin.py::test_a_group_of_the_consumer_protocol_is_described_with_its_members",),
    ADMIN,
)
ALTERING_OFFSETS = Feature(
    "Offsets of groups altered",
    ("groups/test_group_admin.py::test_the_offsets_of_a_group_are_altered_while_nobody_is_in_it",),
    ADMIN,
)
DELETING_OFFSETS = Feature(
    "Offsets of groups deleted",
    ("groups/test_group_admin.py::test_offsets_are_deleted_for_topics_that_nobody_reads",),
    ADMIN,
)
DELETING_GROUPS = Feature(
    "Groups deleted", ("groups/test_group_admin.py::test_a_group_is_deleted_when_its_last_member_has_left",), ADMIN
)

# Restarts
GROUPS_GO_ON, NEW_GROUPS_GO_ON = of_groups(
    "Restarts: groups go on",
    "groups/test_group_restarts.py::test_members_go_on_with_their_partitions_in_the_same_generation",
    column=RESTARTS,
)
TRANSACTIONS_SURVIVE = Feature(
    "Restarts: in the middle of a transaction", ("transactions/test_transaction_restarts.py",), RESTARTS
)
CLIENTS_GO_ON = Feature("Restarts: producers and consumers go on", ("test_reconnect.py",), RESTARTS)

CLIENT_FEATURES = (
    *(RECORDS, ACKS, IDEMPOTENCE, BATCHES, MANY_RECORDS, CREATION),
    *(OFFSETS, MANY_OFFSETS, PAUSE, RESETS, OUT_OF_RANGE),
    *(LIFE, STATIC, KILLED, PATTERNS, COMMITS, LONE_COMMITS, WAITING_FOR_TOPICS),
    *(NEW_LIFE, MIGRATION, NEW_STATIC, NEW_KILLED, NEW_PATTERNS, BROKER_PATTERNS, NEW_COMMITS),
    *(TRANSACTIONS, TRANSACTIONS_GO_ON, TRANSACTIONAL_OFFSETS, COPIES),
    *(TOPICS, WATCHING_GROUPS, WATCHING_NEW_GROUPS, ALTERING_OFFSETS, DELETING_OFFSETS, DELETING_GROUPS),
    *(GROUPS_GO_ON, NEW_GROUPS_GO_ON, CLIENTS_GO_ON, TRANSACTIONS_SURVIVE),
)
SPARK_FEATURES = (Feature("Batch and streaming, reads and writes, lost data, transactional topics", ("spark",)),)
BROKER_FEATURES = (
    Feature("One group with members of every client", ("groups/test_group_mixtures.py",)),
    Feature(
        "Static members removed from outside",
        ("groups/test_group_admin.py::test_a_static_member_is_removed_from_outside",),
    ),
    Feature("No acknowledged commit lost in a restart", ("groups/test_group_restarts.py",)),
    Feature("Kafka's own tools", ("test_kafka_tools.py", "groups/test_group_tools.py", "test_tools_compared.py")),
    Feature("Kafka's own tools on transactions", ("transactions/test_transaction_tools.py",)),
    Feature("Kafka's TransactionalMessageCopier, killed", ("transactions/test_message_copier.py",)),
    Feature("Kafka Streams, exactly once", ("transactions/test_streams.py",)),
    Feature("Files of one served by the other, both ways", ("files/test_files.py", "files/test_moved_transactions.py")),
    Feature("What is advertised works, at every version, and nothing else does", ("test_api_versions.py",)),
    Feature("Raw requests, answered as by Apache Kafka", ("differential",)),
)
CLUSTER_FEATURES = (Feature("Three brokers: Kafka's own tools, moving leaders, brokers of both kinds", ("cluster",)),)
FEATURES = (*CLIENT_FEATURES, *SPARK_FEATURES, *BROKER_FEATURES, *CLUSTER_FEATURES)
SPARK_TITLES = {"spark-4.0.0": "PySpark 4.0.0", "spark-3.5.7": "PySpark 3.5.7"}


@cache  # the page asks for each test once for every cell
def features_of(test: str, consumer_protocol: bool) -> tuple[Feature, ...]:
    """Returns the features of a test by its node id; a function that has a row of its own is not counted in that of its
    file."""
    path = test.removeprefix("compat_tests/").partition("[")[0]
    named = [feature for feature in FEATURES if path in feature.tests]
    folder_or_file = path.partition("::")[0]
    found = named or [
        feature for feature in FEATURES if {folder_or_file, folder_or_file.partition("/")[0]} & {*feature.tests}
    ]
    return tuple(feature for feature in found if feature.consumer_protocol in (None, consumer_protocol))
