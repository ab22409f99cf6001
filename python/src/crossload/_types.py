"""What the program reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping, Optional, Tuple

from ._errors import CrossloadError


@dataclass(frozen=True)
class Entry:
    """A file or directory."""

    #: Its name in its directory; of :meth:`crossload.Client.stat`, the argument.
    name: str
    #: Its URL or path.
    place: str
    #: ``file``, ``directory``, or why it is neither, such as ``symbolic_link``.
    kind: str
    #: Its size, if the server says it.
    bytes: Optional[int]
    #: When it was changed, in seconds since 1970, if the server says it.
    modified_s: Optional[int]
    #: Such as ``adler32:1a2b3c4d``.
    checksums: Tuple[str, ...]

    @property
    def is_directory(self) -> bool:
        return self.kind == "directory"

    @property
    def is_file(self) -> bool:
        return self.kind == "file"

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> "Entry":
        return cls(
            name=told["name"],
            place=told["place"],
            kind=told["kind"],
            bytes=told["bytes"],
            modified_s=told["modified_s"],
            checksums=tuple(told["checksums"]),
        )


@dataclass(frozen=True)
class Event:
    """Something that happens during a copy, as ``crossload copy --json`` prints it."""

    #: ``start``, ``progress``, ``total``, ``done``, ``failed``, ``retry``, ``skipped``, ...
    kind: str
    #: All members, as in docs/client-output.schema.json.
    data: Mapping[str, Any]

    @property
    def source(self) -> Optional[str]:
        return self.data.get("source")

    @property
    def destination(self) -> Optional[str]:
        return self.data.get("destination")

    @property
    def bytes(self) -> Optional[int]:
        return self.data.get("bytes")


@dataclass(frozen=True)
class Copied:
    """A file that was copied."""

    source: str
    destination: str
    bytes: int
    seconds: float
    #: Which way the bytes took: ``pull``, ``push``, ``stream``, ``download``, ``upload``, ``local``, ...
    mode: str
    #: The checksum that both sides have, such as ``adler32:1a2b3c4d``.
    verified: Optional[str]
    #: Why no checksum was compared.
    unverified: Optional[str]


@dataclass(frozen=True)
class Skipped:
    """A file that was not copied, since it is at the destination."""

    source: str
    destination: str
    reason: str


@dataclass(frozen=True)
class Failed:
    """A file that could not be copied."""

    source: str
    error: CrossloadError


@dataclass(frozen=True)
class CopyResult:
    """What a copy came to."""

    copied: Tuple[Copied, ...]
    skipped: Tuple[Skipped, ...]
    failed: Tuple[Failed, ...]
    #: Names that are no files or directories.
    left_out: Tuple[str, ...]
    #: Names that ``sync`` has deleted.
    deleted: Tuple[str, ...]

    @property
    def bytes(self) -> int:
        return sum(copied.bytes for copied in self.copied)


@dataclass(frozen=True)
class Stored:
    """A file that was written."""

    bytes: int
    #: The checksum that the server has too; ``None`` if it reports none.
    verified: Optional[str]


@dataclass(frozen=True)
class Job:
    """A job of a transfer queue."""

    id: str
    #: ``SUBMITTED``, ``ACTIVE``, ``FINISHED``, ``FAILED``, ...
    state: str
    #: All that the queue says.
    data: Mapping[str, Any]

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> "Job":
        return cls(id=told["job_id"], state=told["job_state"], data=told)
