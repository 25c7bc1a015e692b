"""Subscription by pattern: RE2's syntax, the whole name, and no pattern that takes forever."""

import subprocess
import sys

import pytest

from barnabas.broker.groups.consumer import member_update
from barnabas.broker.groups.consumer.regular_expressions import check, resolve
from barnabas.protocol.errors import InvalidRegularExpression
from barnabas.protocol.stored.group_records import ConsumerGroupRegularExpressionKey
from tests.broker.groups.consumer.client import Consumer, consumer_harness, topic_id, with_topic
from tests.broker.groups.harness import GroupHarness
from tests.kafka_jars import run_java

NAMES = ["orders", "orders-1", "Orders", "orders.eu", "orders_eu", "re-orders", "a.b", "aXb", "a", "aaaa", "x12", ""]

VALID = {
    "orders": "a plain name is itself",
    "orders.*": "as much as follows",
    ".*orders": "as much as precedes",
    "orders|a": "the alternatives are whole names too",
    "^orders$": "anchors change nothing",
    "^orders": "nor does half of them",
    r"orders\.eu": "an escaped dot is a dot",
    "orders.eu": "an unescaped one is any letter",
    "(?i)orders": "flags",
    "(?-i:O)rders": "flags of a group",
    "(?s).*": "flags without meaning in a name",
    r"\Qa.b\E": "quoted",
    r"x\d+": "Perl's classes",
    "x[[:digit:]]{2}": "POSIX classes, and a count",
    r"\pL+": "Unicode classes",
    r"\p{Greek}+": "scripts",
    r"[^\W\d]+": "a negated class of classes",
    "a{2,4}": "between two counts",
    "a{2,}": "from a count on",
    "(a*)*": "nested stars",
    "a*?": "not greedy",
    "(?:orders)(-1)?": "groups that capture or not",
    "(?P<name>a+)": "named in Python's way",
    "(?<name>a+)": "named in Java's way",
    r"\borders\b.*": "word boundaries",
    r"\Aorders\z": "the ends of the text",
    "[a-c.]+": "ranges",
    "[]a]+": "a bracket that comes first",
    "": "nothing matches the empty name alone",
    "a{,2}": "no count, but letters",
    "|a": "an empty alternative",
    r"\x61+": "hex",
    r"\x{61}+": "hex in braces",
    r"\141+": "octal",
    "é.*": "letters that no topic has",
}

INVALID = {
    "orders(": "a group that does not end",
    "orders)": "or does not begin",
    "[a": "a class that does not end",
    "[z-a]": "a range the wrong way round",
    "*": "nothing to repeat",
    "a**": "repeated twice",
    "a++": "possessive",
    "a{1001}": "too often",
    "a{3,2}": "fewer than at least",
    r"(a)\1": "a reference back",
    "(?=a)a": "a look ahead",
    "(?<=a)a": "a look behind",
    "(?!a).*": "a negated one",
    "(?>a)": "an atomic group",
    r"\Z": "an escape that RE2 has not",
    r"\8": "nor this",
    "a\\": "an escape of nothing",
    r"\p{Nobody}": "a script of nobody",
    "(?P<n>a": "a named group that does not end",
    "(?P<1->a)": "a name that is none",
    "(?z)a": "a flag that is none",
    "[[:nothing:]]": "a class that is none",
}


@pytest.mark.parametrize("pattern", INVALID)
def test_what_re2_has_not_is_refused_with_kafkas_words(pattern: str) -> None:
    start = f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: "
    with pytest.raises(InvalidRegularExpression) as caught:
        check(pattern)
    assert caught.value.message.startswith(start)
    assert caught.value.message.endswith(".")


def test_every_pattern_means_what_it_means_to_kafka() -> None:
    lines = [" ".join(word.encode().hex() for word in (pattern, *NAMES)) for pattern in (*VALID, *INVALID)]
    for pattern, answer in zip(
        (*VALID, *INVALID), run_java("RegularExpressionProbe.java", "\n".join(lines)).split("\n")
    ):
        if pattern in INVALID:
            assert answer == "invalid", pattern
            continue
        check(pattern)
        matched = {name for name, word in zip(NAMES, answer.split(" "), strict=True) if word == "true"}
        assert resolve([pattern], NAMES) == {pattern: matched}, (pattern, VALID[pattern])


def test_each_pattern_is_resolved_for_itself() -> None:
    assert resolve(["a.*", "b"], ["a", "ab", "b", "c"]) == {"a.*": {"a", "ab"}, "b": {"b"}}


def test_a_pattern_that_is_not_valid_matches_nothing() -> None:
    assert resolve(["(", "a"], ["a", "("]) == {"(": frozenset(), "a": {"a"}}


def test_no_pattern_no_topic() -> None:
    assert resolve([], ["a"]) == {}
    assert resolve(["a"], []) == {"a": frozenset()}


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "pattern",
    [
        "(a*)*b",  # Python's re needs 2**249 steps to say no
        "(a|aa)+b",
        "(a?){200}a{200}b",
        "((a{0,100}){0,10})b",
        "(.*)*(.*)*(.*)*x",
    ],
)
def test_a_hostile_pattern_takes_no_longer_than_another(pattern: str) -> None:
    names = [f"{'a' * 240}{number}" for number in range(2000)]
    assert resolve([pattern], names) == {pattern: frozenset()}


@pytest.mark.parametrize("pattern", [r"(\pL{0,50}){0,20}", "(a{100}){100}"])
def test_a_pattern_that_would_need_much_memory_is_refused_though_kafka_takes_it(pattern: str) -> None:
    with pytest.raises(InvalidRegularExpression, match=r"pattern too large|invalid repetition size"):
        check(pattern)


def test_a_refusal_writes_nothing_to_standard_error(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InvalidRegularExpression):
        check("(")
    assert capfd.readouterr() == ("", "")


def test_re2_is_imported_with_the_first_pattern() -> None:
    program = (
        "import sys; from barnabas.broker.groups.consumer.regular_expressions import check;"
        "assert 're2' not in sys.modules;"
        "check('a'); assert 're2' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


# ---- when patterns are looked at again


def resolved(harness: GroupHarness, start: int) -> list[str]:
    """Returns the patterns that were resolved since the log had that many records."""
    keys = [key for key, _ in harness.records(start)]
    return [key.regular_expression for key in keys if isinstance(key, ConsumerGroupRegularExpressionKey)]


def test_topics_that_change_make_nobody_look_at_patterns_again_only_new_ones_do() -> None:
    """Whatever happens to the replicas of any topic changes the topics."""
    harness = consumer_harness(orders=1)
    consumer = Consumer(harness, "m", regex="o.*")
    consumer.join()
    harness.advance(10_001)
    harness.image = with_topic(harness.image, "orders", 2)
    written = len(harness.log)
    consumer.beat()
    assert consumer.owned[topic_id("orders")] == {0, 1}
    assert resolved(harness, written) == []
    harness.image = with_topic(harness.image, "others", 1)
    consumer.beat()
    assert resolved(harness, written) == ["o.*"]


def test_many_patterns_are_looked_at_a_few_at_each_heartbeat(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = consumer_harness(orders=1)
    patterns = [f"o.*|m{number}" for number in range(5)]
    consumers = [Consumer(harness, f"m{number}", regex=pattern) for number, pattern in enumerate(patterns)]
    for consumer in consumers:
        consumer.join()
    monkeypatch.setattr(member_update, "REGEX_MATCHES_PER_HEARTBEAT", 5)
    harness.image = with_topic(harness.image, "others", 1)
    harness.advance(10_001)
    start = len(harness.log)
    looked_at: list[int] = []
    for _ in range(4):
        written = len(harness.log)
        consumers[0].beat()
        looked_at.append(len(resolved(harness, written)))
    assert looked_at == [2, 2, 1, 0]
    assert sorted(resolved(harness, start)) == patterns
    for consumer in consumers * 3:
        consumer.beat()
    assert sum(topic_id("others") in consumer.owned for consumer in consumers) == 1


def test_who_brings_a_pattern_need_not_wait_for_those_that_are_due(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = consumer_harness(orders=1, bills=1)
    first = Consumer(harness, "first", regex="o.*")
    first.join()
    monkeypatch.setattr(member_update, "REGEX_MATCHES_PER_HEARTBEAT", 1)
    harness.image = with_topic(harness.image, "others", 1)
    harness.advance(10_001)
    written = len(harness.log)
    second = Consumer(harness, "second", regex="b.*")
    second.join()
    assert resolved(harness, written) == ["b.*"]
    assert set(second.owned) == {topic_id("bills")}
