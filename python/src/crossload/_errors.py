"""Failures, as exceptions."""

from __future__ import annotations

import re
from typing import Any, Mapping, Optional, Tuple, Type


class CrossloadError(OSError):
    """A failure. ``str`` says what happened, at which side, and what can be done.

    Where Python has an exception of its own for it, such as :class:`FileNotFoundError`, the failure
    is one of these too.
    """

    #: Its name in docs/errors.md; ``None`` for an invalid argument and the like.
    code: Optional[str]
    #: The exit code of the command (docs/exit-codes.md). ``errno`` is the same, as gfal2 has it.
    exit_code: int
    #: ``client``, ``server``, ``source``, ``destination`` or ``queue``.
    side: Optional[str]
    #: ``connect``, ``open``, ``transfer``, ...
    phase: Optional[str]
    #: What happened.
    message: str
    #: What can be done.
    next: Optional[str]
    #: Whether it may pass.
    retry: bool
    #: The failures of single files, if this is one of several.
    failures: Tuple["CrossloadError", ...]

    def __init__(self, described: Mapping[str, Any], failures: Tuple["CrossloadError", ...] = ()) -> None:
        self.exit_code = int(described.get("exit_code") or 5)
        self.message = _in_python(_harmless(str(described.get("message") or "failed")), _LONG)
        super().__init__(self.exit_code, self.message)
        self.code = described.get("code")
        self.side = described.get("side")
        self.phase = described.get("phase")
        self.next = described.get("next") and _in_python(_harmless(str(described["next"])), _ALL)
        self.retry = bool(described.get("retry"))
        self.failures = failures
        self._described = dict(described)

    def __str__(self) -> str:
        return f"{self.message}; next: {self.next}" if self.next else self.message

    def __reduce__(self) -> Tuple[Any, ...]:
        return type(self), (self._described, self.failures)


#: Characters that terminals obey: a server's words may have them, and tracebacks print them as they are.
_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def _harmless(text: str) -> str:
    return _OBEYED.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


#: Options of the command line that advice names, as arguments of this module.
_ARGUMENTS: Mapping[str, str] = {
    "--cacert": "cacert",
    "--capath": "capath",
    "--cert": "cert",
    "--checksum": "checksum",
    "--force": "overwrite=True",
    "--insecure": "insecure=True",
    "--key": "key",
    "--mode": "mode",
    "--parent": "parents=True",
    "--parents": "parents=True",
    "--proxy": "proxy",
    "--recursive": "recursive=True",
    "--retries": "retries",
    "--timeout": "timeout_s",
    "--token-file": "token_file",
    "--transfers": "transfers",
    "--verify": "verify",
    "-K": "checksum",
    "-f": "overwrite=True",
    "-k": "insecure=True",
    "-p": "parents=True",
    "-r": "recursive=True",
}

#: Those that a message may name, and those that advice may name: it quotes no server.
_LONG, _ALL = (
    re.compile("(?<![\\w/-])" + kind + "(?![\\w-])") for kind in ("--[a-z][a-z-]*", "(?:--[a-z][a-z-]*|-[a-zA-Z])")
)


def _in_python(text: str, options: "re.Pattern[str]") -> str:
    return options.sub(lambda found: _ARGUMENTS.get(found[0], found[0]), text)


class NotFound(CrossloadError, FileNotFoundError):
    """The file or directory does not exist."""


class AccessDenied(CrossloadError, PermissionError):
    """The server refuses, or no credential was sent."""


class FileExists(CrossloadError, FileExistsError):
    """The name is taken."""


class IsDirectory(CrossloadError, IsADirectoryError):
    """It is a directory."""


class NotDirectory(CrossloadError, NotADirectoryError):
    """It is not a directory."""


class TimedOut(CrossloadError, TimeoutError):
    """It took too long."""


class ConnectionFailed(CrossloadError, ConnectionError):
    """No connection, or a connection that broke."""


_KINDS: Mapping[int, Type[CrossloadError]] = {
    2: NotFound,
    13: AccessDenied,
    17: FileExists,
    20: NotDirectory,
    21: IsDirectory,
    100: ConnectionFailed,
    101: ConnectionFailed,
    104: ConnectionFailed,
    110: TimedOut,
    111: ConnectionFailed,
    112: ConnectionFailed,
    113: ConnectionFailed,
}


def error_of(described: Mapping[str, Any], failures: Tuple[CrossloadError, ...] = ()) -> CrossloadError:
    """The exception for a failure that the program describes."""
    kind = _KINDS.get(int(described.get("exit_code") or 0), CrossloadError)
    return kind(described, failures)


def lost(message: str) -> CrossloadError:
    """The program has ended, or cannot be used."""
    return CrossloadError({"code": None, "exit_code": 5, "side": "client", "message": message})
