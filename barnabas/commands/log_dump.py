"""`barnabas log dump`: what is in the files of a data directory. Exit code 1 if anything in them is damaged."""

from collections.abc import Callable
from itertools import chain
from typing import Any

from barnabas.log_reader import Item, find_files, read
from barnabas.options import Arguments, Command, Failure, Option
from barnabas.output import human_bytes, iso_time, plural, say


def dump(arguments: Arguments) -> int:
    show = _as_json() if arguments.json else _as_text
    damaged = False
    for path in chain.from_iterable(map(find_files, arguments.path)):
        if not arguments.json:
            print(path)
        damaged |= _dump_file(path, show, records=arguments.records, summarized=not arguments.json)
    return 1 if damaged else 0


def _dump_file(path: str, show: Callable[[str, Item], str], *, records: bool, summarized: bool) -> bool:
    batches = count = damages = 0
    try:
        for item in read(path, records=records):
            print(show(path, item))
            batches += item["type"] == "batch"
            count += item["records"] if item["type"] == "batch" else 0
            damages += item["type"] == "damage"
            if item["type"] == "damage":
                say(f"barnabas: {path}: {item['text']} (byte {item['position']})")
    except ValueError as error:
        raise Failure(str(error)) from None
    if batches and summarized:
        state = f"{damages} damaged" if damages else "all valid"
        print(f"  {plural(batches, 'batch').replace('batchs', 'batches')}, {plural(count, 'record')}, {state}")
    return damages > 0


def _as_json() -> Callable[[str, Item], str]:
    from json import JSONEncoder

    encode = JSONEncoder(ensure_ascii=False).encode
    return lambda path, item: encode({"file": path, **item})


def _as_text(_path: str, item: Item) -> str:
    return _TEXTS[item["type"]](item)


def _batch(item: Item) -> str:
    parts = [
        f"  batch {item['base_offset']}..{item['last_offset']}",
        plural(item["records"], "record"),
        f"{human_bytes(item['size_bytes'])} at {item['position']}",
        f"epoch {item['leader_epoch']}",
        item["compression"] if item["compression"] != "none" else "",
        iso_time(item["max_timestamp"]) if item["max_timestamp"] >= 0 else "no timestamp",
        _producer_of(item),
        "transactional" if item["is_transactional"] else "",
        "control" if item["is_control"] else "",
        "crc ok" if item["is_valid"] else "CRC DOES NOT MATCH",
    ]
    return "  ".join(filter(None, parts))


def _producer_of(item: Item) -> str:
    if item["producer_id"] < 0:
        return ""
    sequences = f" sequence {item['base_sequence']}..{item['last_sequence']}" if item["base_sequence"] >= 0 else ""
    return f"producer {item['producer_id']}/{item['producer_epoch']}{sequences}"


def _record(item: Item) -> str:
    headers = ", ".join(f"{header['key']}={_data(header, 'value')}" for header in item["headers"])
    text = f"    {item['offset']}  {iso_time(item['timestamp'])}  {_data(item, 'key')} = {_data(item, 'value')}"
    return f"{text}  [{headers}]" if headers else text


def _data(item: Item, name: str) -> str:
    if f"{name}_base64" in item:
        return f"base64:{item[f'{name}_base64']}"
    return "null" if item[name] is None else repr(item[name])


def _named(item: Item) -> str:
    return f"    {item['offset']}  {item['name']}  {_fields(item['data'])}"


def _fields(data: Any) -> str:
    if isinstance(data, dict):
        return " ".join(f"{name}={_inner(value)}" for name, value in data.items())
    return str(data)


def _inner(value: Any) -> str:
    if isinstance(value, dict):
        return f"({_fields(value)})"
    if isinstance(value, list):
        return f"[{', '.join(map(_inner, value))}]"
    return "null" if value is None else str(value)


def _plain(item: Item) -> str:
    return "  " + _fields({name: value for name, value in item.items() if name != "type"})


_TEXTS: dict[str, Callable[[Item], str]] = {
    "batch": _batch,
    "record": _record,
    "metadata": _named,
    "control": _named,
    "index_entry": _plain,
    "time_index_entry": lambda item: (
        f"  timestamp={item['timestamp']} ({iso_time(item['timestamp'])}) offset={item['offset']}"
    ),
    "aborted_transaction": _plain,
    "producer": _plain,
    "checkpoint_entry": _plain,
    "line": lambda item: f"  {item['text']}",
    "damage": lambda item: f"  DAMAGED at byte {item['position']}: {item['text']}",
}

COMMANDS = (
    Command(
        "log dump",
        "Show what is in segments, indexes, snapshots and checkpoints, and whether it is valid.",
        dump,
        (
            Option("-r --records", "the records of each batch too; those of __cluster_metadata by name"),
            Option("--json", "a JSON object per line"),
        ),
        "PATH...",
        (
            "barnabas log dump ./data/orders-0",
            "barnabas log dump ./data/__cluster_metadata-0 --records",
            "barnabas log dump ./data --json | jq 'select(.type == \"damage\")'",
        ),
    ),
)
