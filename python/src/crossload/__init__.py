"""Copies files between storage sites, and reads and writes them there.

Everything is done by the program ``crossload``, which runs beside Python as one process per
:class:`Client` and keeps its connections. ``docs/python.md`` has examples, also for users of gfal2.
"""

from ._client import Client
from ._errors import (
    AccessDenied,
    ConnectionFailed,
    CrossloadError,
    FileExists,
    IsDirectory,
    NotDirectory,
    NotFound,
    TimedOut,
)
from ._files import ReadFile, WriteFile
from ._transfer import Transfer
from ._types import Copied, CopyResult, Entry, Event, Failed, Job, Skipped, Stored

__all__ = [
    "AccessDenied",
    "Client",
    "ConnectionFailed",
    "Copied",
    "CopyResult",
    "CrossloadError",
    "Entry",
    "Event",
    "Failed",
    "FileExists",
    "IsDirectory",
    "Job",
    "NotDirectory",
    "NotFound",
    "ReadFile",
    "Skipped",
    "Stored",
    "TimedOut",
    "Transfer",
    "WriteFile",
]
