"""The file of a history: every event comes back, and what is no event is named with its line."""

import pytest

from barnabas.verification import events
from barnabas.verification.events import BadHistory, Event
from barnabas.verification.history import CLASSES, NAMES, line_of, read_events

EXAMPLES: list[Event] = [
    events.Begin(1, "00ff", "orders", [0, 5], "all", True, False),
    events.Sent(1, 0, 7, 1),
    events.Acknowledged(1, 0, 7, 12),
    events.Acknowledged(1, 0, 7, None),
    events.Failed(1, 0, 7, "_MSG_TIMED_OUT", False),
    events.TransactionBegun(1, 0),
    events.TransactionEnding(1, 0, True),
    events.TransactionEnded(1, 0, None, "_TIMED_OUT"),
    events.Consumer(1, "reader-1", "reader", None),
    events.Assigned(1, "reader-1", 0, 3),
    events.Assigned(1, "reader-1", 0, None),
    events.Polled(1, "reader-1", 0, [[3, 0, 1]], [3]),
    events.Commit(1, "member-1", 0, 4),
    events.Committed(1, "member-1", 0, None, "_TIMED_OUT"),
    events.Asked(1, "member-1", 0),
    events.Told(1, "member-1", 0, 4),
    events.Bounds(1, 0, 0, 4),
    events.Bounds(1, 0, None, None),
    events.Ended(1, "reader-1", 0, 4),
    events.Command(1, 1, "kill 7", 0),
    events.ClientError(1, "producer-0", "_TRANSPORT"),
]


def test_every_event_comes_back() -> None:
    assert {type(event) for event in EXAMPLES} == set(NAMES)
    assert list(read_events(map(line_of, EXAMPLES))) == EXAMPLES


def test_a_line_is_as_documented() -> None:
    assert line_of(events.Sent(5, 0, 7, 1)) == '{"event":"sent","time_ms":5,"producer":0,"sequence":7,"partition":1}'


def test_fields_with_a_usual_value_may_be_left_out() -> None:
    line = '{"event": "polled", "time_ms": 1, "consumer": "c", "partition": 0, "records": []}'
    assert list(read_events([line])) == [events.Polled(1, "c", 0, [])]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("", "line 2: it is no JSON"),
        ("{", "line 2: it is no JSON"),
        ("[]", "line 2: it must be a JSON object"),
        ('{"event": "snt"}', "line 2: the event must be one of begin, sent"),
        ('{"event": ["sent"]}', "line 2: the event must be one of begin, sent"),
        ('{"event": "sent", "time_ms": 1}', "line 2: missing 3 required positional arguments: 'producer'"),
        (
            '{"event": "asked", "time_ms": 1, "consumer": "c", "partition": 0, "x": 1}',
            "unexpected keyword argument 'x'",
        ),
        (
            '{"event": "asked", "time_ms": 1, "consumer": "c", "partition": "0"}',
            "a field of the event asked has the wrong type",
        ),
        (
            '{"event": "asked", "time_ms": true, "consumer": "c", "partition": 0}',
            "a field of the event asked has the wrong type",
        ),
        (
            '{"event": "polled", "time_ms": 1, "consumer": "c", "partition": 0, "records": [[1, 2]]}',
            r"a record must be \[offset, producer, sequence\] and is \[1, 2\]",
        ),
        (
            '{"event": "polled", "time_ms": 1, "consumer": "c", "partition": 0, "records": [[1, 2, "x"]]}',
            r"a record must be \[offset, producer, sequence\] and is \[1, 2, 'x'\]",
        ),
        (
            '{"event": "polled", "time_ms": 1, "consumer": "c", "partition": 0, "records": [], "corrupt": ["x"]}',
            "corrupt must be a list of offsets",
        ),
    ],
)
def test_what_is_no_event_is_named_with_its_line(line: str, reason: str) -> None:
    with pytest.raises(BadHistory, match=reason):
        list(read_events([line_of(EXAMPLES[0]), line]))


def test_every_event_has_a_name_of_its_own() -> None:
    assert len(CLASSES) == len(NAMES)
