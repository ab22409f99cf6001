"""Reads messages of a broker: python3 stomp_reader.py PORT DESTINATION COUNT_OF_JOB_FILES TIMEOUT_S.

Prints, as one JSON object, how often each file (its identifier) was named by the messages, until that many files were
named or the time is over.
"""

import json
import sys
import threading

import stomp

port, destination, count, timeout_s = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
files = {}
complete = threading.Event()


class Reader(stomp.ConnectionListener):
    def on_message(self, frame):
        message = json.loads(frame.body)
        assert frame.headers["vo"] == message["vo"], frame.headers
        files[message["file_id"]] = files.get(message["file_id"], 0) + 1
        if len(files) >= count:
            complete.set()


connection = stomp.Connection12([("127.0.0.1", port)])
connection.set_listener("reader", Reader())
connection.connect(wait=True)
connection.subscribe(destination=destination, id="1", ack="auto")
complete.wait(timeout_s)
connection.disconnect()
print(json.dumps(files))
