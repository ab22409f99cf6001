"""The client."""

from __future__ import annotations

import io
import json
import os
import subprocess
import tempfile
import threading
import weakref
from types import TracebackType
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Type, Union

from ._child import Child
from ._errors import CrossloadError, error_of
from ._files import Range, ReadFile, WriteFile
from ._program import find_program
from ._transfer import Transfer
from ._types import CopyResult, Entry, Job, Stored

Path = Union[str, "os.PathLike[str]"]
Paths = Union[Path, Iterable[Path]]

#: The buffer of files that are read with small reads.
READ_BUFFER_BYTES = 1 << 20


class Client:
    """Copies, lists, reads and writes files of servers.

    Places are URLs, paths of this machine, and ``NAME:PATH`` in named remotes. The program runs from
    the first call until :meth:`close`; all threads may use the client. Failures are
    :class:`crossload.CrossloadError`.
    """

    def __init__(
        self,
        *,
        token_file: Optional[Path] = None,
        proxy: Optional[Path] = None,
        cert: Optional[Path] = None,
        key: Optional[Path] = None,
        cacert: Paths = (),
        capath: Optional[Path] = None,
        insecure: bool = False,
        timeout_s: Optional[float] = None,
        gfal_codes: bool = False,
        environment: Optional[Mapping[str, str]] = None,
        program: Optional[Path] = None,
    ) -> None:
        """``token_file`` to ``insecure`` are the options of the program; without them it finds
        credentials as it does on the command line.

        ``timeout_s`` is for each call. ``gfal_codes``: exit codes, and so ``errno``, are those of
        gfal's tools. ``environment`` is the whole environment of the program, or that of Python.
        """
        self._access = _access(token_file, proxy, cert, key, cacert, capath, insecure)
        self._timeout_s = timeout_s
        self._environment = dict(os.environ if environment is None else environment)
        if gfal_codes:
            self._environment["CROSSLOAD_EXIT_CODES"] = "gfal"
        self._program = os.fspath(program) if program is not None else find_program()
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._running: Optional[Child] = None
        self._last_end = weakref.finalize(self, lambda: None)
        self._last_end.atexit = False
        _clients.add(self)

    def __getstate__(self) -> Dict[str, Any]:
        """For pickle: the copy has a process of its own."""
        own = ("_lock", "_running", "_last_end")
        return {name: value for name, value in vars(self).items() if name not in own}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        vars(self).update(state)
        self._begin()

    # ---- the process ------------------------------------------------------------------------------

    def close(self) -> None:
        """Ends the program. Files that are being written are given up. The next call starts it anew."""
        with self._lock:
            child, self._running = self._running, None
        if child is not None:
            child.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.close()

    @property
    def schemes(self) -> Tuple[str, ...]:
        """The schemes of URLs that the program knows, such as ``https`` and ``root``."""
        return tuple(self._child().ready["schemes"])

    @property
    def version(self) -> str:
        """The version of the program."""
        return str(self._child().ready["version"])

    def _child(self) -> Child:
        with self._lock:
            if self._running is None or not self._running.is_running:
                child = Child([self._program, "stdio", *self._limit(), *self._access], self._environment)
                self._last_end.detach()
                self._last_end = weakref.finalize(self, child.end)
                self._last_end.atexit = False
                self._running = child
            return self._running

    def _limit(self) -> List[str]:
        # -t takes whole seconds.
        return [] if self._timeout_s is None else ["-t", str(max(1, round(self._timeout_s)))]

    def _ask(self, operation: str, **members: Any) -> Mapping[str, Any]:
        result, _ = self._child().ask(operation, **members)
        return result

    # ---- copies -----------------------------------------------------------------------------------

    def copy(
        self,
        source: Paths,
        destination: Path,
        *,
        recursive: bool = False,
        overwrite: bool = False,
        parents: bool = False,
        checksum: Optional[str] = None,
        verify: Optional[str] = None,
        mode: Optional[str] = None,
        transfers: Optional[int] = None,
        retries: Optional[int] = None,
        dry_run: bool = False,
        arguments: Sequence[str] = (),
    ) -> CopyResult:
        """Copies a file, several, or with ``recursive`` directories, as ``crossload copy`` does.

        Between servers the bytes go directly. ``checksum`` is ``ALG`` or ``ALG:VALUE``; ``verify``
        is ``required``, ``available`` or ``never``; ``mode`` is ``pull``, ``push`` or ``stream``.
        ``arguments`` are further options of the command.
        """
        return self.start_copy(
            source,
            destination,
            recursive=recursive,
            overwrite=overwrite,
            parents=parents,
            checksum=checksum,
            verify=verify,
            mode=mode,
            transfers=transfers,
            retries=retries,
            dry_run=dry_run,
            arguments=arguments,
        ).result()

    def start_copy(
        self,
        source: Paths,
        destination: Path,
        *,
        recursive: bool = False,
        overwrite: bool = False,
        parents: bool = False,
        checksum: Optional[str] = None,
        verify: Optional[str] = None,
        mode: Optional[str] = None,
        transfers: Optional[int] = None,
        retries: Optional[int] = None,
        dry_run: bool = False,
        arguments: Sequence[str] = (),
    ) -> Transfer:
        """As :meth:`copy`, without waiting: the events and the result are those of the transfer."""
        flags = {"--recursive": recursive, "--force": overwrite, "--parent": parents, "--dry-run": dry_run}
        values = {
            "--checksum": checksum,
            "--verify": verify,
            "--mode": mode,
            "--transfers": transfers,
            "--retries": retries,
        }
        places = [*_paths(source), os.fspath(destination)]
        return Transfer(self, self._child(), "copy", [*_options(flags, values), *arguments, "--", *places])

    def sync(
        self,
        source: Path,
        destination: Path,
        *,
        delete: bool = False,
        dry_run: bool = False,
        arguments: Sequence[str] = (),
    ) -> CopyResult:
        """Makes a directory like another one, as ``crossload sync`` does."""
        return self.start_sync(source, destination, delete=delete, dry_run=dry_run, arguments=arguments).result()

    def start_sync(
        self,
        source: Path,
        destination: Path,
        *,
        delete: bool = False,
        dry_run: bool = False,
        arguments: Sequence[str] = (),
    ) -> Transfer:
        """As :meth:`sync`, without waiting."""
        options = _options({"--delete": delete, "--dry-run": dry_run}, {})
        places = [os.fspath(source), os.fspath(destination)]
        return Transfer(self, self._child(), "sync", [*options, *arguments, "--", *places])

    # ---- names ------------------------------------------------------------------------------------

    def stat(self, place: Path) -> Entry:
        """What a name stands for."""
        return Entry.of(self._ask("stat", place=os.fspath(place)))

    def exists(self, place: Path) -> bool:
        """Whether the name exists. Any failure but that it does not is raised."""
        try:
            self.stat(place)
        except FileNotFoundError:
            return False
        return True

    def ls(self, place: Path) -> List[Entry]:
        """The entries of a directory, in no order; of a file, the file itself."""
        entries: List[Entry] = []

        def take(event: Optional[Mapping[str, Any]]) -> None:
            if event is not None:
                entries.extend(Entry.of(told) for told in event["entries"])

        self._child().start("ls", on_event=take, place=os.fspath(place)).result()
        return entries

    def mkdir(self, place: Path, *, parents: bool = False) -> None:
        """Makes a directory; with ``parents`` also those above it, and it may exist."""
        self._ask("mkdir", place=os.fspath(place), parents=parents)

    def rm(self, place: Path, *, recursive: bool = False) -> None:
        """Removes a file, or with ``recursive`` a directory with everything in it."""
        self._ask("rm", place=os.fspath(place), recursive=recursive)

    def rmdir(self, place: Path) -> None:
        """Removes an empty directory."""
        self._ask("rmdir", place=os.fspath(place))

    def mv(self, source: Path, destination: Path, *, overwrite: bool = False) -> None:
        """Renames within one server. ``destination`` is the complete new name."""
        self._ask("mv", source=os.fspath(source), destination=os.fspath(destination), overwrite=overwrite)

    def sum(self, place: Path, algorithm: str = "adler32") -> str:
        """The checksum of a file, in hexadecimal digits."""
        return str(self._ask("sum", place=os.fspath(place), algorithm=algorithm)["value"])

    # ---- content ----------------------------------------------------------------------------------

    def open_raw(self, place: Path) -> ReadFile:
        """Opens a file of a server to read ranges of it."""
        return ReadFile(self, self._child(), os.fspath(place))

    def open(self, place: Path) -> io.BufferedReader:
        """Opens a file of a server to read it as a binary file."""
        return io.BufferedReader(self.open_raw(place), READ_BUFFER_BYTES)

    def create(self, place: Path, *, overwrite: bool = False, size: Optional[int] = None) -> WriteFile:
        """Begins a file on a server. It is there when it is closed, and complete.

        With ``size`` in bytes it must get so many. That the server refuses may show at a later write.
        """
        return WriteFile(self, self._child(), os.fspath(place), overwrite, size)

    def read(self, place: Path) -> bytes:
        """The content of a file."""
        with self.open_raw(place) as file:
            if file.size is not None:
                try:
                    return file.readall()
                except CrossloadError as error:
                    if error.code != "peer_unsupported":
                        raise
        # The server sends whole files only.
        with tempfile.TemporaryDirectory(prefix="crossload-") as directory:
            copy = os.path.join(directory, "file")
            self.copy(place, copy)
            with open(copy, "rb") as content:
                return content.read()

    def read_ranges(self, place: Path, ranges: Iterable[Range]) -> List[bytes]:
        """The content of ranges ``(begin, end)``, which may go beyond the end of the file."""
        with self.open_raw(place) as file:
            return file.read_ranges(ranges)

    def write(self, place: Path, content: bytes, *, overwrite: bool = False) -> Stored:
        """Stores a file with this content."""
        with self.create(place, overwrite=overwrite, size=len(content)) as file:
            file.write(content)
            return file.commit()

    # ---- the queue, and other commands ------------------------------------------------------------

    def submit(
        self,
        source: Path,
        destination: Path,
        *,
        endpoint: Optional[str] = None,
        checksum: Optional[str] = None,
        overwrite: bool = False,
        arguments: Sequence[str] = (),
    ) -> str:
        """Submits a copy to a transfer queue, and returns the job's identifier.

        ``endpoint`` is the queue, or the variable ``CROSSLOAD_QUEUE`` names it.
        """
        options = _options({"--overwrite": overwrite}, {"--endpoint": endpoint})
        places = [os.fspath(source), os.fspath(destination), *([] if checksum is None else [checksum])]
        (job,) = self.run("queue", "submit", *options, *arguments, "--", *places)
        return str(job["job_id"])

    def status(self, *jobs: str, endpoint: Optional[str] = None) -> List[Job]:
        """The states of jobs."""
        options = _options({}, {"--endpoint": endpoint})
        return [Job.of(told) for told in self.run("queue", "status", *options, "--", *jobs)]

    def wait(self, *jobs: str, endpoint: Optional[str] = None) -> List[Job]:
        """Waits until jobs have ended, and returns their states, also if files were not copied."""
        options = _options({"--quiet": True}, {"--endpoint": endpoint})
        told = self._lines("queue", "watch", *options, "--", *jobs, is_half_done_good=True)
        return [Job.of(job) for job in told if "job_state" in job]

    def run(self, *command: str) -> List[Dict[str, Any]]:
        """Runs another command, such as ``run("df", URL)`` or ``run("stage", "--wait", URL)``, as a
        process of its own, and returns the objects that it prints with ``--json``."""
        return self._lines(*command)

    def _lines(self, *command: str, is_half_done_good: bool = False) -> List[Dict[str, Any]]:
        words = list(command)
        # Behind the name of the command, and before what is no option.
        at = words.index("--") if "--" in words else len(words)
        words[at:at] = ["--json", *self._limit(), *self._access]
        done = subprocess.run(
            [self._program, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=self._environment,
            check=False,
        )
        if done.returncode != 0 and not (is_half_done_good and done.returncode == 1):
            said = done.stderr.decode(errors="replace").strip().splitlines()
            message = said[-1] if said else f"crossload {command[0]} ended with {done.returncode}"
            raise error_of({"exit_code": abs(done.returncode), "side": "client", "message": message})
        return [json.loads(line) for line in done.stdout.splitlines()]


_clients: "weakref.WeakSet[Client]" = weakref.WeakSet()


def _after_fork() -> None:
    for client in list(_clients):
        # The lock may be held by a thread that is not there.
        client._lock, client._running = threading.Lock(), None


os.register_at_fork(after_in_child=_after_fork)


def _paths(paths: Paths) -> List[str]:
    if isinstance(paths, (str, os.PathLike)):
        return [os.fspath(paths)]
    return [os.fspath(path) for path in paths]


def _options(flags: Mapping[str, bool], values: Mapping[str, object]) -> List[str]:
    options = [name for name, is_set in flags.items() if is_set]
    for name, value in values.items():
        if value is not None:
            options += [name, str(value)]
    return options


def _access(
    token_file: Optional[Path],
    proxy: Optional[Path],
    cert: Optional[Path],
    key: Optional[Path],
    cacert: Paths,
    capath: Optional[Path],
    insecure: bool,
) -> List[str]:
    named = {"--token-file": token_file, "--proxy": proxy, "--cert": cert, "--key": key, "--capath": capath}
    options = _options({"--insecure": insecure}, {name: path and os.fspath(path) for name, path in named.items()})
    for authority in _paths(cacert):
        options += ["--cacert", authority]
    return options
