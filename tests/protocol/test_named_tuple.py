"""`NamedTuple` is what `typing.NamedTuple` is: each test runs with both."""

import copy
import pickle
import typing
from typing import Any, Generic, TypeVar

import pytest

from barnabas.protocol import named_tuple

T = TypeVar("T")


class Original(typing.NamedTuple):
    """Where something lies."""

    offset: int
    size: int = 1
    name: str | None = None

    @property
    def end(self) -> int:
        return self.offset + self.size

    def moved(self, by: int) -> "Original":
        return self._replace(offset=self.offset + by)


class Ours(named_tuple.NamedTuple):
    """Where something lies."""

    offset: int
    size: int = 1
    name: str | None = None

    @property
    def end(self) -> int:
        return self.offset + self.size

    def moved(self, by: int) -> "Ours":
        return self._replace(offset=self.offset + by)


both = pytest.mark.parametrize("made", [Original, Ours])


@both
def test_values_are_given_by_place_or_name_or_by_default(made: Any) -> None:
    assert made(3) == made(offset=3) == made(3, 1, None) == (3, 1, None)
    assert made(3, name="x") == (3, 1, "x")
    assert hash(made(3)) == hash((3, 1, None))


@both
@pytest.mark.parametrize(
    ("values", "names"),
    [((), {}), ((1, 2, "x", 4), {}), ((1,), {"offset": 2}), ((1,), {"length": 2})],
    ids=["too few", "too many", "twice", "unknown"],
)
def test_what_does_not_fit_is_refused(made: Any, values: tuple[Any, ...], names: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=r"__new__\(\)"):
        made(*values, **names)


@both
def test_fields_are_read_by_name_and_never_written(made: Any) -> None:
    value = made(3, 4, "x")
    assert (value.offset, value.size, value.name, value.end) == (3, 4, "x", 7)
    for name in ("offset", "length"):
        with pytest.raises(AttributeError):
            setattr(value, name, 5)
    assert not hasattr(value, "__dict__")


@both
def test_a_changed_copy_is_of_the_same_class(made: Any) -> None:
    changed = made(3).moved(by=2)
    assert changed == (5, 1, None)
    assert type(changed) is made
    with pytest.raises((TypeError, ValueError), match="length"):
        made(3)._replace(length=2)


@both
def test_it_is_made_from_what_can_be_iterated(made: Any) -> None:
    assert made._make(iter([1, 2, "x"])) == made(1, 2, "x")
    assert type(made._make([1, 2, "x"])) is made
    with pytest.raises(TypeError):
        made._make([1])


@both
def test_it_describes_itself(made: Any) -> None:
    assert made(3)._asdict() == {"offset": 3, "size": 1, "name": None}
    assert made._fields == ("offset", "size", "name")
    assert made._field_defaults == {"size": 1, "name": None}
    assert made.__doc__ == "Where something lies."
    assert repr(made(3)) == f"{made.__name__}(offset=3, size=1, name=None)"


@both
def test_it_is_matched_copied_and_pickled(made: Any) -> None:
    match made(3, 4):
        case made(offset, size):
            assert (offset, size) == (3, 4)
        case _:
            pytest.fail("it does not match its own class")
    for again in (copy.copy(made(3)), copy.deepcopy(made(3)), pickle.loads(pickle.dumps(made(3)))):
        assert again == made(3)
        assert type(again) is made


@pytest.mark.parametrize("base", [typing.NamedTuple, named_tuple.NamedTuple])
def test_it_may_be_generic_or_empty(base: Any) -> None:
    class Box(base, Generic[T]):  # type: ignore[misc]
        content: T

    class Nothing(base):  # type: ignore[misc]
        """Says that nothing is to be done."""

    assert Box[int](3) == Box(3) == (3,)
    assert not hasattr(Box(3), "__dict__")
    assert Nothing() == ()
    assert repr(Nothing()) == "Nothing()"


@both
def test_a_class_that_extends_one_adds_no_fields(made: Any) -> None:
    class Longer(made):  # type: ignore[misc]
        size_max = 8

        def __new__(cls, offset: int) -> "Longer":
            return super().__new__(cls, offset, cls.size_max)  # type: ignore[no-any-return]

    assert Longer(3) == (3, 8, None)
    assert Longer(3).end == 11
    assert type(Longer(3).moved(by=1)) is Longer


def test_classes_of_one_size_share_no_names() -> None:
    class First(named_tuple.NamedTuple):
        a: int
        b: int = 1

    class Second(named_tuple.NamedTuple):
        c: int
        a: int

    assert First(a=1) == (1, 1)
    assert Second(a=1, c=2) == (2, 1)
    assert Second(2, 1).a == 1
    with pytest.raises(TypeError, match="missing"):
        Second(1)  # type: ignore[call-arg]
