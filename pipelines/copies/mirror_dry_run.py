"""What a mirror would do: all its checks, and none of its changes."""

from collections.abc import Iterator

from barnabas.pipelines.copies.mirror_rounds import Mirror, Sight
from barnabas.pipelines.shared.progress import plural


def planned(mirror: Mirror, starting_offsets: str, *, fail_on_data_loss: bool) -> Iterator[str]:
    """Yields the lines to print. Raises Failure if the mirror could not begin."""
    sight = mirror.look()
    if not sight.sources:
        yield "no topic matches so far; topics that match are copied when they appear"
    new = mirror.new_partitions(sight, starting_offsets)
    mirror.require_empty(sight, new)
    if mirror.state.writing:
        yield "the last run died while it wrote: the target's records will be compared with the source's first"
    elif not mirror.adopt:
        mirror.writer.require_alone(name for name in mirror.state.topics if name in sight.sources)
    mirror.skip_lost(sight, fail=fail_on_data_loss)
    if mirror.lost_offsets:
        yield f"{mirror.lost_offsets:,} offsets were deleted from the source and will be left out"
    next_offsets = {key: place.next for key, place in mirror.state.places().items() if key in sight.ends}
    next_offsets |= {key: beginning.first for key, beginning in new.items()}
    for name, source in sight.sources.items():
        left = sum(sight.ends[key].end - offset for key, offset in next_offsets.items() if key[0] == name)
        there = _there(mirror, name, sight)
        size = f"{plural(source.partitions, 'partition')}, {plural(left, 'offset')} to copy"
        yield f"{source.name} → {name}: {size}, {there}"


def _there(mirror: Mirror, name: str, sight: Sight) -> str:
    source, target = sight.sources[name], sight.targets.get(name)
    if target is None:
        configs = mirror.new_topics.configs_of(mirror.source.cluster.topics([source.name])[source.name])
        told = ", ".join(f"{key}={value}" for key, value in sorted(configs.items()))
        return f"will be created{f' with {told}' if told else ''}"
    if target.partitions < source.partitions:
        return f"gets {source.partitions - target.partitions} more partitions"
    if mirror.adopt:
        return "its records there will be compared first"
    return "goes on" if name in mirror.state.topics else "exists already, and is empty"
