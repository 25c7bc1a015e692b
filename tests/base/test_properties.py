"""Java's .properties format, also against Java's own reader."""

import pytest

from barnabas.base.properties import parse_properties
from barnabas.protocol.errors import InvalidConfig
from tests.kafka_config_probe import ask_kafka, hexed, text_of_hex

CASES = [
    ("", {}),
    ("a=1", {"a": "1"}),
    ("a:1\nb 2\nc\t3\nd = 4\ne : 5", {"a": "1", "b": "2", "c": "3", "d": "4", "e": "5"}),  # three separators
    ("  \t a=1", {"a": "1"}),  # indentation does not count
    ("a=1  ", {"a": "1  "}),  # trailing blanks are part of the value
    ("a=b=c:d", {"a": "b=c:d"}),  # only the first separator separates
    ("a==b", {"a": "=b"}),
    ("a  =  :b", {"a": ":b"}),
    ("a", {"a": ""}),
    ("a=", {"a": ""}),
    ("=1", {"": "1"}),
    ("# comment\n! another\n  # indented\n\na=#1", {"a": "#1"}),
    ("a=1\na=2", {"a": "2"}),  # the last wins
    ("a=1\\\n   2\\\n3", {"a": "123"}),  # continued twice, without the indents
    ("a=1\\\n# 2", {"a": "1# 2"}),  # a continuation is no comment
    ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),  # an escaped backslash continues nothing
    ("a=1\\\\\\\nb=2", {"a": "1\\b=2"}),  # three of them do
    ("a=1\\", {"a": "1"}),  # a continuation of nothing
    ("a=1\\\n\nb=2", {"a": "1", "b": "2"}),
    ("# comment\\\na=1", {"a": "1"}),  # a comment is not continued
    ("a\\ b\\=c=1", {"a b=c": "1"}),
    ("a=\\t\\n\\r\\f\\x\\:", {"a": "\t\n\r\fx:"}),
    ("a=\\u00e9\\u20AC", {"a": "é€"}),
    ("a=\\ud83d\\ude00", {"a": "😀"}),  # two escapes, one character
    ("a=1\r\nb=2\rc=3\n", {"a": "1", "b": "2", "c": "3"}),  # every kind of line end
    ("a=1\\\r\n 2", {"a": "12"}),
    ("a=\u2028x\x0by", {"a": "\u2028x\x0by"}),  # not line ends to Java
    ("listeners=PLAINTEXT://:9092", {"listeners": "PLAINTEXT://:9092"}),
    ("path=C:\\\\data", {"path": "C:\\data"}),
    ("a\\", {"a": ""}),
    ("\\u0061=1", {"a": "1"}),
]


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_a_text_gives_its_entries(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


def test_java_reads_every_case_as_we_do() -> None:
    answers = ask_kafka(*(f"properties {hexed(text)}" for text, _ in CASES))
    entries = [[entry.split("=") for entry in answer if entry] for answer in answers]
    java = [{text_of_hex(key): text_of_hex(value) for key, value in pairs} for pairs in entries]
    assert java == [expected for _, expected in CASES]


MALFORMED = [
    ("a=\\u12", 1),
    ("a=1\n\n# c\nb=\\uzzzz", 4),
    ("a=1\\\n2\nb=\\u+123", 3),  # Python's int() would take the sign
    ("a=1\\\n\\u00g0", 1),  # the line that the entry begins on
]


@pytest.mark.parametrize(("text", "line"), MALFORMED)
def test_a_malformed_escape_is_refused_with_its_line(text: str, line: int) -> None:
    with pytest.raises(InvalidConfig, match=f"^line {line}: "):
        parse_properties(text)


def test_java_refuses_the_same_escapes() -> None:
    answers = ask_kafka(*(f"properties {hexed(text)}" for text, _ in MALFORMED))
    assert answers == [["refused"]] * len(MALFORMED)
