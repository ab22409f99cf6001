"""Reads messages of a broker: python3 stomp_packets.py PORT DESTINATION TIMEOUT_S WORD...

Prints each message, a JSON object of a shoveler, on a line, and ends when the packets have had all the words, or when
the time is over.
"""

import base64
import json
import sys
import threading

import stomp

port, destination, timeout_s = int(sys.argv[1]), sys.argv[2], float(sys.argv[3])
missing = {word.encode() for word in sys.argv[4:]}
complete = threading.Event()


class Reader(stomp.ConnectionListener):
    def on_message(self, frame):
        message = json.loads(frame.body)
        print(json.dumps(message), flush=True)
        packet = base64.b64decode(message["data"], validate=True)
        missing.difference_update({word for word in missing if word in packet})
        if not missing:
            complete.set()


connection = stomp.Connection12([("127.0.0.1", port)])
connection.set_listener("reader", Reader())
connection.connect(wait=True)
connection.subscribe(destination=destination, id="1", ack="auto")
complete.wait(timeout_s)
connection.disconnect()
