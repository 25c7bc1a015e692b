"""Every reader reaches the end of every partition when the load is over."""

from collections.abc import Iterator

from barnabas.verification.events import Ended
from barnabas.verification.findings import Finding, Kind
from barnabas.verification.ledger import Ledger


def stuck_reads(ledger: Ledger, endings: list[Ended], unknown_bounds: set[int]) -> Iterator[Finding]:
    for index in sorted(unknown_bounds):
        yield Finding(Kind.STUCK_READ, "no broker said where it begins and ends", index)
    for ended in endings:
        end = ledger.partition(ended.partition).end
        if end is not None and ended.position < end:
            said = f"{ended.consumer} came to offset {ended.position} of {end}"
            yield Finding(Kind.STUCK_READ, said, ended.partition, ended.position, time_ms=ended.time_ms)
