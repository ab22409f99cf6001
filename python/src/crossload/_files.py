"""Files of servers, read and written by pieces."""

from __future__ import annotations

import io
import operator
from types import TracebackType
from typing import Any, Iterable, List, Optional, Sequence, Tuple, Type

from ._child import Call, Child
from ._types import Stored

#: Bytes of small writes that are sent together.
WRITE_BYTES = 4 << 20

Range = Tuple[int, int]


class ReadFile(io.RawIOBase):
    """A file that is open to be read. ``io.BufferedReader`` makes small reads cheap."""

    def __init__(self, owner: object, child: Child, place: str) -> None:
        super().__init__()
        self._file: Optional[int] = None
        # The process ends with the client.
        self._owner = owner
        self._child = child
        self._at = 0
        opened, _ = child.ask("open", place=place)
        self._file = int(opened["file"])
        self.name = place
        #: Its size in bytes; ``None`` if the server does not say it.
        self.size: Optional[int] = opened["bytes"]

    def read_ranges(self, ranges: Iterable[Range]) -> List[bytes]:
        """The content of ranges ``(begin, end)``, in as few requests to the server as possible."""
        number = self._number()
        whole = [(operator.index(begin), self._within(operator.index(end))) for begin, end in ranges]
        groups = _grouped(whole, self._child.limit("payload_bytes"))
        calls = [self._child.start("read", file=number, ranges=group) for group, _ in groups]
        pieces: List[List[bytes]] = []
        for call, (_, joins) in zip(calls, groups):
            for joined, piece in zip(joins, _pieces(call)):
                if joined:
                    pieces[-1].append(piece)
                else:
                    pieces.append([piece])
        return [parts[0] if len(parts) == 1 else b"".join(parts) for parts in pieces]

    def readinto(self, buffer: Any) -> int:
        with memoryview(buffer).cast("B") as view:
            (piece,) = self.read_ranges([(self._at, self._at + len(view))])
            view[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)

    def readall(self) -> bytes:
        if self.size is None:
            return super().readall() or b""
        (rest,) = self.read_ranges([(min(self._at, self.size), self.size)])
        self._at += len(rest)
        return rest

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_CUR:
            offset += self._at
        elif whence == io.SEEK_END:
            if self.size is None:
                raise io.UnsupportedOperation("the server does not say how long the file is")
            offset += self.size
        elif whence != io.SEEK_SET:
            raise ValueError(f"invalid whence: {whence}")
        if offset < 0:
            raise ValueError("negative position")
        self._at = offset
        return offset

    def tell(self) -> int:
        return self._at

    def close(self) -> None:
        number, self._file = self._file, None
        if number is not None:
            # Without waiting: the garbage collector closes buffers around this file in any thread.
            self._child.forget(number)
        super().close()

    def __del__(self) -> None:
        self.close()

    def _within(self, end: int) -> int:
        return end if self.size is None else min(end, self.size)

    def _number(self) -> int:
        if self._file is None:
            raise ValueError("I/O operation on closed file")
        return self._file


def _pieces(call: Call) -> List[bytes]:
    result, payload = call.result()
    view, pieces, at = memoryview(payload), [], 0
    for length in result["lengths"]:
        pieces.append(bytes(view[at : at + length]))
        at += length
    return pieces


def _grouped(ranges: Sequence[Range], bytes_max: int) -> List[Tuple[List[Range], List[bool]]]:
    """Ranges as requests of at most so many bytes, and which of them go on with the one before."""
    groups: List[Tuple[List[Range], List[bool]]] = [([], [])]
    left = bytes_max
    for begin, end in ranges:
        at, joined = begin, False
        while True:
            count = min(end - at, left)
            groups[-1][0].append((at, at + count))
            groups[-1][1].append(joined)
            at, left, joined = at + count, left - count, True
            if left == 0 or len(groups[-1][0]) >= _RANGES_MAX:
                groups.append(([], []))
                left = bytes_max
            if at >= end:
                break
    return [group for group in groups if group[0]]


#: Ranges of one request: with numbers of twenty digits, its line is short enough.
_RANGES_MAX = 20_000


class WriteFile(io.RawIOBase):
    """A file that is being written. It has its name when it is closed, and not before.

    Leaving a ``with`` block by an exception, :meth:`discard` and the garbage collector give it up.
    """

    def __init__(self, owner: object, child: Child, place: str, overwrite: bool, size: Optional[int]) -> None:
        super().__init__()
        # The process ends with the client.
        self._owner = owner
        self._child = child
        begun, _ = child.ask("create", place=place, overwrite=overwrite, bytes=size)
        self._file: Optional[int] = int(begun["file"])
        self._buffer = bytearray()
        self._written = 0
        self.name = place
        #: What the server has stored, after the end.
        self.stored: Optional[Stored] = None

    def write(self, content: Any) -> int:
        number = self._number()
        with memoryview(content).cast("B") as view:
            self._buffer += view
            count = len(view)
        self._written += count
        while len(self._buffer) >= WRITE_BYTES:
            self._send(number, WRITE_BYTES)
        return count

    def commit(self) -> Stored:
        """Ends the file, and returns when the server has stored it."""
        number = self._number()
        if self._buffer:
            self._send(number, len(self._buffer))
        self._file = None
        stored, _ = self._last("commit", number)
        self.stored = Stored(bytes=stored["bytes"], verified=stored["verified"])
        return self.stored

    def discard(self) -> None:
        """Gives the file up: the server has nothing of it then."""
        number, self._file = self._file, None
        self._buffer.clear()
        super().close()
        if number is not None and self._child.is_running:
            self._last("close", number)

    def close(self) -> None:
        if self._file is not None:
            try:
                self.commit()
            except BaseException:
                self.discard()
                raise
        super().close()

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._written

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()

    def __del__(self) -> None:
        # What was not closed may be incomplete.
        number = getattr(self, "_file", None)
        if number is not None:
            self._child.forget(number)

    def _last(self, operation: str, number: int) -> Any:
        """The last request about the file. If an interrupt comes before it was sent, it is given up."""
        try:
            return self._child.ask(operation, file=number)
        except BaseException:
            self._child.forget(number)
            raise

    def _send(self, number: int, count: int) -> None:
        self._child.ask("write", payload=bytes(self._buffer[:count]), file=number)
        del self._buffer[:count]

    def _number(self) -> int:
        if self._file is None:
            raise ValueError("I/O operation on closed file")
        return self._file
