import pytest

from barnabas.base.promise import Promise
from barnabas.protocol.errors import KafkaError


def test_who_waits_is_called_when_the_promise_is_kept() -> None:
    promise: Promise[int] = Promise()
    kept: list[int] = []
    promise.when_done(lambda done: kept.append(done.value))
    assert kept == []
    promise.resolve(7)
    assert kept == [7]
    assert promise.done


def test_who_comes_late_is_called_at_once() -> None:
    promise: Promise[int] = Promise()
    promise.resolve(7)
    kept: list[int] = []
    promise.when_done(lambda done: kept.append(done.value))
    assert kept == [7]


def test_a_promise_is_kept_once() -> None:
    promise: Promise[int] = Promise()
    promise.resolve(7)
    with pytest.raises(AssertionError):
        promise.resolve(8)
    with pytest.raises(AssertionError):
        promise.fail(KafkaError("too late"))


def test_one_waits_for_a_promise() -> None:
    promise: Promise[int] = Promise()
    promise.when_done(lambda _done: None)
    with pytest.raises(AssertionError):
        promise.when_done(lambda _done: None)


def test_a_mapped_promise_holds_what_the_function_makes_of_the_value() -> None:
    promise: Promise[int] = Promise()
    mapped = promise.map(lambda value: value * 2).map(str)
    assert not mapped.done
    promise.resolve(21)
    assert mapped.value == "42"


def test_a_failure_passes_through_a_mapped_promise() -> None:
    promise: Promise[int] = Promise()
    mapped = promise.map(lambda value: pytest.fail("there is no value to map"))
    error = KafkaError("no")
    promise.fail(error)
    assert mapped.done
    assert mapped.error is error


def test_a_bug_in_the_function_fails_the_mapped_promise_and_not_the_one_who_keeps_the_first() -> None:
    """A producer keeps the promise of a waiting fetch: its own request must not suffer from the other's reply."""
    promise: Promise[int] = Promise()
    mapped = promise.map(lambda value: value // 0)
    promise.resolve(1)
    assert isinstance(mapped.error, ZeroDivisionError)


def test_a_bug_in_what_follows_or_takes_its_place_is_theirs_as_well() -> None:
    def failing(_: object) -> Promise[int]:
        raise ZeroDivisionError

    promise: Promise[int] = Promise()
    followed = promise.then(failing)
    promise.resolve(1)
    assert isinstance(followed.error, ZeroDivisionError)
    refused: Promise[int] = Promise()
    replaced = refused.or_else(lambda error: 1 // len(error.message))
    refused.fail(KafkaError(""))
    assert isinstance(replaced.error, ZeroDivisionError)


def test_abandoning_tells_the_source_through_every_mapping() -> None:
    abandoned: list[str] = []
    promise: Promise[int] = Promise(lambda: abandoned.append("abandoned"))
    promise.map(str).map(len).abandon()
    assert abandoned == ["abandoned"]


def test_abandoning_a_promise_that_was_kept_is_nothing() -> None:
    promise: Promise[int] = Promise(lambda: pytest.fail("nobody waits any more"))
    mapped = promise.map(str)
    promise.resolve(1)
    mapped.abandon()
    promise.abandon()


def test_a_promise_that_nobody_cares_about_may_be_abandoned() -> None:
    promise: Promise[int] = Promise()
    promise.abandon()
    promise.resolve(1)
    assert promise.value == 1
