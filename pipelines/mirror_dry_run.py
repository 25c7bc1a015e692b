"""What a mirror would do: all its checks, and none of its changes."""

from collections.abc import Iterator

from barnabas.pipelines.mirror_rounds import Mirror, Sight


def planned(mirror: Mirror, starting_offsets: str, *, fail_on_data_loss: bool) -> Iterator[str]:
    """Lines to print. Raises Failure if the mirror could not begin."""
    sight = mirror.look()
    if not sight.sources:
        yield "no topic matches yet; topics that do are copied when they appear"
    if not mirror.state.writing:
        mirror.writer.require_alone(name for name in mirror.state.topics if name in sight.sources)
    else:
        yield "the last run died while it wrote: what the target has will be compared with the source first"
    mirror.skip_lost(sight, fail=fail_on_data_loss)
    if mirror.lost_offsets:
        yield f"{mirror.lost_offsets:,} offsets are gone from the source and will be left out"
    yield from (_topic(mirror, name, sight, starting_offsets) for name in sight.sources)


def _topic(mirror: Mirror, name: str, sight: Sight, starting_offsets: str) -> str:
    source = sight.sources[name]
    new = {key: each for key, each in mirror.new_partitions(sight, starting_offsets).items() if key[0] == name}
    there = sight.targets[name].partitions if name in sight.targets else 0
    held = mirror.writer.held(key for key in new if key[1] < there) if there else []
    if held and not mirror.adopt:
        raise mirror.writer.not_empty(held[0])
    nexts = {key: place.next for key, place in mirror.state.places().items() if key in sight.ends and key[0] == name}
    nexts |= {key: each.first for key, each in new.items()}
    left = sum(sight.ends[key].end - offset for key, offset in nexts.items())
    plan = f"{source.name} → {name}: {source.partitions} partitions, {left:,} offsets to copy"
    how = "is there; what it holds will be compared first" if held else _there(mirror, name, sight)
    return f"{plan}, {how}"


def _there(mirror: Mirror, name: str, sight: Sight) -> str:
    source, target = sight.sources[name], sight.targets.get(name)
    if target is None:
        configs = mirror.new_topics.configs_of(mirror.source.cluster.topics([source.name])[source.name])
        told = ", ".join(f"{key}={value}" for key, value in sorted(configs.items()))
        return f"will be created{f' with {told}' if told else ''}"
    if target.partitions < source.partitions:
        return f"gets {source.partitions - target.partitions} more partitions"
    return "goes on" if name in mirror.state.topics else "is there already"
