"""A broker for STOMP 1.2 that keeps nothing: python3 stomp_broker.py [CERTIFICATE KEY AUTHORITY].

With a certificate it speaks TLS, and demands a certificate of the authority from each client. Prints one JSON object a
line: the port, each login, and each message with the number of its connection, before it is confirmed.
"""

import json
import socket
import ssl
import sys
import threading

printing = threading.Lock()


def say(**what):
    with printing:
        print(json.dumps(what), flush=True)


def read_frame(stream):
    """A frame as command, headers and body; None at the end. Heart-beats are skipped."""
    line = stream.readline()
    while line in (b"\n", b"\r\n"):
        line = stream.readline()
    if not line:
        return None
    command, headers = line.strip().decode(), {}
    while line := stream.readline().strip():
        name, _, value = line.decode().partition(":")
        headers.setdefault(name, value)
    if "content-length" in headers:
        body = stream.read(int(headers["content-length"]))
        stream.read(1)
        return command, headers, body
    body = bytearray()
    while (byte := stream.read(1)) not in (b"\0", b""):
        body += byte
    return command, headers, bytes(body)


def serve(connection, number, context):
    if context:
        try:
            connection = context.wrap_socket(connection, server_side=True)
        except (ssl.SSLError, OSError) as error:
            say(refused=str(error))
            return
    shown = connection.getpeercert() if context else None
    stream = connection.makefile("rb")
    while frame := read_frame(stream):
        command, headers, body = frame
        if command in ("CONNECT", "STOMP"):
            names = [part[0] for part in shown["subject"]] if shown else None
            say(login=headers.get("login"), passcode=headers.get("passcode"), certificate=names, connection=number)
            connection.sendall(b"CONNECTED\nversion:1.2\nheart-beat:0,0\n\n\0")
        elif command == "SEND":
            say(destination=headers["destination"], body=json.loads(body), connection=number)
            if "receipt" in headers:
                connection.sendall(f"RECEIPT\nreceipt-id:{headers['receipt']}\n\n\0".encode())


def main():
    context = None
    if len(sys.argv) > 1:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(sys.argv[1], sys.argv[2])
        context.load_verify_locations(sys.argv[3])
        context.verify_mode = ssl.CERT_REQUIRED
    listener = socket.create_server(("127.0.0.1", 0))
    say(port=listener.getsockname()[1])
    number = 0
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=serve, args=(connection, number, context), daemon=True).start()
        number += 1


main()
