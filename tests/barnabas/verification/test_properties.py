"""Properties files of Kafka's tools mean the same to librdkafka."""

import pytest

from barnabas.verification.recording.properties import for_librdkafka, parse_properties
from barnabas.verification.recording.settings import CannotVerify


def test_a_file_is_parsed_as_java_does() -> None:
    lines = ["# a comment", "! another", "", "  acks = all ", "sasl.jaas.config=Login required \\", '  username="u";']
    assert parse_properties(lines) == {"acks": "all", "sasl.jaas.config": 'Login required username="u";'}


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({"client.id": "canary"}, {"client.id": "canary"}),
        ({"sasl.mechanism": "PLAIN"}, {"sasl.mechanisms": "PLAIN"}),
        (
            {"sasl.jaas.config": "PlainLoginModule required username=\"alice\" password='s3cret';"},
            {"sasl.username": "alice", "sasl.password": "s3cret"},
        ),
        (
            {"ssl.truststore.type": "PEM", "ssl.truststore.location": "ca.pem"},
            {"ssl.ca.location": "ca.pem"},
        ),
        ({"ssl.endpoint.identification.algorithm": ""}, {"ssl.endpoint.identification.algorithm": "none"}),
    ],
)
def test_java_names_become_those_of_librdkafka(properties: dict[str, str], expected: dict[str, str]) -> None:
    assert for_librdkafka(properties) == expected


@pytest.mark.parametrize(
    ("properties", "complaint"),
    [
        ({"ssl.truststore.location": "ca.jks"}, "ssl.truststore.type=JKS is for Java only"),
        ({"ssl.keystore.type": "PKCS12"}, "ssl.keystore.type=PKCS12 is for Java only"),
        ({"sasl.jaas.config": "Krb5LoginModule required;"}, "has no username and password"),
    ],
)
def test_what_only_java_understands_is_refused(properties: dict[str, str], complaint: str) -> None:
    with pytest.raises(CannotVerify, match=complaint):
        for_librdkafka(properties)
