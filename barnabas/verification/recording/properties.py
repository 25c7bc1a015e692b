"""Properties files as Kafka's own tools take them, in the words of librdkafka."""

import re
from collections.abc import Iterable

from barnabas.verification.recording.settings import CannotVerify

_JAAS_VALUE = re.compile(r"""(\w+)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_RENAMED = {
    "sasl.mechanism": "sasl.mechanisms",
    "ssl.truststore.location": "ssl.ca.location",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
}
_TYPES = ("ssl.truststore.type", "ssl.keystore.type")


def parse_properties(lines: Iterable[str]) -> dict[str, str]:
    """Parses `key=value` lines. Empty lines and those that begin with # or ! are skipped."""
    properties: dict[str, str] = {}
    held = ""
    for line in lines:
        text = held + line.strip()
        if not held and (not text or text.startswith(("#", "!"))):
            continue
        if text.endswith("\\"):
            held = text[:-1]
            continue
        held = ""
        key, separator, value = text.partition("=")
        if not separator or not key.strip():
            raise CannotVerify(f"{text!r} is no property", "write key=value")
        properties[key.strip()] = value.strip()
    return properties


def for_librdkafka(properties: dict[str, str]) -> dict[str, str]:
    """Returns the same settings under the names that librdkafka has for them."""
    found: dict[str, str] = {}
    for name, value in properties.items():
        if name == "sasl.jaas.config":
            found |= _credentials(value)
        elif name in _TYPES:
            _require_pem(name, value)
        elif name == "ssl.endpoint.identification.algorithm":
            found[name] = value or "none"
        else:
            found[_RENAMED.get(name, name)] = value
    if "ssl.truststore.location" in properties:
        _require_pem("ssl.truststore.type", properties.get("ssl.truststore.type", "JKS"))
    return found


def _credentials(jaas: str) -> dict[str, str]:
    values = {name: first or second for name, first, second in _JAAS_VALUE.findall(jaas)}
    if "username" not in values or "password" not in values:
        raise CannotVerify(
            "sasl.jaas.config has no username and password",
            "other ways to log in need librdkafka's own properties: --client-property sasl.…=…",
        )
    return {"sasl.username": values["username"], "sasl.password": values["password"]}


def _require_pem(name: str, value: str) -> None:
    if value.upper() != "PEM":
        raise CannotVerify(
            f"{name}={value} is for Java only",
            "convert the store to PEM files, and give --client-property ssl.ca.location=FILE",
        )
