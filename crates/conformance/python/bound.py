"""A client that works as that of go-hep does: its requests go out on the first connection of a session, and what is written
on the further connection that the request names, where the answer comes as well: python3 bound.py PORT PATH BLOCKS writes
blocks of PATH and reads them back by reads and vector reads."""

import select
import socket
import struct
import sys

PORT, PATH, BLOCKS = int(sys.argv[1]), sys.argv[2].encode(), int(sys.argv[3])
CLOSE, PROTOCOL, LOGIN, OPEN, PING, READ, SYNC, STAT, WRITE, BIND, READV = (
    3003, 3006, 3007, 3010, 3011, 3013, 3016, 3017, 3019, 3024, 3025)
READ_ONLY, DELETE, OKSOFAR = 0x10, 0x02, 4000
STREAMS, BLOCK = 3, 100_003


class Connection:
    def __init__(self):
        self.socket = socket.create_connection(("localhost", PORT), timeout=60)
        # As old clients do: in two pieces, and each with its answer.
        self.socket.sendall(struct.pack(">IIIII", 0, 0, 0, 4, 2012))
        self.answer()
        self.ask(PROTOCOL, struct.pack(">I12x", 0x310))

    def received(self, count):
        data = b""
        while len(data) < count:
            more = self.socket.recv(count - len(data))
            assert more, "the server has closed"
            data += more
        return data

    def answer(self):
        """The number of the next answer's request, and its data."""
        data, status = b"", OKSOFAR
        while status == OKSOFAR:
            number, status, length = struct.unpack(">HHI", self.received(8))
            data += self.received(length)
        assert status == 0, (number, status, data)
        return number, data

    def send(self, number, request, parameters, payload=b"", length=None):
        head = struct.pack(">HH16sI", number, request, parameters, len(payload) if length is None else length)
        self.socket.sendall(head)
        self.socket.sendall(payload)

    def ask(self, request, parameters=bytes(16), payload=b""):
        self.send(1, request, parameters, payload)
        return self.answer()[1]


def block(index):
    return bytes((index * 7 + at * 13) & 0xFF for at in range(251)) * (BLOCK // 251) + bytes(BLOCK % 251)


def wait_for(streams, expected):
    """Takes the answers of these requests, each on the connection that it named."""
    waiting = {stream.socket: (path, stream) for path, stream in streams.items()}
    while expected:
        ready, _, _ = select.select(list(waiting), [], [], 60)
        assert ready, f"no answer to {expected}"
        for readable in ready:
            path, stream = waiting[readable]
            number, data = stream.answer()
            assert expected.pop(number)[0] == path, (number, path)
            yield number, data


def main():
    own = Connection()
    session = own.ask(LOGIN, struct.pack(">I8sBBBB", 1, b"gopher", 0, 0, 4, 0))[:16]
    # XRootD answers a login before others can see the session; the second answer comes after that.
    own.ask(PING)
    streams = {0: own}
    for _ in range(STREAMS):
        stream = Connection()
        path = stream.ask(BIND, session)
        streams[path[0]] = stream
    assert len(streams) == STREAMS + 1, streams
    handle = own.ask(OPEN, struct.pack(">HH12x", 0o644, DELETE), PATH)[:4]
    paths = sorted(streams)
    expected = {}
    for index in range(BLOCKS):
        path, number = paths[index % len(paths)], 100 + index
        expected[number] = (path, index)
        parameters = struct.pack(">4sQB3x", handle, index * BLOCK, path)
        if path == 0:
            own.send(number, WRITE, parameters, block(index))
        else:
            own.send(number, WRITE, parameters, length=BLOCK)
            streams[path].socket.sendall(block(index))
    for _, data in wait_for(streams, expected):
        assert data == b""
    own.ask(SYNC, struct.pack(">4s12x", handle))
    # The first connection is in step.
    assert own.ask(STAT, struct.pack(">12x4s", handle)).split()[1] == str(BLOCKS * BLOCK).encode()
    own.ask(CLOSE, struct.pack(">4s12x", handle))

    handle = own.ask(OPEN, struct.pack(">HH12x", 0, READ_ONLY), PATH)[:4]
    expected = {}
    for index in range(BLOCKS):
        path, number = paths[index % len(paths)], 100 + index
        expected[number] = (path, index)
        arguments = struct.pack(">B7x", path) if path else b""
        own.send(number, READ, struct.pack(">4sQI", handle, index * BLOCK, BLOCK), arguments)
    for number, data in wait_for(streams, expected):
        assert data == block(number - 100), number
    pieces = [struct.pack(">4sIQ", handle, 10, index * BLOCK) for index in range(BLOCKS)]
    # XRootD 5.5 does not answer a vector read on the connection that it names.
    read = own.ask(READV, payload=b"".join(pieces))
    assert read == b"".join(piece + block(index)[:10] for index, piece in enumerate(pieces))
    own.ask(CLOSE, struct.pack(">4s12x", handle))
    own.ask(PING)
    print("done")


main()
