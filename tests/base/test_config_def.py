"""The declarative machinery, on a small configuration of its own."""

import pytest

from barnabas.base.config_def import (
    Config,
    ConfigType,
    Validator,
    at_least,
    between,
    boolean,
    double,
    filled,
    int32,
    list_of,
    long,
    one_of,
    one_of_ignoring_case,
    password,
    short,
    string,
    string_list,
    text_of,
)
from barnabas.protocol.errors import InvalidConfig


class Base(Config):
    SCOPE = "example"

    max_bytes: int = int32("max.bytes", 100, at_least(0), "A limit.")
    is_on: bool = boolean("is.on", False, "A switch.")


class Example(Base):
    keep_ms: int = long("keep.ms", 1, at_least(-1), "A time.")
    factor: int = short("factor", 3, "A small number.")
    ratio: float = double("ratio", 0.5, between(0, 1), "A share.")
    mode: str = string("mode", "slow", one_of("slow", "fast"), "A choice.")
    policy: str = string("policy", "both", one_of_ignoring_case("both", "none"), "A choice in any case.")
    colours: tuple[str, ...] = string_list("colours", (), list_of("red", "blue"), "A set.")
    hosts: tuple[str, ...] = string_list("hosts", ("a",), filled(1), "Some hosts.")
    notes: tuple[str, ...] = string_list("notes", (), "Anything.")
    limit: int | None = int32("limit", None, "Optional.")
    secret: str | None = password("secret", None, "Hidden.")

    doubled: int

    def _derive(self, values: dict[str, object]) -> None:
        values["doubled"] = 2 * self.max_bytes

    def check(self) -> None:
        if self.keep_ms > self.max_bytes:
            raise InvalidConfig("keep.ms is above max.bytes")


def test_a_configuration_without_settings_has_the_declared_defaults() -> None:
    config = Example()
    assert (config.max_bytes, config.keep_ms, config.ratio, config.limit) == (100, 1, 0.5, None)


def test_the_keys_are_those_of_the_class_and_of_its_bases() -> None:
    assert [*Example.KEYS][:3] == ["max.bytes", "is.on", "keep.ms"]
    assert [*Base.KEYS] == ["max.bytes", "is.on"]


def test_an_attribute_must_be_named_like_its_key() -> None:
    with pytest.raises(AssertionError):
        type("Wrong", (Config,), {"retention": long("retention.ms", 1, "A time.")})


@pytest.mark.parametrize(
    ("key", "text", "value", "shown"),
    [
        ("is.on", "true", True, "true"),
        ("is.on", " TRUE ", True, "true"),  # Java's parser trims and ignores case
        ("max.bytes", "5", 5, "5"),
        ("max.bytes", " +5 ", 5, "5"),  # so does Integer.parseInt with a plus
        ("max.bytes", "2147483647", 2**31 - 1, "2147483647"),
        ("keep.ms", "-1", -1, "-1"),
        ("factor", "-32768", -32768, "-32768"),
        ("ratio", "1", 1.0, "1.0"),  # a double is always shown as one
        ("ratio", "1e-4", 0.0001, "1.0E-4"),  # Java's notation
        ("ratio", "0.25f", 0.25, "0.25"),  # which may name a type
        ("ratio", " .5D ", 0.5, "0.5"),
        ("ratio", "1.d", 1.0, "1.0"),
        ("ratio", "1E-1F", 0.1, "0.1"),
        ("mode", " fast", "fast", "fast"),
        ("policy", "NONE", "NONE", "NONE"),  # any case is accepted, and kept
        ("colours", " red , blue ", ("red", "blue"), "red,blue"),
        ("colours", "red,red", ("red",), "red"),  # a set of names forgets repetitions
        ("colours", "", (), ""),
        ("notes", "a,a,", ("a", "a", ""), "a,a,"),  # a plain list keeps everything
        ("limit", "0", 0, "0"),
        ("secret", " pass ", "pass", "pass"),
    ],
)
def test_a_text_becomes_a_value_and_is_shown_as_kafka_shows_it(key: str, text: str, value: object, shown: str) -> None:
    config = Example.parse({key: text})
    assert getattr(config, key.replace(".", "_")) == value
    assert config.as_text(key) == shown


@pytest.mark.parametrize(
    ("key", "text", "must_be"),
    [
        ("is.on", "1", "true or false"),
        ("is.on", "", "true or false"),
        ("max.bytes", "many", "a whole number of 32 bits"),
        ("max.bytes", "", "a whole number of 32 bits"),
        ("max.bytes", "1_000", "a whole number of 32 bits"),  # Python would take it
        ("max.bytes", "2147483648", "a whole number of 32 bits"),
        ("max.bytes", "-1", "at least 0"),
        ("max.bytes", "9" * 5000, "a whole number of 32 bits"),  # beyond what int() converts
        ("factor", "32768", "a whole number of 16 bits"),
        ("keep.ms", "9223372036854775808", "a whole number of 64 bits"),
        ("ratio", "1.5", "between 0 and 1"),
        ("ratio", "NaN", "a number"),
        ("ratio", "inf", "a number"),
        ("ratio", "half", "a number"),
        ("mode", "Fast", "one of slow, fast"),
        ("policy", "some", "one of both, none"),
        ("colours", "red,green", "a list of red, blue"),
        ("colours", "red,", "a list of red, blue"),
        ("hosts", "", "a list of at least one entry, none of them empty"),
        ("hosts", "a,,b", "a list of at least one entry, none of them empty"),
    ],
)
def test_a_refusal_names_the_key_the_value_and_what_is_allowed(key: str, text: str, must_be: str) -> None:
    with pytest.raises(InvalidConfig) as refusal:
        Example.parse({key: text})
    assert refusal.value.message == f"Invalid value {text} for configuration {key}: it must be {must_be}"


def test_a_refusal_does_not_tell_a_secret() -> None:
    class Guarded(Config):
        word: str = password("word", None, Validator("long", lambda value: len(value) > 8), "Hidden.")

    with pytest.raises(InvalidConfig, match=r"Invalid value \[hidden\] for configuration word"):
        Guarded.parse({"word": "short"})
    assert "letmein-now" not in repr(Guarded.parse({"word": "letmein-now"}))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("max.byte", "Unknown example config name: max.byte; did you mean max.bytes?"),
        ("Keep.ms", "Unknown example config name: Keep.ms; did you mean keep.ms?"),
        ("zzzzzz", "Unknown example config name: zzzzzz"),  # nothing is near
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_known(name: str, message: str) -> None:
    with pytest.raises(InvalidConfig) as refusal:
        Example.parse({name: "1"})
    assert refusal.value.message == message


def test_rules_between_keys_are_checked_on_the_result() -> None:
    assert Example.parse({"keep.ms": "150", "max.bytes": "200"}).keep_ms == 150
    with pytest.raises(InvalidConfig, match="above"):
        Example.parse({"keep.ms": "150"})


def test_overrides_make_a_new_configuration_and_leave_the_old() -> None:
    parent = Example.parse({"max.bytes": "50", "mode": "fast"})
    child = parent.with_overrides({"max.bytes": "60"})
    assert (parent.max_bytes, child.max_bytes, child.mode, child.doubled) == (50, 60, "fast", 120)
    assert parent.with_overrides({}) is parent


def test_a_configuration_cannot_be_changed() -> None:
    with pytest.raises(AttributeError, match="immutable"):
        Example().max_bytes = 5


def test_keywords_take_typed_values_unchecked_and_only_those_that_exist() -> None:
    assert Example(max_bytes=-5).max_bytes == -5
    with pytest.raises(AssertionError):
        Example(max_byte=5)


def test_values_are_plain_attributes_of_the_instance() -> None:
    config = Example()
    assert config.__dict__["keep_ms"] == 1
    assert "keep_ms" not in vars(Example)


def test_equal_values_make_equal_configurations() -> None:
    assert Example.parse({"max.bytes": "5", "keep.ms": "1"}) == Example(max_bytes=5, keep_ms=1)
    assert hash(Example()) == hash(Example.parse({}))
    assert Example() != Base()


def test_a_configuration_prints_what_differs_from_the_defaults() -> None:
    assert repr(Example.parse({"mode": "fast", "secret": "x"})) == "Example(mode=fast, secret=[hidden])"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (0.001, "0.001"),  # the smallest that Java prints plainly
        (0.00012345, "1.2345E-4"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (12345678.9, "1.23456789E7"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (-1e-4, "-1.0E-4"),
    ],
)
def test_doubles_are_printed_as_java_prints_them(value: float, text: str) -> None:
    assert text_of(value) == text


def test_only_passwords_and_keys_of_unknown_type_are_sensitive() -> None:
    assert [key.name for key in Example.KEYS.values() if key.sensitive] == ["secret"]
    assert Example.KEYS["mode"]._replace(type=ConfigType.UNKNOWN).sensitive
