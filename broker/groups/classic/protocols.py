"""Which protocol a classic group uses: the members vote among those that all of them support."""

from collections.abc import Iterable

from barnabas.broker.groups.classic.member import Protocols


class ProtocolVotes:
    __slots__ = ("_member_count", "_supporters")

    def __init__(self) -> None:
        self._member_count = 0
        self._supporters: dict[str, int] = {}

    def add(self, protocols: Protocols) -> None:
        """Adds the protocols of one member. A name that it gives twice counts once."""
        self._member_count += 1
        for name in dict(protocols):
            self._supporters[name] = self._supporters.get(name, 0) + 1

    def remove(self, protocols: Protocols) -> None:
        self._member_count -= 1
        for name in dict(protocols):
            self._supporters[name] -= 1
            if not self._supporters[name]:
                del self._supporters[name]

    def is_common(self, name: str) -> bool:
        """Returns whether every member supports it; true if there are no members."""
        return self._supporters.get(name, 0) == self._member_count

    def select(self, members: Iterable[Protocols]) -> str:
        """Returns the protocol with the most votes. Each member votes for the first of its own that all support; the
        earliest vote breaks a tie."""
        votes: dict[str, int] = {}
        for protocols in members:
            name = next(name for name, _ in protocols if self.is_common(name))
            votes[name] = votes.get(name, 0) + 1
        return max(votes, key=votes.__getitem__)
