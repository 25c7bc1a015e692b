"""Configuration, declared once the way messages are: a class lists its keys, everything else derives from the list.

- The attribute is Kafka's key with dots as underscores; an instance holds plain, parsed, immutable values.
- `parse` takes text and checks it: type first, then the key's own rule, then the rules between keys. It raises
  `InvalidConfig`, whose message names the key, the value and what is allowed, or for an unknown key the nearest known.
- Building an instance from keywords trusts the caller: that is for code that holds typed values already.
- The text form of a value is the one Kafka shows, so a client reads back from us what it would read from Kafka.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import Enum, IntEnum
from typing import Any, ClassVar, Self

from barnabas.protocol.errors import InvalidConfig
from barnabas.protocol.named_tuple import NamedTuple


class ConfigType(IntEnum):
    """Kafka's value types, numbered as DescribeConfigs numbers them."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class UpdateMode(Enum):
    """Whether a broker key may change while the broker runs, and for whom (KIP-226)."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class Validator:
    """A condition on a value; `rule` completes the sentence "it must be ..."."""

    __slots__ = ("accepts", "distinct", "rule")

    def __init__(self, rule: str, accepts: Callable[[Any], bool], *, distinct: bool = False) -> None:
        self.rule = rule
        self.accepts = accepts
        self.distinct = distinct  # a list keeps the first of equal entries


def at_least(minimum: float) -> Validator:
    return Validator(f"at least {minimum}", lambda value: value >= minimum)


def between(minimum: float, maximum: float) -> Validator:
    return Validator(f"between {minimum} and {maximum}", lambda value: minimum <= value <= maximum)


def one_of(*allowed: str) -> Validator:
    return Validator(f"one of {', '.join(allowed)}", lambda value: value in allowed)


def one_of_ignoring_case(*allowed: str) -> Validator:
    return Validator(f"one of {', '.join(allowed)}", lambda value: value.lower() in allowed)


def list_of(*allowed: str, minimum: int = 0) -> Validator:
    rule = f"a list of {'at least one of ' if minimum else ''}{', '.join(allowed)}"
    return Validator(rule, lambda value: len(value) >= minimum and set(value).issubset(allowed), distinct=True)


def filled(minimum: int = 0) -> Validator:
    """Allows a list of at least `minimum` entries, none of them empty."""
    rule = "a list of at least one entry, none of them empty" if minimum else "a list without empty entries"
    return Validator(rule, lambda value: len(value) >= minimum and all(value), distinct=True)


class ConfigKey(NamedTuple):
    name: str
    type: ConfigType
    default: Any
    documentation: str
    validator: Validator | None = None
    broker_keys: tuple[str, ...] = ()
    """The broker keys that give a topic key its default, the strongest first."""
    update_mode: UpdateMode = UpdateMode.READ_ONLY
    honoured: bool = True
    """False: the value is checked, stored and shown, but changes nothing so far."""
    internal: bool = False
    """Hidden from DescribeConfigs unless it was set."""

    @property
    def attribute(self) -> str:
        return self.name.replace(".", "_")

    @property
    def sensitive(self) -> bool:
        return self.type in (ConfigType.PASSWORD, ConfigType.UNKNOWN)

    @property
    def read_only(self) -> bool:
        return self.update_mode is UpdateMode.READ_ONLY


# The declarations. They return Any so that a class body can annotate the attribute with the type of its value.


def _declaration(config_type: ConfigType) -> Callable[..., Any]:
    def declare(
        name: str,
        default: Any,
        *rest: Validator | str,
        broker_keys: tuple[str, ...] = (),
        update_mode: UpdateMode = UpdateMode.READ_ONLY,
        honoured: bool = True,
        internal: bool = False,
    ) -> ConfigKey:
        *validators, documentation = rest
        assert isinstance(documentation, str), f"{name} has no documentation"
        validator = validators[0] if validators else None
        assert validator is None or isinstance(validator, Validator)
        return ConfigKey(
            name, config_type, default, documentation, validator, broker_keys, update_mode, honoured, internal
        )

    return declare


boolean = _declaration(ConfigType.BOOLEAN)
string = _declaration(ConfigType.STRING)
short = _declaration(ConfigType.SHORT)
int32 = _declaration(ConfigType.INT)
long = _declaration(ConfigType.LONG)
double = _declaration(ConfigType.DOUBLE)
string_list = _declaration(ConfigType.LIST)
password = _declaration(ConfigType.PASSWORD)


class Config:
    """The base of every configuration. A subclass's keys are its declarations and those of its bases."""

    KEYS: ClassVar[dict[str, ConfigKey]] = {}
    SCOPE: ClassVar[str] = ""
    """What the keys configure, for error messages: `topic`, `broker`."""
    _DEFAULTS: ClassVar[dict[str, Any]] = {}

    def __init_subclass__(cls) -> None:
        keys = {name: key for base in reversed(cls.__bases__) for name, key in getattr(base, "KEYS", {}).items()}
        for attribute, key in [item for item in vars(cls).items() if isinstance(item[1], ConfigKey)]:
            assert attribute == key.attribute, f"{attribute} declares {key.name}"
            keys[key.name] = key
            delattr(cls, attribute)  # so that an instance's own attribute is all there is to find
        cls.KEYS = keys
        cls._DEFAULTS = {key.attribute: key.default for key in keys.values()}

    def __init__(self, **values: Any) -> None:
        unknown = values.keys() - self._DEFAULTS.keys()
        assert not unknown, f"{type(self).__name__} has no {unknown}"
        self.__dict__.update(self._DEFAULTS)
        self.__dict__.update(values)
        self._derive(self.__dict__)

    def _derive(self, values: dict[str, Any]) -> None:
        """Adds attributes that follow from the keys, so that reading them costs no more than reading a key."""

    def check(self) -> None:
        """Raises `InvalidConfig` where two values do not go together."""

    def __setattr__(self, attribute: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable: build another with with_overrides()")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash(tuple(self.__dict__[attribute] for attribute in self._DEFAULTS))

    def __repr__(self) -> str:
        changed = (key for key in self.KEYS.values() if self.__dict__[key.attribute] != key.default)
        values = (f"{key.name}={'[hidden]' if key.sensitive else self.as_text(key.name)}" for key in changed)
        return f"{type(self).__name__}({', '.join(values)})"

    @classmethod
    def parse(cls, texts: Mapping[str, str]) -> Self:
        """Returns the defaults, overridden by `texts`."""
        return cls().with_overrides(texts)

    def with_overrides(self, texts: Mapping[str, str]) -> Self:
        """Returns this configuration with the values that `texts` gives; the same object if it gives none."""
        if not texts:
            return self
        values = {attribute: self.__dict__[attribute] for attribute in self._DEFAULTS}
        for name, text in texts.items():
            key = self.key(name)
            values[key.attribute] = parse_value(key, text)
        config = type(self)(**values)
        config.check()
        return config

    def with_stored(self, texts: Mapping[str, str]) -> Self:
        """Returns this configuration with those of `texts` that can be read. They were judged when they were stored,
        by another node perhaps, or under other defaults; whether they go together is not asked again."""
        values = {attribute: self.__dict__[attribute] for attribute in self._DEFAULTS}
        for name, text in texts.items():
            try:
                key = self.key(name)
                values[key.attribute] = parse_value(key, text)
            except InvalidConfig:
                continue  # of another version, or of a controller that does not look at values
        return type(self)(**values) if texts else self

    @classmethod
    def key(cls, name: str) -> ConfigKey:
        """Returns the declaration of `name`. Raises InvalidConfig with a suggestion if there is none."""
        if (key := cls.KEYS.get(name)) is not None:
            return key
        raise unknown_key(cls.SCOPE, name, cls.KEYS)

    def as_text(self, name: str) -> str | None:
        """Returns the value as Kafka shows it, or None if it has none. The caller hides what is sensitive."""
        return text_of(self.__dict__[self.key(name).attribute])


def unknown_key(scope: str, name: str, known: Iterable[str]) -> InvalidConfig:
    from difflib import get_close_matches

    nearest = get_close_matches(name, known, n=1, cutoff=0.6)
    hint = f"; did you mean {nearest[0]}?" if nearest else ""
    return InvalidConfig(f"Unknown {scope} config name: {name}{hint}")


def invalid_value(name: str, value: object, must_be: str) -> InvalidConfig:
    return InvalidConfig(f"Invalid value {value} for configuration {name}: it must be {must_be}")


def parse_value(key: ConfigKey, text: str) -> Any:
    """Returns the typed value of `text`. Raises InvalidConfig if the key's type or rule does not allow it."""
    shown = "[hidden]" if key.sensitive else text
    try:
        value = _PARSERS[key.type](text)
    except ValueError as error:
        raise invalid_value(key.name, shown, str(error)) from None
    validator = key.validator
    if validator is None:
        return value
    if validator.distinct:
        value = tuple(dict.fromkeys(value))
    if not validator.accepts(value):
        raise invalid_value(key.name, shown, validator.rule)
    return value


def text_of(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    return _text_of_double(value) if isinstance(value, float) else str(value)


def _parse_boolean(text: str) -> bool:
    match text.strip().lower():
        case "true":
            return True
        case "false":
            return False
    raise ValueError("true or false")


def _integer_parser(bits: int) -> Callable[[str], int]:
    limit = 1 << (bits - 1)

    def parse(text: str) -> int:
        try:
            value = limit if "_" in text else int(text)
        except ValueError:
            value = limit
        if not -limit <= value < limit:
            raise ValueError(f"a whole number of {bits} bits")
        return value

    return parse


def _parse_double(text: str) -> float:
    """Parses a double as Java does: it may end in the letter of its type, as in 0.5f."""
    text = text.strip()
    if text[-1:] in ("d", "D", "f", "F") and text[-2:-1] in "0123456789.":
        text = text[:-1]
    try:
        value = float("nan") if "_" in text else float(text)
    except ValueError:
        value = float("nan")
    if not abs(value) < float("inf"):
        raise ValueError("a number")
    return value


def _parse_list(text: str) -> tuple[str, ...]:
    text = text.strip()
    return tuple(entry.strip() for entry in text.split(",")) if text else ()


def _text_of_double(value: float) -> str:
    """Formats a double as Java does: plain from 0.001 up to ten million, and otherwise with an exponent."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    shortest = next(text for places in range(1, 18) if float(text := f"{value:.{places}e}") == value)
    digits, _, exponent = shortest.partition("e")
    return f"{digits}E{int(exponent)}"


_PARSERS: dict[ConfigType, Callable[[str], Any]] = {
    ConfigType.UNKNOWN: str,
    ConfigType.BOOLEAN: _parse_boolean,
    ConfigType.STRING: str.strip,
    ConfigType.SHORT: _integer_parser(16),
    ConfigType.INT: _integer_parser(32),
    ConfigType.LONG: _integer_parser(64),
    ConfigType.DOUBLE: _parse_double,
    ConfigType.LIST: _parse_list,
    ConfigType.CLASS: str.strip,
    ConfigType.PASSWORD: str.strip,
}
