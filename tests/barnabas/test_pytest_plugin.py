"""The fixtures, as somebody else's tests see them: in a pytest of its own."""

import subprocess
import sys
from pathlib import Path

THEIR_TESTS = """
import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

def write_and_read(servers, topic):
    producer = KafkaProducer(bootstrap_servers=servers)
    offset = producer.send(topic, b"two coffees").get(timeout=10).offset
    producer.close()
    consumer = KafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest")
    consumer.assign([TopicPartition(topic, 0)])
    value = next(consumer).value
    consumer.close()
    return offset, value

@pytest.mark.parametrize("how", ["plain", "with spaces, a / and \\N{GREEK SMALL LETTER ALPHA}", "x" * 300])
def test_an_order_is_published(kafka_broker, kafka_topic, how):
    assert write_and_read(kafka_broker.bootstrap_servers, kafka_topic) == (0, b"two coffees")

def test_the_topic_is_new(kafka_topic, kafka_broker, request):
    brokers = request.config.__dict__.setdefault("seen_brokers", set())
    brokers.add(kafka_broker.bootstrap_servers)
    assert len(brokers) == 1, "one broker for the whole session"
    topics = request.config.__dict__.setdefault("seen_topics", set())
    assert kafka_topic not in topics
    topics.add(kafka_topic)
"""


def test_every_test_gets_the_sessions_broker_and_a_topic_of_its_own(tmp_path: Path) -> None:
    for folder in range(30):  # tests of the same name in many places
        (tmp_path / f"folder{folder}").mkdir()
        name = f"folder{folder}/test_{folder}.py"
        (tmp_path / name).write_text(THEIR_TESTS if folder == 0 else THEIR_TESTS[THEIR_TESTS.index("def test_the") :])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "barnabas.pytest_plugin", "-p", "no:cacheprovider", "."]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=120, env={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert "33 passed" in done.stdout
