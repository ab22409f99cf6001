"""The program as a process beside Python: requests and answers, as docs/stdio.md describes them."""

from __future__ import annotations

import collections
import itertools
import json
import logging
import os
import queue
import subprocess
import threading
import weakref
from functools import partial
from typing import Any, Callable, Deque, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from ._errors import CrossloadError, error_of, lost

_LOG = logging.getLogger("crossload")
#: Time for the program to remove what it has begun to write, before it is killed.
_END_S = 15.0
#: Lines of its standard error that explain why it has ended.
_LAST_LINES = 20
#: The version of its protocol that this module knows.
_PROTOCOL = 1
#: What is read at once while a line arrives.
_READ_BYTES = 1 << 18

#: Takes the events of a request, and ``None`` at its end. It runs in the thread that reads answers.
EventHandler = Callable[[Optional[Mapping[str, Any]]], None]


class Call:
    """A request that waits to be sent, or runs."""

    def __init__(
        self, child: "Child", number: int, head: bytes, payload: bytes, on_event: Optional[EventHandler]
    ) -> None:
        self._child = child
        self._number = number
        self._head = head
        self._payload = payload
        self._done = threading.Event()
        self._on_event = on_event
        self._outcome: Tuple[Mapping[str, Any], bytearray] = ({}, bytearray())
        self._error: Optional[BaseException] = None
        self._is_unwanted = False

    def result(self) -> Tuple[Mapping[str, Any], bytearray]:
        """Waits for the answer. An interrupt cancels the request."""
        try:
            self._done.wait()
        except BaseException:
            self._is_unwanted = True
            self.cancel()
            self._forget_file()
            raise
        if self._error is not None:
            raise self._error
        return self._outcome

    def cancel(self) -> None:
        """Cancels the request, if it still runs. It is answered all the same."""
        if not self._done.is_set():
            self._child.cancel(self)

    def _event(self, event: Optional[Mapping[str, Any]]) -> None:
        if self._on_event is None:
            return
        try:
            self._on_event(event)
        except Exception as error:
            # The reader must go on, and this call must not look complete.
            self._error = self._error or error

    def _end(
        self, result: Optional[Mapping[str, Any]], payload: bytearray, error: Optional[CrossloadError]
    ) -> None:
        self._outcome, self._error = (result or {}, payload), error or self._error
        self._event(None)
        self._done.set()
        self._forget_file()

    def _forget_file(self) -> None:
        # The answer may have come all the same: no one learns the number of the file.
        if self._is_unwanted and self._done.is_set() and "file" in self._outcome[0]:
            self._child.forget(int(self._outcome[0]["file"]))


class _Output:
    """What the program writes. A buffer of Python's would be locked forever in a forked process."""

    def __init__(self, source: Any) -> None:
        self._source = source
        self._held = bytearray()

    def line(self) -> bytes:
        """The next line with its end; less at the end of the output."""
        searched = 0
        while True:
            end = self._held.find(b"\n", searched) + 1
            searched = len(self._held)
            if end == 0:
                piece = os.read(self._source.fileno(), _READ_BYTES)
                self._held += piece
                if piece:
                    continue
                end = searched
            line = bytes(self._held[:end])
            del self._held[:end]
            return line

    def lines(self) -> Iterator[bytes]:
        return iter(self.line, b"")

    def payload(self, count: int) -> bytearray:
        """The next ``count`` bytes."""
        content, at = bytearray(count), min(count, len(self._held))
        content[:at] = self._held[:at]
        del self._held[:at]
        with memoryview(content) as view:
            while at < count:
                got = os.readv(self._source.fileno(), [view[at:]])
                if got == 0:
                    raise EOFError
                at += got
        return content


class Child:
    """A process of the program. All threads may use it.

    One thread writes requests: an interrupt in the middle of one would make the rest unreadable. It
    alone has the requests that wait and the count of those that run, so that nothing is locked when
    an interrupt, the garbage collector or a fork comes.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.process_id = os.getpid()
        # A session of its own: Ctrl-C is for Python, which decides what ends.
        self._process = subprocess.Popen(
            list(command),
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(environment),
            start_new_session=True,
        )
        self._answers, self._complaints = _Output(self._process.stdout), _Output(self._process.stderr)
        self._last_lines: Deque[str] = collections.deque(maxlen=_LAST_LINES)
        self._numbers = itertools.count(1)
        self._calls: Dict[int, Call] = {}
        self._waiting: Deque[Call] = collections.deque()
        self._ended: Optional[CrossloadError] = None
        self._is_over = False
        #: What the writer does next. It takes orders also from within the garbage collector.
        self._orders: "queue.SimpleQueue[Callable[[], None]]" = queue.SimpleQueue()
        self._listener = self._thread("log", self._log)
        try:
            self.ready = self._greeting()
        except BaseException:
            self._process.kill()
            self._process.wait()
            for end in (self._process.stdin, self._process.stdout):
                if end is not None:
                    end.close()
            raise
        self._running_max = self.limit("requests")
        self._reader = self._thread("answers", self._read)
        self._writer = self._thread("requests", self._write)
        _children.add(self)

    @staticmethod
    def _thread(name: str, work: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=work, name=f"crossload-{name}", daemon=True)
        thread.start()
        return thread

    def limit(self, name: str) -> int:
        """A limit of the program, such as ``payload_bytes``."""
        return int(self.ready["limits"][name])

    @property
    def is_running(self) -> bool:
        return self._ended is None and self.process_id == os.getpid()

    def start(
        self, operation: str, payload: bytes = b"", on_event: Optional[EventHandler] = None, **members: Any
    ) -> Call:
        """Sends a request, when fewer run than the program takes."""
        if self.process_id != os.getpid():
            raise lost("it was opened before this process was forked: open it again")
        number = next(self._numbers)
        line = {"id": number, "operation": operation, **members}
        if payload:
            line["payload_bytes"] = len(payload)
        head = json.dumps(line).encode() + b"\n"
        if len(head) > self.limit("line_bytes"):
            words = f"the arguments of {operation} are longer than {self.limit('line_bytes')} bytes"
            raise error_of({"code": "bad_request", "exit_code": 22, "side": "client", "message": words})
        call = Call(self, number, head, payload, on_event)
        self._order(partial(self._begin, call))
        return call

    def ask(self, operation: str, payload: bytes = b"", **members: Any) -> Tuple[Mapping[str, Any], bytearray]:
        """Sends a request and waits for its answer."""
        return self.start(operation, payload, **members).result()

    def cancel(self, call: Call) -> None:
        self._order(partial(self._cancel, call))

    def forget(self, file: int) -> None:
        """Closes a file without waiting, as the garbage collector must."""
        if self.is_running:
            self.start("close", file=file)

    def end(self) -> None:
        """Ends the process, and cancels what runs. Returns at once."""
        self._order(self._end)

    def close(self) -> None:
        """Ends the process, and cancels what runs. It removes what was not committed."""
        self.end()
        if threading.current_thread() in (self._reader, self._writer, self._listener):
            return
        self._writer.join(_END_S)
        if self._writer.is_alive():
            self._process.kill()
        for thread in (self._writer, self._reader, self._listener):
            thread.join(_END_S)

    # ---- the thread that writes -------------------------------------------------------------------

    def _order(self, order: Callable[[], None]) -> None:
        self._orders.put(order)
        if self._is_over:
            self._drain()

    def _write(self) -> None:
        while not self._is_over:
            self._orders.get()()
        self._drain()

    def _drain(self) -> None:
        """Does what was ordered too late, when no thread waits for orders any more."""
        while True:
            try:
                order = self._orders.get_nowait()
            except queue.Empty:
                return
            order()

    def _begin(self, call: Call) -> None:
        if self._ended is not None:
            call._end(None, bytearray(), self._ended)
        elif len(self._calls) < self._running_max:
            self._calls[call._number] = call
            self._send(call._head, call._payload)
            call._head = call._payload = b""
        else:
            self._waiting.append(call)

    def _cancel(self, call: Call) -> None:
        if call in self._waiting:
            self._waiting.remove(call)
            words = {"code": "cancelled", "exit_code": 125, "side": "client", "message": "cancelled before it began"}
            call._end(None, bytearray(), error_of(words))
        elif call._number in self._calls:
            # Zero is no number of a call.
            self._send(json.dumps({"id": 0, "operation": "cancel", "request": call._number}).encode() + b"\n")

    def _next(self, number: int) -> None:
        self._calls.pop(number, None)
        if self._waiting:
            self._begin(self._waiting.popleft())

    def _end(self) -> None:
        for call in [*self._waiting, *self._calls.values()]:
            self._cancel(call)
        assert self._process.stdin
        self._process.stdin.close()
        self._reader.join(_END_S)
        if self._reader.is_alive():
            self._process.kill()

    def _lose(self, ended: CrossloadError) -> None:
        calls = [*self._calls.values(), *self._waiting]
        self._calls.clear()
        self._waiting.clear()
        for call in calls:
            call._end(None, bytearray(), ended)
        assert self._process.stdin
        self._process.stdin.close()
        self._is_over = True

    def _send(self, *pieces: bytes) -> None:
        try:
            for piece in pieces:
                left = memoryview(piece)
                while left:
                    assert self._process.stdin
                    left = left[os.write(self._process.stdin.fileno(), left) :]
        except (OSError, ValueError):
            # The reader learns that the process has ended, and then all calls do.
            pass

    # ---- the threads that read --------------------------------------------------------------------

    def _greeting(self) -> Mapping[str, Any]:
        line = self._answers.line()
        if not line:
            code = self._process.wait()
            self._listener.join(_END_S)
            message = self._last_lines[-1] if self._last_lines else f"it ended with {code}"
            raise error_of({"exit_code": abs(code) or 5, "side": "client", "phase": "open", "message": message})
        try:
            greeting: Mapping[str, Any] = json.loads(line)
            protocol = greeting["protocol"]
        except (ValueError, TypeError, KeyError):
            raise lost(f"the program is not crossload: it begins with {line[:80]!r}") from None
        if protocol != _PROTOCOL:
            raise lost(f"the program speaks version {protocol} of its protocol, and this module {_PROTOCOL}")
        return greeting

    def _read(self) -> None:
        try:
            while True:
                line = self._answers.line()
                if not line.endswith(b"\n"):
                    break
                answer = json.loads(line)
                self._take(answer, self._answers.payload(answer.get("payload_bytes") or 0))
        except Exception:
            # What it says is not understood any more.
            self._process.kill()
        assert self._process.stdout
        self._process.stdout.close()
        code = self._process.wait()
        said = f": {self._last_lines[-1]}" if self._last_lines else ""
        self._ended = lost(f"the program crossload has ended with {code}{said}")
        self._order(partial(self._lose, self._ended))

    def _take(self, answer: Mapping[str, Any], payload: bytearray) -> None:
        call = self._calls.get(answer.get("id") or 0)
        if call is None:
            return
        if "event" in answer:
            call._event(answer)
            return
        # First, so that the call's thread cannot be faster.
        self._order(partial(self._next, call._number))
        error = error_of(answer["error"]) if "error" in answer else None
        call._end(answer.get("result"), payload, error)

    def _log(self) -> None:
        for line in self._complaints.lines():
            text = line.decode(errors="replace").rstrip()
            self._last_lines.append(text)
            _LOG.warning("%s", text)
        assert self._process.stderr
        self._process.stderr.close()

    def _forget_after_fork(self) -> None:
        # The program must end with the parent, whatever holds copies of its pipes.
        nowhere = os.open(os.devnull, os.O_RDWR)
        for end in (self._process.stdin, self._process.stdout, self._process.stderr):
            if end is not None and not end.closed:
                os.dup2(nowhere, end.fileno(), inheritable=False)
        os.close(nowhere)
        # It is not this process's child.
        self._process.returncode = 0


_children: "weakref.WeakSet[Child]" = weakref.WeakSet()


def _after_fork() -> None:
    children: List[Child] = list(_children)
    for child in children:
        child._forget_after_fork()


os.register_at_fork(after_in_child=_after_fork)
