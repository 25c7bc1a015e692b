"""Two answers, field by field. Elements of a list are matched by what they are about, not by their places."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

ABSENT = "(absent)"

ENDING = "connection"
"""The one key of what stands for a missing answer."""

IDENTITY = (
    *("Name", "TopicName", "Topic", "TopicId", "PartitionIndex", "Partition", "Index", "BatchIndex"),
    *("GroupId", "MemberId", "GroupInstanceId", "InstanceId", "ProducerId", "Key", "ApiKey", "NodeId", "BrokerId"),
    *("ResourceType", "ResourceName"),
)
"""The fields that identify an element of a list."""

IN_ORDER = ("ReplicaNodes", "IsrNodes", "Records")
"""Lists whose order means something: the first replica is the preferred leader."""


class Difference(NamedTuple):
    path: str  # without indexes, to be grouped and looked up
    where: str  # with them
    kafka: Any
    barnabas: Any
    inside: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = ()
    """The structs of both answers that hold it, the outermost first."""


def compared(kafka: dict[str, Any], barnabas: dict[str, Any]) -> Iterator[Difference]:
    """Yields the differences. An answer and none are one difference, not one for every field."""
    if kafka != barnabas and (ENDING in kafka or ENDING in barnabas):
        yield Difference(ENDING, ENDING, kafka.get(ENDING, kafka), barnabas.get(ENDING, barnabas))
    else:
        yield from differences(kafka, barnabas)


def differences(
    kafka: Any, barnabas: Any, path: str = "", where: str = "", inside: tuple[Any, ...] = ()
) -> Iterator[Difference]:
    if isinstance(kafka, dict) and isinstance(barnabas, dict):
        within = (*inside, (kafka, barnabas))
        for name in {**kafka, **barnabas}:
            inner = f"{path}.{name}" if path else name
            place = f"{where}.{name}" if where else name
            yield from differences(kafka.get(name, ABSENT), barnabas.get(name, ABSENT), inner, place, within)
    elif isinstance(kafka, list) and isinstance(barnabas, list):
        yield from _lists(kafka, barnabas, path, where, inside)
    elif kafka != barnabas or type(kafka) is not type(barnabas):
        yield Difference(path, where, kafka, barnabas, inside)


def _lists(
    kafka: list[Any], barnabas: list[Any], path: str, where: str, inside: tuple[Any, ...]
) -> Iterator[Difference]:
    if path.rpartition(".")[2] in IN_ORDER:
        pairs = {
            (number,): [kafka[number : number + 1], barnabas[number : number + 1]]
            for number in _longest(kafka, barnabas)
        }
    elif all(isinstance(element, dict) for element in (*kafka, *barnabas)):
        pairs = defaultdict(lambda: [[], []])
        for side, elements in enumerate((kafka, barnabas)):
            for element in gathered(elements):
                pairs[identity(element)][side].append(element)
    else:
        ordered = [sorted(elements, key=repr) for elements in (kafka, barnabas)]
        if ordered[0] != ordered[1]:
            yield Difference(path, where, kafka, barnabas, inside)
        return
    for key, (ours, theirs) in pairs.items():
        for number in _longest(ours, theirs):
            place = f"{where}[{', '.join(map(str, key))}]"
            yield from differences(_at(ours, number), _at(theirs, number), path, place, inside)


def gathered(elements: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Gathers a topic that comes in several pieces into one topic with all their partitions."""
    whole: dict[str, dict[str, Any]] = {}
    for number, element in enumerate(elements):
        lists = [name for name in ("Partitions", "PartitionResponses") if isinstance(element.get(name), list)]
        key = repr({name: value for name, value in element.items() if name not in lists}) if lists else str(number)
        if key in whole:
            element = {**element, **{name: whole[key][name] + element[name] for name in lists}}
        whole[key] = element
    return list(whole.values())


def identity(element: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(element[name] for name in IDENTITY if name in element)


def _longest(*lists: list[Any]) -> range:
    return range(max(map(len, lists)))


def _at(elements: list[Any], number: int) -> Any:
    return elements[number] if number < len(elements) else ABSENT
