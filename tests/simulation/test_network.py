"""The simulated network keeps TCP's promises, and breaks what TCP does not promise."""

import errno
from random import Random

import pytest

from barnabas.base.files import FileSlice
from barnabas.base.network import READ, WRITE, Address, SocketOptions, Transport
from tests.simulation.files import SimulatedFiles
from tests.simulation.net.streams import Connection, End
from tests.simulation.world import Machine, Process, World

SERVER = Address("server", 9092)
OPTIONS = SocketOptions(backlog=10)
DATA = bytes(range(256)) * 40


class Peer:
    """One end of a connection: sends all it has, reads all it gets, unless it is told to leave it."""

    def __init__(self, transport: Transport, to_send: bytes = b"", *, reads: bool = True) -> None:
        self.transport = transport
        self.unsent = to_send
        self.received = bytearray()
        self.ended: str | None = None
        self.reads = reads
        self._buffer = memoryview(bytearray(1_000))
        self.watch()

    def watch(self) -> None:
        if self.ended is None:
            events = (READ if self.reads else 0) | (WRITE if self.unsent else 0)
            self.transport.watch(events, self.on_event)

    def on_event(self, events: int) -> None:
        try:
            if events & WRITE and self.unsent:
                self.unsent = self.unsent[self.transport.send(self.unsent) :]
            if events & READ:
                self.receive()
        except OSError as error:
            self.end(errno.errorcode[error.errno or 0])
        self.watch()

    def receive(self) -> None:
        count = self.transport.receive_into(self._buffer)
        self.received += self._buffer[:count]
        if not count:
            self.end("FIN")

    def end(self, how: str) -> None:
        self.ended = how
        self.transport.close()


class Pair:
    """A client and a server, connected if the server listens."""

    def __init__(self, seed: int = 1, *, sends: bytes = b"", answers: bytes = b"", reads: bool = True) -> None:
        self.world = World(seed)
        self.client_machine = self.world.machine("client")
        self.server_machine = self.world.machine("server")
        self.server_process = self.server_machine.start()
        self.accepted: list[Peer] = []
        self.answers = answers
        self.reads = reads
        self.listen(self.server_process)
        self.client = Peer(self.client_machine.start().network.connect(SERVER), sends)

    def listen(self, process: Process) -> None:
        process.network.bind("", 9092, OPTIONS).accept(self.accept)

    def accept(self, transport: Transport) -> None:
        self.accepted.append(Peer(transport, self.answers, reads=self.reads))

    def run(self, seconds: float = 1) -> "Pair":
        self.world.scheduler.run_for(seconds * 1_000)
        return self

    @property
    def server(self) -> Peer:
        return self.accepted[0]

    @property
    def connection(self) -> Connection:
        return next(iter(self.world.network.connections.values()))


@pytest.mark.parametrize("seed", range(20))
def test_bytes_arrive_once_and_in_order_both_ways(seed: int) -> None:
    pair = Pair(seed, sends=DATA, answers=DATA[::-1]).run()
    assert pair.server.received == DATA
    assert pair.client.received == DATA[::-1]
    assert pair.server.transport.local == pair.client.transport.peer == ("server", 9092)
    assert pair.server.transport.peer == ("10.0.0.1", pair.client.transport.local[1])


def test_frames_arrive_torn_and_together() -> None:
    sizes = set()
    for seed in range(100):
        pair = Pair(seed, sends=b"0123456789")
        while not pair.accepted or len(pair.server.received) < 10:
            pair.run(0.00005)
            sizes.add(len(pair.server.received) if pair.accepted else 0)
    assert len(sizes) > 3


def test_a_receiver_that_does_not_read_stops_the_sender() -> None:
    pair = Pair(sends=bytes(1_000_000), reads=False).run(60)
    window_bytes = pair.connection.to_server.window_bytes
    assert len(pair.client.unsent) == 1_000_000 - window_bytes
    with pytest.raises(BlockingIOError):
        pair.client.transport.send(b"more")
    pair.server.reads = True
    pair.server.watch()
    pair.run(60)
    assert len(pair.server.received) == 1_000_000


def test_bandwidth_takes_time() -> None:
    pair = Pair().run()
    pair.connection.to_server.bytes_per_s = 10_000
    pair.connection.to_server.window_bytes = 1 << 20
    pair.client.unsent = bytes(50_000)
    pair.client.watch()
    pair.run(2)
    assert len(pair.server.received) < 50_000
    pair.run(4)
    assert len(pair.server.received) == 50_000


def test_a_stream_that_stalls_delivers_later_and_in_order() -> None:
    pair = Pair().run()
    pair.connection.to_server.stall(5_000)
    pair.client.unsent = DATA
    pair.client.watch()
    assert pair.run(4.9).server.received == b""
    assert pair.run(1).server.received == DATA


@pytest.mark.parametrize(
    ("end", "client", "server"),
    [
        (End.FIN, "FIN", "FIN"),
        (End.RST, "ECONNRESET", "ECONNRESET"),
        (End.SILENCE, None, None),  # nobody is told
    ],
)
@pytest.mark.parametrize("after_bytes", [0, 1, 1_234])
def test_a_stream_is_cut_at_a_byte(end: End, client: str | None, server: str | None, after_bytes: int) -> None:
    pair = Pair().run()
    pair.connection.to_server.cut(end, after_bytes)
    pair.client.unsent = DATA
    pair.client.watch()
    pair.run(60)
    assert pair.server.received == DATA[:after_bytes]
    assert (pair.client.ended, pair.server.ended) == (client, server)


def test_silence_has_one_direction() -> None:
    pair = Pair().run()
    pair.connection.to_server.cut(End.SILENCE)
    pair.client.unsent, pair.server.unsent = b"lost", b"heard"
    pair.client.watch()
    pair.server.watch()
    pair.run()
    assert (bytes(pair.client.received), bytes(pair.server.received)) == (b"heard", b"")


def test_bytes_that_nobody_acknowledges_break_the_connection_after_a_quarter_of_an_hour() -> None:
    pair = Pair().run()
    pair.world.network.cut("client", "server")
    pair.client.unsent = b"request"
    pair.client.watch()
    assert pair.run(899).client.ended is None
    pair.client.watch()
    assert pair.run(10).client.ended == "ETIMEDOUT"


@pytest.mark.parametrize("cut", [("client", "server"), ("server", "client")])
def test_a_path_that_heals_loses_nothing(cut: tuple[str, str]) -> None:
    pair = Pair().run()
    pair.world.network.cut(*cut)
    pair.client.unsent = pair.server.unsent = bytes(500_000)
    pair.client.watch()
    pair.server.watch()
    pair.run(30)
    got = {"client": len(pair.client.received), "server": len(pair.server.received)}
    assert got[cut[1]] == 0
    assert 0 < got[cut[0]] < 500_000 or got[cut[0]] in (0, 500_000), "acknowledgements do not come back"
    pair.world.network.heal(*cut)
    pair.run(30)
    assert len(pair.client.received) == len(pair.server.received) == 500_000


def test_a_connect_where_nobody_listens_is_refused() -> None:
    world = World(1)
    world.machine("server").start()
    client = Peer(world.machine("client").start().network.connect(SERVER), b"hello")
    world.scheduler.run_for(10)
    assert client.ended == "ECONNREFUSED"


def test_a_bound_socket_refuses_until_it_accepts() -> None:
    world = World(1)
    bound = world.machine("server").start().network.bind("0.0.0.0", 9092, OPTIONS)
    network = world.machine("client").start().network
    refused = Peer(network.connect(SERVER), b"hello")
    world.scheduler.run_for(10)
    assert refused.ended == "ECONNREFUSED"
    accepted = list[Peer]()
    bound.accept(lambda transport: accepted.append(Peer(transport)))
    Peer(network.connect(SERVER), b"hello")
    world.scheduler.run_for(10)
    assert accepted[0].received == b"hello"
    bound.close()
    refused = Peer(network.connect(SERVER), b"hello")
    accepted[0].unsent = b"alive"
    world.scheduler.run_for(10)
    assert (refused.ended, accepted[0].ended) == ("ECONNREFUSED", None)


@pytest.mark.parametrize("how", ["the way there", "the way back", "no power"])
def test_a_connect_that_nobody_answers_is_slow_or_times_out(how: str) -> None:
    def broken() -> tuple[World, Machine, Peer, list[Peer]]:
        world, accepted = World(1), list[Peer]()
        server = world.machine("server")
        server.start().network.bind("", 9092, OPTIONS).accept(lambda transport: accepted.append(Peer(transport)))
        if how == "no power":
            server.cut_power()
        else:
            world.network.cut(*(("client", "server") if how == "the way there" else ("server", "client")))
        return world, server, Peer(world.machine("client").start().network.connect(SERVER), b"hi"), accepted

    world, server, client, accepted = broken()
    world.scheduler.run_for(5_000)
    assert (client.ended, accepted) == (None, [])
    if how == "no power":
        server.start().network.bind("", 9092, OPTIONS).accept(lambda transport: accepted.append(Peer(transport)))
    world.network.heal_all()
    world.scheduler.run_for(10_000)
    assert accepted[0].received == b"hi"

    world, server, client, accepted = broken()
    world.scheduler.run_for(300_000)
    assert client.ended == "ETIMEDOUT"


def test_an_address_is_had_once_and_only_on_its_machine() -> None:
    network = World(1).machine("server").start().network
    network.bind("server", 9092, OPTIONS)
    with pytest.raises(OSError, match="in use"):
        network.bind("", 9092, OPTIONS)
    with pytest.raises(OSError, match="assign"):
        network.bind("elsewhere", 9093, OPTIONS)
    assert network.bind("", 0, OPTIONS).address[1] > 0


def test_closing_ends_the_stream_behind_what_was_sent_unless_something_was_not_read() -> None:
    pair = Pair(answers=b"bye").run()
    pair.server.transport.close()
    pair.server.transport.close()
    assert pair.run().client.ended == "FIN"
    assert pair.client.received == b"bye"
    pair = Pair(sends=b"never read", reads=False).run()
    pair.server.transport.close()
    assert pair.run().client.ended == "ECONNRESET"
    with pytest.raises(OSError, match="descriptor"):
        pair.server.transport.send(b"x")


def test_who_sends_to_somebody_who_closed_is_reset() -> None:
    pair = Pair().run()
    pair.client.reads = False
    pair.client.watch()
    pair.server.transport.close()
    pair.run()
    pair.client.unsent = b"too late"
    pair.client.reads = True
    pair.client.watch()
    pair.client.reads = False
    pair.run()
    assert pair.client.ended in ("FIN", "ECONNRESET")


@pytest.mark.parametrize("seed", range(6))
def test_a_killed_process_is_noticed_and_a_machine_without_power_is_not(seed: int) -> None:
    pair = Pair(seed).run()
    pair.server_machine.kill()
    assert pair.run().client.ended in ("FIN", "ECONNRESET")

    pair = Pair(seed).run()
    pair.server_machine.cut_power()
    pair.client.unsent = b"hello?"
    pair.client.watch()
    assert pair.run(60).client.ended is None
    pair.server_machine.start()
    assert pair.run(10).client.ended == "ECONNRESET", "the machine is up again and knows of no connection"


def test_bytes_of_a_file_are_those_it_has_when_they_are_sent() -> None:
    pair = Pair().run()
    files = SimulatedFiles(Random(1))
    files.makedirs("/data")
    file = files.open("/data/log", create=True)
    file.writev([DATA])
    assert pair.client.transport.send_file(FileSlice(file, 100, 300)) == 300
    assert pair.client.transport.send_buffers([b"ab", b"cd"], more=False) == 4
    file.truncate(150)
    assert pair.run().server.received == DATA[100:400] + b"abcd"
    assert pair.client.transport.send_file(FileSlice(file, 100, 300)) == 50
    with pytest.raises(OSError, match="ended"):
        pair.client.transport.send_file(FileSlice(file, 150, 300))


def test_nobody_is_called_who_watches_nothing_or_closed() -> None:
    pair = Pair(answers=b"hello").run(0.0001)
    calls = list[int]()
    pair.client.transport.watch(0, calls.append)
    pair.run()
    assert calls == []
    pair.client.transport.watch(READ, calls.append)
    pair.run(0.001)
    assert set(calls) == {READ}
    assert len(calls) > 3, "as long as there is something to read"
    calls.clear()
    pair.client.transport.close()
    pair.run()
    assert calls == []
