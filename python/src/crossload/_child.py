"""The program as a process beside Python: requests and answers, as docs/stdio.md describes them."""

from __future__ import annotations

import collections
import json
import logging
import os
import queue
import subprocess
import threading
import weakref
from typing import Any, Callable, Deque, Dict, List, Mapping, Optional, Sequence, Tuple

from ._errors import CrossloadError, error_of, lost

_LOG = logging.getLogger("crossload")
#: Time for the program to remove what it has begun to write, before it is killed.
_END_S = 15.0
#: Lines of its standard error that explain why it has ended.
_LAST_LINES = 20

#: Takes the events of a request, and ``None`` at its end. It runs in the thread that reads answers.
EventHandler = Callable[[Optional[Mapping[str, Any]]], None]


class Call:
    """A request that runs."""

    def __init__(self, child: "Child", number: int, on_event: Optional[EventHandler]) -> None:
        self._child = child
        self._number = number
        self._done = threading.Event()
        self._on_event = on_event
        self._outcome: Tuple[Optional[Mapping[str, Any]], bytes] = (None, b"")
        self._error: Optional[CrossloadError] = None

    def result(self) -> Tuple[Mapping[str, Any], bytes]:
        """Waits for the answer. An interrupt cancels the request."""
        try:
            self._done.wait()
        except BaseException:
            self.cancel()
            raise
        if self._error is not None:
            raise self._error
        result, payload = self._outcome
        return result or {}, payload

    def cancel(self) -> None:
        """Cancels the request, if it still runs. It is answered all the same."""
        if not self._done.is_set():
            self._child.cancel(self._number)

    def _event(self, event: Optional[Mapping[str, Any]]) -> None:
        if self._on_event is not None:
            self._on_event(event)

    def _end(self, result: Optional[Mapping[str, Any]], payload: bytes, error: Optional[CrossloadError]) -> None:
        self._outcome, self._error = (result, payload), error
        self._event(None)
        self._done.set()


class Child:
    """A process of the program. All threads may use it."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.process_id = os.getpid()
        # A session of its own: Ctrl-C is for Python, which decides what ends.
        self._process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(environment),
            start_new_session=True,
        )
        assert self._process.stdin and self._process.stdout and self._process.stderr
        self._input, self._output, self._complaints = self._process.stdin, self._process.stdout, self._process.stderr
        self._last_lines: Deque[str] = collections.deque(maxlen=_LAST_LINES)
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._calls: Dict[int, Call] = {}
        self._last_number = 0
        self._ended: Optional[CrossloadError] = None
        self._listener = threading.Thread(target=self._log, name="crossload-log", daemon=True)
        self._listener.start()
        self.ready = self._greeting()
        self._places = threading.BoundedSemaphore(self.limit("requests"))
        self._reader = threading.Thread(target=self._read, name="crossload-answers", daemon=True)
        self._reader.start()
        #: Files that the garbage collector has found, which may run in any thread; ``None`` ends the
        #: process.
        self.abandoned: "queue.SimpleQueue[Optional[int]]" = queue.SimpleQueue()
        threading.Thread(target=self._tidy, name="crossload-tidy", daemon=True).start()
        _children.add(self)

    def limit(self, name: str) -> int:
        """A limit of the program, such as ``payload_bytes``."""
        return int(self.ready["limits"][name])

    @property
    def is_running(self) -> bool:
        return self._ended is None and self.process_id == os.getpid()

    def start(
        self, operation: str, payload: bytes = b"", on_event: Optional[EventHandler] = None, **members: Any
    ) -> Call:
        """Sends a request. Waits while as many run as the program takes."""
        if self.process_id != os.getpid():
            raise lost("it was opened before this process was forked: open it again")
        self._places.acquire()
        with self._lock:
            if self._ended is not None:
                self._places.release()
                raise self._ended
            self._last_number += 1
            call = Call(self, self._last_number, on_event)
            self._calls[self._last_number] = call
        line = {"id": call._number, "operation": operation, **members}
        if payload:
            line["payload_bytes"] = len(payload)
        self._send(line, payload)
        return call

    def ask(self, operation: str, payload: bytes = b"", **members: Any) -> Tuple[Mapping[str, Any], bytes]:
        """Sends a request and waits for its answer."""
        return self.start(operation, payload, **members).result()

    def cancel(self, number: int) -> None:
        with self._lock:
            if self._ended is not None:
                return
        # Zero is no number of a call.
        self._send({"id": 0, "operation": "cancel", "request": number}, b"")

    def close(self) -> None:
        """Ends the process, and cancels what runs. It removes what was not committed."""
        with self._lock:
            calls = list(self._calls)
        for number in calls:
            self.cancel(number)
        with self._writing:
            try:
                self._input.close()
            except OSError:
                pass
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for thread in (self._reader, self._listener):
            if thread is not threading.current_thread():
                thread.join(_END_S)
        self.abandoned.put(None)

    def _send(self, line: Mapping[str, Any], payload: bytes) -> None:
        head = json.dumps(line).encode() + b"\n"
        with self._writing:
            try:
                self._input.write(head)
                self._input.write(payload)
                self._input.flush()
            except (OSError, ValueError):
                # The reader learns that the process has ended, and tells all calls.
                pass

    def _greeting(self) -> Mapping[str, Any]:
        line = self._output.readline()
        if line:
            greeting: Mapping[str, Any] = json.loads(line)
            return greeting
        code = self._process.wait()
        self._listener.join(_END_S)
        message = self._last_lines[-1] if self._last_lines else f"it ended with {code}"
        raise error_of({"exit_code": abs(code) or 5, "side": "client", "phase": "open", "message": message})

    def _read(self) -> None:
        try:
            while True:
                line = self._output.readline()
                if not line.endswith(b"\n"):
                    break
                answer = json.loads(line)
                payload = self._output.read(answer.get("payload_bytes", 0))
                self._take(answer, payload)
        except (OSError, ValueError):
            pass
        self._process.wait()
        said = f": {self._last_lines[-1]}" if self._last_lines else ""
        ended = lost(f"the program crossload has ended with {self._process.returncode}{said}")
        with self._lock:
            self._ended = ended
            calls, self._calls = list(self._calls.values()), {}
        for call in calls:
            call._end(None, b"", ended)
            self._places.release()

    def _take(self, answer: Mapping[str, Any], payload: bytes) -> None:
        number = answer.get("id")
        if number is None or number == 0:
            return
        if "event" in answer:
            with self._lock:
                call = self._calls.get(number)
            if call is not None:
                call._event(answer)
            return
        with self._lock:
            call = self._calls.pop(number, None)
        if call is None:
            return
        error = error_of(answer["error"]) if "error" in answer else None
        call._end(answer.get("result"), payload, error)
        self._places.release()

    def _log(self) -> None:
        for line in self._complaints:
            text = line.decode(errors="replace").rstrip()
            self._last_lines.append(text)
            _LOG.warning("%s", text)

    def _tidy(self) -> None:
        while True:
            file = self.abandoned.get()
            if file is None:
                break
            try:
                self.ask("close", file=file)
            except CrossloadError:
                pass
        if self._ended is None:
            self.close()

    def _forget_after_fork(self) -> None:
        # The program must end with the parent, whatever holds copies of its pipes.
        nowhere = os.open(os.devnull, os.O_RDWR)
        for end in (self._input, self._output, self._complaints):
            if not end.closed:
                os.dup2(nowhere, end.fileno(), inheritable=False)
        os.close(nowhere)


_children: "weakref.WeakSet[Child]" = weakref.WeakSet()


def _after_fork() -> None:
    children: List[Child] = list(_children)
    for child in children:
        child._forget_after_fork()


os.register_at_fork(after_in_child=_after_fork)
