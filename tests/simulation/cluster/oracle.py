"""What must be true of a cluster, whatever happens: it hears of every image, every controller and every answer.

The invariants have the numbers of the project's list. What was acknowledged to producers is checked by an oracle of its
own for each partition (`scenarios/oracle.py`), and `replicas/claims.py` knows what may be demanded of it.
"""

from collections.abc import Sequence

from barnabas.base.promise import Promise
from barnabas.protocol.stored.metadata_record_serde import MetadataRecord
from barnabas.protocol.stored.metadata_records import BrokerRegistrationChangeRecord
from barnabas.replication.controller.brokers.fencing import FENCE
from barnabas.replication.controller.quorum_controller import QuorumController
from barnabas.replication.metadata.image import ImageChanges, MetadataImage
from tests.simulation.cluster.facts import Facts
from tests.simulation.cluster.images import ImageHash
from tests.simulation.cluster.replicas.claims import Claims
from tests.simulation.cluster.replicas.elections import Decision, check_decision
from tests.simulation.scenarios.brokers import SimulatedBroker


class ClusterOracle:
    def __init__(self, claims: Claims | None = None, brokers: Sequence[SimulatedBroker] = ()) -> None:
        self._brokers = brokers
        self.facts = Facts()
        self.claims = Claims([], {}, []) if claims is None else claims
        self.controllers: dict[int, tuple[int, int]] = {}
        """Who was active in each epoch of the quorum: the node and its life."""
        self.disturbances = 0
        """How many faults there have been: each may end any session."""
        self.fenced: list[int] = []
        """Whom, one after the other."""
        self._hashes: dict[int, tuple[int, str]] = {}
        self._fenced_at: dict[tuple[int, int], tuple[int, int]] = {}
        """By broker and its epoch: how many faults there had been, and the controller's epoch."""

    def watch(self, broker: SimulatedBroker) -> None:
        """Listens to one life of a broker, from its start on."""
        quorum, life = broker.server.node.quorum, broker.machine.lives
        following = ImageHash(quorum.loader.image)
        self.claims.published(quorum.loader.image)

        def published(image: MetadataImage, changes: ImageChanges) -> None:
            following.follow(image, changes)
            self._published(broker, image, following)
            self.claims.published(image, changes)

        self._listen_to_decisions(quorum)
        self._listen_to_ends_of_sessions(broker, quorum)
        quorum.loader.subscribe(published)
        quorum.on_change(lambda: self._changed(broker, life, quorum))

    # ---- controllers

    def _changed(self, broker: SimulatedBroker, life: int, quorum: QuorumController) -> None:
        if quorum.is_active:
            epoch, active = quorum.active_epoch, (broker.node_id, life)
            one_controller_per_epoch(epoch, self.controllers.setdefault(epoch, active), active)
            self.facts.check(broker.machine.name, quorum.loader.appended_image)

    # ---- images

    def _published(self, broker: SimulatedBroker, image: MetadataImage, following: ImageHash) -> None:
        found, name = following.value, broker.machine.name
        known, first = self._hashes.setdefault(image.end_offset, (found, name))
        equal_images_at_equal_offsets(image.end_offset, (known, first), (found, name))

    # ---- sessions

    def _listen_to_decisions(self, quorum: QuorumController) -> None:
        """What a controller decides is heard at once: it may be committed much later, after the faults that led to
        it."""
        append, append_and_tell = quorum.append, quorum._append_and_tell

        def decided(records: Sequence[MetadataRecord]) -> Promise[None]:
            epoch, appended = quorum.active_epoch, append(records)
            if not (appended.done and appended.error):  # as on a full disk
                for record in records:
                    if isinstance(record, BrokerRegistrationChangeRecord) and record.fenced == FENCE:
                        self._fenced((record.broker_id, record.broker_epoch), epoch)
            return appended

        def decided_upon(
            records: Sequence[MetadataRecord], image: MetadataImage, request: object = None
        ) -> Promise[None]:
            check_decision(Decision(records, image, request))
            return append_and_tell(records, image, request)

        quorum.append = decided  # type: ignore[method-assign]
        quorum._append_and_tell = decided_upon  # type: ignore[method-assign]

    def _listen_to_ends_of_sessions(self, controller: SimulatedBroker, quorum: QuorumController) -> None:
        end_session = quorum.end_session

        def ended(broker_id: int) -> None:
            registered = quorum.loader.image.brokers.get(broker_id)
            for broker in self._brokers:
                if broker.node_id == broker_id and registered is not None:
                    who_can_be_reached_is_not_dead(controller, broker, registered.broker_epoch)
            end_session(broker_id)

        quorum.end_session = ended  # type: ignore[method-assign]

    def _fenced(self, incarnation: tuple[int, int], controller_epoch: int) -> None:
        """Another controller may fence again whom the one before has fenced: that may never have been committed."""
        now = (self.disturbances, controller_epoch)
        nobody_is_fenced_twice_without_a_fault(incarnation, self._fenced_at.get(incarnation), now)
        self._fenced_at[incarnation] = now
        self.fenced.append(incarnation[0])


def one_controller_per_epoch(epoch: int, known: tuple[int, int], found: tuple[int, int]) -> None:
    """I1: one node, in one life of it."""
    assert known == found, f"I1: epoch {epoch} has two active controllers: (node, life) {known} and {found}"


def equal_images_at_equal_offsets(end_offset: int, known: tuple[int, str], found: tuple[int, str]) -> None:
    """I4, I6: what is committed is the same on every node for ever."""
    assert known[0] == found[0], f"I6: {found[1]} and {known[1]} have different images at {end_offset}"


def nobody_is_fenced_twice_without_a_fault(
    incarnation: tuple[int, int], before: tuple[int, int] | None, now: tuple[int, int]
) -> None:
    """I24."""
    assert before != now, f"I24: {incarnation} was fenced twice, and nothing happened in between"


def who_can_be_reached_is_not_dead(controller: SimulatedBroker, broker: SimulatedBroker, broker_epoch: int) -> None:
    """I24: a session ends before its time only if the process is gone, or its machine could not be reached."""
    lives = broker.is_ready and broker.server.node.lifecycle.broker_epoch == broker_epoch
    network, names = controller.world.network, (controller.machine.name, broker.machine.name)
    assert not lives or not network.were_connected(*names), (
        f"I24: {names[0]} takes {names[1]} for dead, which lives and can be reached"
    )
