"""What a request of one member changes in its consumer group: subscription, group epoch, target, the member itself.

Each step sees the group as the steps before it would leave it. Nothing changes before the records are appended.
"""

from barnabas.broker.groups.assignors import Partitions
from barnabas.broker.groups.consumer import records as consumer_records
from barnabas.broker.groups.consumer import regular_expressions
from barnabas.broker.groups.consumer.current_assignment import Reconciliation
from barnabas.broker.groups.consumer.group import ConsumerGroup
from barnabas.broker.groups.consumer.member import ConsumerMember
from barnabas.broker.groups.consumer.subscriptions import ResolvedRegularExpression, metadata_hash, topic_ids
from barnabas.broker.groups.consumer.target_assignment import compute_target, target_records
from barnabas.broker.groups.context import GroupContext
from barnabas.broker.groups.record import GroupRecord

REGEX_BATCH_REFRESH_MIN_INTERVAL_MS = 10_000
"""How often, at most, new topics make a group look at its regular expressions again."""

REGEX_MATCHES_PER_HEARTBEAT = 20_000
"""How many times a name is held against an expression, at most, before others have their turn. It takes 50 ms."""


def counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def replace_static_member(
    group: ConsumerGroup, old: ConsumerMember, member_id: str, records: list[GroupRecord]
) -> ConsumerMember:
    """Adds the records of the replacement. The new member has what the old one had, and begins at epoch 0."""
    new = old._replace(member_id=member_id, member_epoch=0, previous_member_epoch=0)
    records += consumer_records.removal_of_member(group.group_id, old.member_id)
    records.append(consumer_records.member_record(group.group_id, new))
    records.append(consumer_records.target_record(group.group_id, member_id, group.target_of(old)))
    records.append(consumer_records.current_record(group.group_id, new))
    return new


class MemberUpdate:
    """One update. `before` is the member as the group knows it, or a blank one; `member` becomes what it will be."""

    __slots__ = (
        "_assignment_text",
        "_before",
        "_context",
        "_group",
        "_has_seen_topics",
        "_image",
        "_now_ms",
        "_subscriptions",
        "_target",
        "epoch",
        "has_reconciled",
        "has_subscription_changed",
        "member",
        "records",
        "target_epoch",
    )

    def __init__(
        self,
        context: GroupContext,
        group: ConsumerGroup,
        before: ConsumerMember,
        member: ConsumerMember,
        records: list[GroupRecord],
    ) -> None:
        self._context = context
        self._group = group
        self._before = before
        self._image = context.image()
        self._now_ms = context.now_ms()
        self._subscriptions = group.subscriptions
        self._target: Partitions | None = None
        self._has_seen_topics = False
        self.member = member
        self.records = records
        self.epoch = group.epoch
        self.target_epoch = group.assignment_epoch
        self.has_subscription_changed = False
        self.has_reconciled = False
        self._assignment_text = ""

    def remember_topics(self) -> None:
        """Remembers the topics, once the records are appended: the next heartbeat need not look at them again."""
        if self._has_seen_topics:
            self._group.see(self._image.topics)

    def summary(self, epoch_before: int, *, is_new: bool) -> str:
        """Returns the result in words for people; an empty text if it does not matter to other members."""
        protocol = "classic" if self.member.uses_classic_protocol else "consumer"
        parts = [f"{self.member.member_id} joined with the {protocol} protocol"] if is_new else []
        if self.epoch != epoch_before:
            parts.append(f"group epoch {epoch_before} -> {self.epoch}")
        if self._assignment_text:
            parts.append(self._assignment_text)
        return "; ".join(parts)

    # ---- the subscription, and the group epoch that it makes

    def subscribe(self) -> None:
        before, member = self._before, self.member
        if member != before:
            self.records.append(consumer_records.member_record(self._group.group_id, member))
        self.has_subscription_changed = (
            before.subscribed_topic_names != member.subscribed_topic_names
            or before.subscribed_topic_regex != member.subscribed_topic_regex
        )
        if self.has_subscription_changed:
            self._subscriptions = self._group.subscriptions.copy()
            self._subscriptions.replace(before, member)
        has_resolved = self._resolve_regexes()
        if self.has_subscription_changed or has_resolved or not self._group.has_seen(self._image.topics):
            self._update_epoch(is_bumped=self.has_subscription_changed or has_resolved)

    def _update_epoch(self, *, is_bumped: bool) -> None:
        group = self._group
        new_hash = metadata_hash(self._subscriptions.topics, self._image)
        if is_bumped or new_hash != group.metadata_hash:
            self.epoch += 1
            self.records.append(consumer_records.epoch_record(group.group_id, self.epoch, new_hash))
        self._has_seen_topics = True
        if group.has_partition_metadata_record:
            self.records.append(consumer_records.partition_metadata_tombstone(group.group_id))

    def _resolve_regexes(self) -> bool:
        """Resolves new and outdated expressions. Returns whether one stands for other topics than before.

        A new one is resolved at once, so that its member need not wait for the next heartbeat as in Kafka. Of many that
        are outdated each heartbeat resolves a few: other clients wait meanwhile."""
        group, subscriptions = self._group, self._subscriptions
        old = self._before.subscribed_topic_regex
        if old in subscriptions.resolved and old not in subscriptions.by_regex:
            del subscriptions.resolved[old]
            self.records.append(consumer_records.regex_tombstone(group.group_id, old))
        due = [regex for regex in subscriptions.by_regex if regex not in subscriptions.resolved]
        if (own := self.member.subscribed_topic_regex) in due:
            regular_expressions.check(own)
            due.sort(key=lambda regex: regex != own)
        due += self._outdated_regexes()
        if not due:
            return False
        due = due[: max(REGEX_MATCHES_PER_HEARTBEAT // max(len(self._image.topics), 1), 1)]
        if subscriptions is group.subscriptions:
            subscriptions = self._subscriptions = subscriptions.copy()
        has_changed = False
        for regex, topics in regular_expressions.resolve(due, self._image.topics).items():
            known = subscriptions.resolved.get(regex)
            has_changed |= topics != (known.topics if known is not None else frozenset())
            version = self._image.end_offset
            subscriptions.resolved[regex] = ResolvedRegularExpression(topics, version, self._now_ms)
            self.records.append(consumer_records.regex_record(group.group_id, regex, topics, version, self._now_ms))
        return has_changed

    def _outdated_regexes(self) -> list[str]:
        """Returns the expressions that may stand for other topics by now, the oldest first. If one has not been looked
        at for long, so are all that were not looked at just now: they change together, as far as possible."""
        subscriptions, now_ms = self._subscriptions, self._now_ms
        if not subscriptions.resolved:
            return []
        since_ms = now_ms - REGEX_BATCH_REFRESH_MIN_INTERVAL_MS
        old = [
            (resolved, regex)
            for regex in subscriptions.by_regex
            if (resolved := subscriptions.resolved.get(regex)) is not None and resolved.timestamp_ms < since_ms
        ]
        if not old:
            return []
        longest_ms = now_ms - min(resolved.timestamp_ms for resolved, _ in old)
        if longest_ms <= self._context.config().group_consumer_regex_refresh_interval_ms:
            came_at, end_offset = self._context.topics_came_at, self._image.end_offset
            old = [(resolved, regex) for resolved, regex in old if not came_at <= resolved.version <= end_offset]
        return [regex for _, regex in sorted(old, key=lambda each: each[0].timestamp_ms)]

    # ---- the target

    def assign(self, assignment_interval_ms: int) -> None:
        """Computes the target of a new epoch."""
        group = self._group
        if group.assignment_epoch >= self.epoch or not group.may_assign(self._now_ms, assignment_interval_ms):
            return
        assignors = self._context.config().group_consumer_assignors
        preferred = group.preferred_assignor(self._before, self.member)
        assignor = preferred if preferred in assignors else assignors[0]
        target = compute_target(group, self.member, self._subscriptions, assignor, self._image)
        self.records += target_records(group, target, self.epoch, self._now_ms)
        self._target = target[self.member.member_id]
        self.target_epoch = self.epoch
        count = sum(len(numbers) for partitions in target.values() for numbers in partitions.values())
        parts = (counted(count, "partition"), counted(len(target), "member"))
        self._assignment_text = f"{parts[0]} assigned to {parts[1]} by {assignor}"

    # ---- the member's partitions

    def reconcile(self, owned: Partitions | None) -> None:
        member = self.member
        if not self.has_subscription_changed and member.is_reconciled_to(self.target_epoch):
            return
        step = Reconciliation(
            member,
            target_epoch=self.target_epoch,
            target=self._group.target_of(member) if self._target is None else self._target,
            topic_ids=topic_ids(self._subscriptions.topics_of(member), self._image),
            is_taken=self._group.is_taken,
            owned=owned,
        )
        self.member = step.next(has_subscription_changed=self.has_subscription_changed)
        if self.member != member:
            self.has_reconciled = True
            self.records.append(consumer_records.current_record(self._group.group_id, self.member))
