import threading
from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.base.promise import Promise
from barnabas.broker.system.loop import Loop
from barnabas.broker.system.workers import JobEnded, ThreadWorkers


@pytest.fixture
def loop() -> Iterator[Loop]:
    loop = Loop(lambda error: pytest.fail(f"a callback raised {error!r}"))
    yield loop
    loop.close()


class Outcomes:
    """Stops the loop when as many jobs are done as were expected."""

    def __init__(self, loop: Loop, expected: int) -> None:
        self.loop = loop
        self.expected = expected
        self.results: list[Any] = []
        self.errors: list[Exception] = []
        self.threads: set[int] = set()

    def __call__(self, done: Promise[Any]) -> None:
        self.threads.add(threading.get_ident())
        if done.error is None:
            self.results.append(done.value)
        else:
            self.errors.append(done.error)
        if len(self.results) + len(self.errors) == self.expected:
            self.loop.stop()


def test_a_job_runs_elsewhere_and_its_outcome_arrives_on_the_thread_of_the_loop(loop: Loop) -> None:
    workers, outcomes = ThreadWorkers(loop), Outcomes(loop, 1)
    workers.run(threading.get_ident).when_done(outcomes)
    loop.run()
    workers.close()
    assert outcomes.results != [threading.get_ident()]
    assert outcomes.threads == {threading.get_ident()}


def test_what_a_job_raises_is_its_outcome(loop: Loop) -> None:
    raised = OSError(28, "No space left on device")

    def job() -> None:
        raise raised

    workers, outcomes = ThreadWorkers(loop), Outcomes(loop, 1)
    workers.run(job).when_done(outcomes)
    loop.run()
    workers.close()
    assert outcomes.errors == [raised]


def test_a_job_that_wants_to_end_its_thread_fails_and_the_thread_goes_on(loop: Loop) -> None:
    def job() -> None:
        raise SystemExit(1)

    workers, outcomes = ThreadWorkers(loop, size=1), Outcomes(loop, 2)
    workers.run(job).when_done(outcomes)
    workers.run(lambda: "next").when_done(outcomes)
    loop.run()
    workers.close()
    assert outcomes.results == ["next"]
    assert [(type(error), type(error.__cause__)) for error in outcomes.errors] == [(JobEnded, SystemExit)]


def test_a_thousand_jobs_share_a_few_threads(loop: Loop) -> None:
    workers, outcomes = ThreadWorkers(loop, size=3), Outcomes(loop, 1_000)
    before = threading.active_count()
    for index in range(1_000):
        workers.run(lambda index=index: index).when_done(outcomes)  # type: ignore[misc]
    assert threading.active_count() - before <= 3
    loop.run()
    workers.close()
    assert sorted(outcomes.results) == list(range(1_000))


def test_no_thread_is_started_before_there_is_work_nor_two_for_jobs_that_follow_each_other(loop: Loop) -> None:
    before = threading.active_count()
    workers = ThreadWorkers(loop)
    assert threading.active_count() == before
    for _ in range(5):
        outcomes = Outcomes(loop, 1)
        workers.run(lambda: None).when_done(outcomes)
        loop.run()
    assert threading.active_count() == before + 1
    workers.close()


def test_one_slow_job_does_not_hold_up_the_others(loop: Loop) -> None:
    release = threading.Event()
    workers, outcomes = ThreadWorkers(loop), Outcomes(loop, 3)
    slow: list[bool] = []
    workers.run(release.wait).when_done(lambda done: slow.append(done.value))
    for _ in range(3):
        workers.run(lambda: "quick").when_done(outcomes)
    loop.run()
    assert outcomes.results == ["quick"] * 3
    assert slow == []
    release.set()
    workers.close()


def test_closing_waits_for_the_jobs_that_were_given_and_leaves_no_thread(loop: Loop) -> None:
    before = threading.active_count()
    workers, done = ThreadWorkers(loop, size=2), []
    for index in range(50):
        workers.run(lambda index=index: done.append(index))  # type: ignore[misc]
    workers.close()
    assert sorted(done) == list(range(50))
    assert threading.active_count() == before
