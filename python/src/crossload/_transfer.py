"""A copy that runs."""

from __future__ import annotations

import queue
from types import TracebackType
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Type

from ._child import Child
from ._errors import CrossloadError, error_of
from ._types import Copied, CopyResult, Event, Failed, Skipped


class Transfer:
    """A copy that runs. Leaving its ``with`` block by an exception cancels it."""

    def __init__(self, owner: object, child: Child, operation: str, arguments: Sequence[str]) -> None:
        # The process ends with the client.
        self._owner = owner
        self._events: "queue.SimpleQueue[Optional[Mapping[str, Any]]]" = queue.SimpleQueue()
        self._copied: List[Copied] = []
        self._skipped: List[Skipped] = []
        self._failed: List[Failed] = []
        self._left_out: List[str] = []
        self._deleted: List[str] = []
        self._is_over = False
        self._call = child.start(operation, on_event=self._events.put, arguments=list(arguments))

    def events(self) -> Iterator[Event]:
        """What happens, until the copy has ended. Failures are events here, and no exceptions."""
        while not self._is_over:
            event = self._events.get()
            if event is None:
                self._is_over = True
                return
            self._note(event)
            members = {name: value for name, value in event.items() if name not in ("id", "event")}
            yield Event(kind=event["event"], data=members)

    def result(self) -> CopyResult:
        """Waits for the end.

        Raises :class:`CrossloadError` if a file could not be copied: that of the file, or one with
        all ``failures`` if there are several.
        """
        try:
            for _ in self.events():
                pass
        except BaseException:
            # An interrupt.
            self.cancel()
            raise
        self._call.result()
        result = CopyResult(
            copied=tuple(self._copied),
            skipped=tuple(self._skipped),
            failed=tuple(self._failed),
            left_out=tuple(self._left_out),
            deleted=tuple(self._deleted),
        )
        failures = tuple(failed.error for failed in result.failed)
        if len(failures) == 1:
            raise failures[0]
        if failures:
            count = len(failures)
            message = f"{count} files could not be copied, the first because: {failures[0].message}"
            raise CrossloadError({"exit_code": 1, "side": "client", "message": message}, failures)
        return result

    def cancel(self) -> None:
        """Ends the copy, and removes what it has begun to write."""
        self._call.cancel()

    def __enter__(self) -> "Transfer":
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        if kind is not None:
            self.cancel()

    def _note(self, event: Mapping[str, Any]) -> None:
        kind = event["event"]
        if kind == "done":
            self._copied.append(Copied(**_members(event, Copied)))
        elif kind == "skipped":
            self._skipped.append(Skipped(**_members(event, Skipped)))
        elif kind == "failed":
            self._failed.append(Failed(source=event["source"], error=error_of(event["error"])))
        elif kind == "left_out":
            self._left_out.append(event["source"])
        elif kind == "deleted":
            self._deleted.append(event["destination"])


def _members(event: Mapping[str, Any], of: Any) -> Dict[str, Any]:
    return {name: event[name] for name in of.__dataclass_fields__}
