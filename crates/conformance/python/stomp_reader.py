"""Reads messages of a broker: python3 stomp_reader.py PORT DESTINATION TIMEOUT_S files COUNT | packets WORD...

files: prints at the end, as one JSON object, how often each file (its identifier) was named by messages of a queue.
packets: prints each message, a JSON object of a shoveler, on a line.
Ends when that many files were named, when the packets have had all the words, or when the time is over.
"""

import base64
import json
import sys
import threading

import stomp


class Files(stomp.ConnectionListener):
    def __init__(self, words):
        self.files, self.count, self.complete = {}, int(words[0]), threading.Event()

    def on_message(self, frame):
        message = json.loads(frame.body)
        assert frame.headers["vo"] == message["vo"], frame.headers
        self.files[message["file_id"]] = self.files.get(message["file_id"], 0) + 1
        if len(self.files) >= self.count:
            self.complete.set()

    def end(self):
        print(json.dumps(self.files))


class Packets(stomp.ConnectionListener):
    def __init__(self, words):
        self.missing, self.complete = {word.encode() for word in words}, threading.Event()

    def on_message(self, frame):
        message = json.loads(frame.body)
        print(json.dumps(message), flush=True)
        packet = base64.b64decode(message["data"], validate=True)
        self.missing.difference_update({word for word in self.missing if word in packet})
        if not self.missing:
            self.complete.set()

    def end(self):
        pass


port, destination, timeout_s, kind, *words = sys.argv[1:]
reader = {"files": Files, "packets": Packets}[kind](words)
connection = stomp.Connection12([("127.0.0.1", int(port))])
connection.set_listener("reader", reader)
connection.connect(wait=True)
connection.subscribe(destination=destination, id="1", ack="auto")
reader.complete.wait(float(timeout_s))
connection.disconnect()
reader.end()
