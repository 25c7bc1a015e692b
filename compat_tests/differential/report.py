"""What was sent, what differed and may, and what differed and may not, with the way to see it again."""

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from compat_tests.differential.allowed import Allowed
from compat_tests.differential.compare import ENDING, Difference
from compat_tests.differential.sides import Answer, Request


class Found(NamedTuple):
    """A difference that is not allowed."""

    story: str
    seed: int
    step: int
    request: Request
    difference: Difference
    log: tuple[str, ...]


class Report:
    def __init__(self) -> None:
        self.pairs: Counter[tuple[str, int]] = Counter()  # by API and version
        self.endings: Counter[tuple[str, str]] = Counter()  # by API: answers, closed connections, silence
        self.allowed: Counter[Allowed] = Counter()
        self.found: list[Found] = []

    @property
    def total(self) -> int:
        return self.pairs.total()

    def count(self, request: Request, kafka: Answer) -> None:
        version = request.version if request.sent_version is None else request.sent_version
        self.pairs[request.api.name, version] += 1
        self.endings[request.api.name, kafka.get(ENDING, "answered")] += 1

    def lines(self, *, with_logs: bool) -> Iterator[str]:
        yield from self._coverage()
        yield ""
        yield "differences that are allowed:"
        for entry, times in self.allowed.most_common():
            yield f"  {times:6} {entry.api} {entry.path}: {entry.reason}"
        yield ""
        yield f"{len(self.found)} differences that are not:"
        for (api, path), group in self._grouped().items():
            versions = sorted({found.request.version for found in group})
            yield f"  {len(group):4} {api} {path}, versions {versions}"
            for found in group[:5]:
                kafka, barnabas = shown(found.difference.kafka, 150), shown(found.difference.barnabas, 150)
                again = f"--only {found.story} --seed {found.seed}, step {found.step}"
                yield f"       {again}: kafka {kafka}, barnabas {barnabas}"
            if with_logs:
                yield from (f"         | {line}" for line in min((found.log for found in group), key=len)[-12:])

    def _coverage(self) -> Iterator[str]:
        for api in dict.fromkeys(api for api, _ in sorted(self.pairs)):
            by_version = {version: times for (name, version), times in sorted(self.pairs.items()) if name == api}
            versions = " ".join(f"v{version}:{times}" for version, times in by_version.items())
            endings = ", ".join(f"{times} {ending}" for (name, ending), times in self.endings.items() if name == api)
            yield f"{api:26} {sum(by_version.values()):6} pairs ({endings})  {versions}"

    def _grouped(self) -> dict[tuple[str, str], list[Found]]:
        grouped: dict[tuple[str, str], list[Found]] = {}
        for found in self.found:
            grouped.setdefault((found.request.api.name, found.difference.path), []).append(found)
        return dict(sorted(grouped.items(), key=lambda item: -len(item[1])))


def shown(value: Any, limit: int = 1_500) -> str:
    """Formats a value for a log: what is long is cut."""
    text = _shown(value)
    return text if len(text) <= limit else f"{text[:limit]}... ({len(text)})"


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {_shown(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_shown, value)) + "]"
    text = str(value) if isinstance(value, tuple) else repr(value)
    return text if len(text) < 300 else f"{text[:200]}...({len(text)})"
