"""What can be wrong in a history, and what was found to be."""

from enum import Enum

from barnabas.protocol.named_tuple import NamedTuple

EXAMPLES_MAX = 100
"""How many findings of a kind are kept; the others are counted."""


class Kind(Enum):
    """The kinds of anomalies: a name for programs, and a sentence for people."""

    LOST = "lost-write", "acknowledged, and not in the partition although later records are"
    UNSEEN = "unseen", "acknowledged, and not at the end of the partition where it belongs"
    DUPLICATE = "duplicate", "one record at two offsets"
    INCONSISTENT_OFFSET = "inconsistent-offset", "an offset with two records, or a record that is not where it was said"
    SEND_ORDER = "non-monotonic-send", "a producer's records are not in the order in which it sent them"
    POLL_ORDER = "non-monotonic-poll", "a consumer's offsets went back"
    POLL_SKIP = "skipped-poll", "a consumer passed over records that others found"
    PHANTOM = "phantom", "a record that nobody sent there"
    CORRUPT = "corrupt", "a record whose content is not what was sent"
    REFUSED_BUT_STORED = "refused-but-stored", "a record that was refused, and is there"
    COMMIT_WENT_BACK = "commit-went-back", "a committed offset that went back, although nobody committed that"
    COMMIT_UNKNOWN = "unknown-commit", "a committed offset that nobody committed"
    GROUP_SKIP = "group-skip", "a group passed over records between its committed offset and its next poll"
    ABORTED_READ = "aborted-read", "a record of a transaction that was not committed"
    OPEN_READ = "uncommitted-read", "a record that was read before its transaction was to be committed"
    TORN = "torn-transaction", "a transaction of which some records are there and others are not"
    STUCK_SEND = "stuck-send", "a record that was neither acknowledged nor refused in time"
    STUCK_TRANSACTION = "stuck-transaction", "a transaction that neither was committed nor aborted in time"
    STUCK_READ = "stuck-read", "a partition that could not be read to its end in time"

    def __init__(self, slug: str, meaning: str) -> None:
        self.slug = slug
        self.meaning = meaning


class Finding(NamedTuple):
    """One anomaly. What is not known of it is None."""

    kind: Kind
    said: str
    partition: int | None = None
    offset: int | None = None
    producer: int | None = None
    sequence: int | None = None
    sent_ms: int | None = None
    acknowledged_ms: int | None = None
    time_ms: int | None = None
    """When it was seen."""


class Findings:
    """Counts findings by their kind and keeps the first of each."""

    def __init__(self) -> None:
        self.counts: dict[Kind, int] = {}
        self.examples: dict[Kind, list[Finding]] = {}

    def add(self, finding: Finding) -> None:
        kind = finding.kind
        self.counts[kind] = self.counts.get(kind, 0) + 1
        examples = self.examples.setdefault(kind, [])
        if len(examples) < EXAMPLES_MAX:
            examples.append(finding)
