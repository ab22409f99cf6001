"""Clients that leave Nagle's algorithm on against ones that do not: python3 nagle.py PORT ROUNDS makes all kinds of requests
in both ways, by turns, on /data/file and below /data/written, and prints a line for each kind: the medians in milliseconds
with and without the algorithm, and the kind's name."""

import socket
import ssl
import statistics
import struct
import sys
import time

PORT, ROUNDS = int(sys.argv[1]), int(sys.argv[2])
HEAD = b"HEAD /data/file HTTP/1.1\r\nHost: localhost\r\n"
GET = b"GET /data/file HTTP/1.1\r\nHost: localhost\r\n\r\n"
BODY = b"x" * 100
PUT = b"PUT /data/written/%s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n"
# Numbers of the XRootD protocol.
CLOSE, PROTOCOL, LOGIN, OPEN, STAT, WRITE = 3003, 3006, 3007, 3010, 3017, 3019
WANT_TLS, EXPECT_LOGIN, DELETE = 0x06, 3, 0x02


def tls_of(version):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.minimum_version = context.maximum_version = version
    return context


def connected(nodelay):
    connection = socket.create_connection(("127.0.0.1", PORT), timeout=60)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, nodelay)
    return connection


def received(connection, count):
    data = b""
    while len(data) < count:
        more = connection.recv(count - len(data))
        assert more, "the server has closed"
        data += more
    return data


def asked(connection, pieces):
    """Sends a request piece by piece and reads its answer."""
    for piece in pieces:
        connection.sendall(piece)
    answer = b""
    while b"\r\n\r\n" not in answer:
        more = connection.recv(65536)
        assert more, "the server has closed"
        answer += more
    head, body = answer.split(b"\r\n\r\n", 1)
    assert head.startswith(b"HTTP/1.1 2"), head
    lines = [line.split(b":") for line in head.lower().split(b"\r\n")]
    length = sum(int(line[1]) for line in lines if line[0] == b"content-length")
    if not pieces[0].startswith(b"HEAD"):
        received(connection, length - len(body))


def http(pieces, context=None, resumed=False, second=None):
    """The first request of a connection with its handshake, or the second alone."""

    def visit(nodelay):
        session = None
        if resumed:
            with context.wrap_socket(connected(1)) as before:
                asked(before, [HEAD, b"\r\n"])
                session = before.session
        with connected(nodelay) as plain:
            began = time.perf_counter()
            connection = context.wrap_socket(plain, session=session) if context else plain
            asked(connection, pieces)
            assert not resumed or connection.session_reused
            if second:
                began = time.perf_counter()
                asked(connection, second)
            took = time.perf_counter() - began
            connection.close()
            return took

    return visit


def answered(connection):
    _, status, length = struct.unpack(">HHI", received(connection, 8))
    body = received(connection, length)
    assert status == 0, (status, body)
    return body


def told(connection, number, parameters, payload, split):
    """One request of the XRootD protocol, in one piece or two, and its answer."""
    head = struct.pack(">HH16sI", 1, number, parameters, len(payload))
    for piece in [head, payload] if split else [head + payload]:
        connection.sendall(piece)
    return answered(connection)


def xroot(kind, context=None, split=False):
    """A session up to its first request, or several requests in a session."""

    def visit(nodelay):
        with connected(nodelay) as plain:
            began = time.perf_counter()
            plain.sendall(struct.pack(">IIIII", 0, 0, 0, 4, 2012))
            answered(plain)
            flags = WANT_TLS if context else 0
            told(plain, PROTOCOL, struct.pack(">IBB10x", 0x511, flags, EXPECT_LOGIN), b"", False)
            connection = context.wrap_socket(plain) if context else plain
            told(connection, LOGIN, struct.pack(">I8sBBBB", 1, b"tester", 0, 0, 5, 0), b"", False)
            if kind == "first":
                told(connection, STAT, bytes(16), b"/data/file", split)
            elif kind == "stats":
                began = time.perf_counter()
                for _ in range(3):
                    told(connection, STAT, bytes(16), b"/data/file", split)
            else:
                path = b"/data/written/x%d" % nodelay
                handle = told(connection, OPEN, struct.pack(">HH12x", 0o644, DELETE), path, False)[:4]
                began = time.perf_counter()
                for index in range(3):
                    told(connection, WRITE, struct.pack(">4sQ4x", handle, index * 100), BODY, split)
            took = time.perf_counter() - began
            connection.close()
            return took

    return visit


def kinds():
    versions = [("clear", None), ("1.3", tls_of(ssl.TLSVersion.TLSv1_3)), ("1.2", tls_of(ssl.TLSVersion.TLSv1_2))]
    for version, context in versions:
        for resumed in [False, True] if context else [False]:
            name = f"http {version}{' resumed' if resumed else ''}"
            yield f"{name}, first", http([HEAD + b"\r\n"], context, resumed)
            yield f"{name}, first in two pieces", http([HEAD, b"\r\n"], context, resumed)
            yield f"{name}, first PUT in two pieces", http([PUT % b"f", BODY], context, resumed)
            yield f"{name}, second", http([GET], context, resumed, [GET])
            yield f"{name}, second PUT in two pieces", http([GET], context, resumed, [PUT % b"s", BODY])
        for kind in ["first", "stats", "writes"]:
            for split in [False, True]:
                yield f"xroot {version}, {kind}{' in two pieces' if split else ''}", xroot(kind, context, split)


for label, visit in kinds():
    times = ([], [])
    for _ in range(ROUNDS):
        for nodelay in [0, 1]:
            times[nodelay].append(visit(nodelay) * 1000)
    print(f"{statistics.median(times[0]):.3f} {statistics.median(times[1]):.3f} {label}", flush=True)
