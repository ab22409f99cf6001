"""File systems for ``fsspec``.

They are registered as ``crossload+https``, ``crossload+root`` and so on, one for each protocol of the
program, and so take nothing from the file systems of others. :func:`register` gives them plain names.
"""

from __future__ import annotations

import datetime
import io
import operator
import os
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Union
from urllib.parse import quote, unquote

import fsspec
import fsspec.implementations.local
import fsspec.utils
from fsspec.spec import AbstractBufferedFile, AbstractFileSystem

from ._client import Client
from ._files import Range, ReadFile, WriteFile
from ._types import Entry

#: Of each range, or the same of all.
Offsets = Union[None, int, Sequence[Optional[int]]]
#: What names of file systems and URLs begin with.
PREFIX = "crossload+"


def register(*schemes: str) -> None:
    """Makes ``fsspec`` use this file system for URLs with these schemes, such as ``root``."""
    for scheme in schemes:
        fsspec.register_implementation(scheme, CrossloadFileSystem, clobber=True)


class CrossloadFileSystem(AbstractFileSystem):
    """Files of servers, over every protocol of the program.

    Paths are complete URLs, without the prefix ``crossload+``. Arguments are those of
    :class:`crossload.Client`.
    """

    protocol = "crossload"
    root_marker = ""

    def __init__(self, **options: Any) -> None:
        clients = {name: options.pop(name) for name in list(options) if name in _CLIENT_OPTIONS}
        super().__init__(**options)
        self.client = Client(**clients)

    # ---- names ------------------------------------------------------------------------------------

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(each) for each in path]
        text = fsspec.utils.stringify_path(path)
        if text.startswith(PREFIX):
            text = text[len(PREFIX) :]
        scheme, found, rest = text.partition("://")
        return f"{scheme}://{rest.rstrip('/')}" if found else text

    def unstrip_protocol(self, name: str) -> str:
        return PREFIX + str(self._strip_protocol(name))

    @classmethod
    def _parent(cls, path: str) -> str:
        scheme, _, rest = cls._strip_protocol(path).partition("://")
        parent = rest.rpartition("/")[0].rstrip("/")
        return f"{scheme}://{parent or rest}"

    # ---- metadata ---------------------------------------------------------------------------------

    def info(self, path: str, **_: Any) -> Dict[str, Any]:
        path = self._strip_protocol(path)
        return _info(self.client.stat(path), path)

    def exists(self, path: str, **_: Any) -> bool:
        return self.client.exists(self._strip_protocol(path))

    def ls(self, path: str, detail: bool = True, **_: Any) -> List[Any]:
        path = self._strip_protocol(path)
        entries = self.client.ls(path)
        infos = [_info(entry, self._strip_protocol(_path_of(entry, path))) for entry in entries]
        infos.sort(key=lambda info: str(info["name"]))
        return infos if detail else [info["name"] for info in infos]

    def walk(
        self,
        path: str,
        maxdepth: Optional[int] = None,
        topdown: bool = True,
        on_error: Union[str, Callable[[OSError], Any]] = "omit",
        **options: Any,
    ) -> Iterator[Any]:
        """As that of fsspec; but only a directory that is not there is left out. A tree that is
        incomplete because a server refuses or fails would be copied, or taken for all, as if it were
        whole."""
        # That of fsspec does not hand it on to the directories below.
        chosen = options.setdefault("_on_error", on_error)

        def handle(error: OSError) -> None:
            if callable(chosen):
                chosen(error)
            elif chosen != "omit" or not isinstance(error, (FileNotFoundError, NotADirectoryError)):
                raise error

        return super().walk(path, maxdepth, topdown, handle, **options)  # type: ignore[no-any-return]

    def modified(self, path: str) -> datetime.datetime:
        modified_s = self.info(path)["modified_s"]
        if modified_s is None:
            raise OSError("the server does not say when it was changed")
        return datetime.datetime.fromtimestamp(modified_s, datetime.timezone.utc)

    def checksum(self, path: str) -> str:
        return self.client.sum(self._strip_protocol(path))

    # ---- changes of names -------------------------------------------------------------------------

    def mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:
        path = self._strip_protocol(path)
        if create_parents:
            self.makedirs(self._parent(path), exist_ok=True)
        self.client.mkdir(path)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        path = self._strip_protocol(path)
        if not exist_ok and self.client.exists(path):
            raise FileExistsError(path)
        self.client.mkdir(path, parents=True)

    def rmdir(self, path: str) -> None:
        self.client.rmdir(self._strip_protocol(path))

    def rm_file(self, path: str) -> None:
        self.client.rm(self._strip_protocol(path))

    def rm(self, path: Any, recursive: bool = False, maxdepth: Optional[int] = None) -> None:
        for given in [path] if isinstance(path, (str, os.PathLike)) else list(path):
            one = self._strip_protocol(given)
            # A name that a listing has may look like a pattern, and must not remove others.
            is_pattern = _has_magic(one) and not self.client.exists(one)
            if recursive and maxdepth is None and not is_pattern:
                # The program enters no link.
                self.client.rm(one, recursive=True)
                continue
            options = {"recursive": recursive, "maxdepth": maxdepth}
            found = self.expand_path(one, **options) if is_pattern or recursive else [one]
            for each in reversed(found):
                try:
                    self.client.rm(each)
                except IsADirectoryError:
                    self.client.rmdir(each)

    def mv(self, path1: Any, path2: Any, **options: Any) -> None:
        source, destination = self._strip_protocol(path1), self._strip_protocol(path2)
        are_names = isinstance(source, str) and isinstance(destination, str)
        if not are_names or options.get("recursive") or options.get("maxdepth") is not None or _has_magic(source):
            super().mv(path1, path2, **options)
        elif source != destination:
            self.client.mv(source, destination, overwrite=True)

    # ---- copies -----------------------------------------------------------------------------------

    def cp_file(self, path1: str, path2: str, **_: Any) -> None:
        source, destination = self._strip_protocol(path1), self._strip_protocol(path2)
        if self.isdir(source):
            self.makedirs(destination, exist_ok=True)
        else:
            self.client.copy(source, destination, overwrite=True, parents=True)

    def get(self, rpath: Any, lpath: Any, *arguments: Any, **options: Any) -> None:
        if isinstance(lpath, (str, os.PathLike)):
            options["_below"] = fsspec.implementations.local.make_path_posix(os.fspath(lpath))
        super().get(rpath, lpath, *arguments, **options)

    def put(self, lpath: Any, rpath: Any, *arguments: Any, **options: Any) -> None:
        if isinstance(rpath, str):
            options["_below"] = self._strip_protocol(rpath)
        super().put(lpath, rpath, *arguments, **options)

    def get_file(self, rpath: str, lpath: Any, callback: Any = None, outfile: Any = None, **options: Any) -> None:
        source = self._strip_protocol(rpath)
        if isinstance(lpath, str) and not _is_plain(source):
            lpath = _renamed(lpath, options.pop("_below", None), _decoded)
        if outfile is not None or fsspec.utils.isfilelike(lpath):
            super().get_file(source, lpath, outfile=outfile, **options)
        elif self.isdir(source):
            fsspec.implementations.local.LocalFileSystem(auto_mkdir=True).makedirs(lpath, exist_ok=True)
        else:
            self.client.copy(source, lpath, overwrite=True, parents=True)

    def put_file(
        self, lpath: Any, rpath: str, callback: Any = None, mode: str = "overwrite", _below: Optional[str] = None, **_: Any
    ) -> None:
        destination = self._strip_protocol(rpath)
        destination = _renamed(destination, _below, _unqueried if _is_plain(destination) else _encoded)
        if fsspec.implementations.local.LocalFileSystem().isdir(lpath):
            self.makedirs(destination, exist_ok=True)
        else:
            self.client.copy(lpath, destination, overwrite=mode == "overwrite", parents=True)

    # ---- content ----------------------------------------------------------------------------------

    def cat_file(self, path: str, start: Optional[int] = None, end: Optional[int] = None, **_: Any) -> bytes:
        if start is None and end is None:
            return self.client.read(self._strip_protocol(path))
        with self.client.open_raw(self._strip_protocol(path)) as file:
            return file.read_ranges([_range(file, start, end)])[0]

    def cat_ranges(
        self,
        paths: List[str],
        starts: Offsets,
        ends: Offsets,
        max_gap: Optional[int] = None,
        on_error: str = "return",
        **_: Any,
    ) -> List[Any]:
        """All ranges of a file are read by one request, where its server can."""
        if not isinstance(paths, list):
            raise TypeError("paths must be a list")
        begins, behinds = _for_each(starts, len(paths)), _for_each(ends, len(paths))
        if not len(begins) == len(behinds) == len(paths):
            raise ValueError("as many starts and ends as paths are needed")
        wanted: Dict[str, List[int]] = {}
        for index, path in enumerate(paths):
            wanted.setdefault(self._strip_protocol(path), []).append(index)
        pieces: List[Any] = [b""] * len(paths)
        for path, indices in wanted.items():
            try:
                with self.client.open_raw(path) as file:
                    ranges = [_range(file, begins[index], behinds[index]) for index in indices]
                    for index, piece in zip(indices, file.read_ranges(ranges)):
                        pieces[index] = piece
            except Exception as error:
                if on_error != "return":
                    raise
                for index in indices:
                    pieces[index] = error
        return pieces

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: Any) -> None:
        self.client.write(self._strip_protocol(path), value, overwrite=mode == "overwrite")

    def open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        if "b" in mode or "r" in mode or options.get("compression"):
            return super().open(path, mode, **options)
        text = {name: options.pop(name) for name in ("encoding", "errors", "newline") if name in options}
        return _TextWriter(super().open(path, mode.replace("t", "") + "b", **options), **text)

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: Optional[int] = None,
        autocommit: bool = True,
        cache_options: Optional[Dict[str, Any]] = None,
        **options: Any,
    ) -> "CrossloadFile":
        if mode not in ("rb", "wb", "xb"):
            # As io has it, which is a ValueError and an OSError.
            raise io.UnsupportedOperation(f"files are opened as rb, wb or xb, not as {mode}")
        if mode == "xb" and self.client.exists(path):
            # The server looks again when the file is complete.
            raise FileExistsError(path)
        return CrossloadFile(
            self, path, mode, block_size or "default", autocommit, cache_options=cache_options, **options
        )


class CrossloadFile(AbstractBufferedFile):
    """A file that is read by blocks, or written as a stream.

    One that is written is there when it is closed. Leaving a ``with`` block by an exception gives it
    up, and so does the garbage collector.
    """

    def __init__(
        self,
        fs: CrossloadFileSystem,
        path: str,
        mode: str,
        block_size: Any,
        autocommit: bool,
        size: Optional[int] = None,
        **options: Any,
    ) -> None:
        self._reader: Optional[ReadFile] = None
        self._writer: Optional[WriteFile] = None
        self._announced = size
        if mode == "rb":
            self._reader = fs.client.open_raw(path)
            size = self._reader.size
            if size is None:
                self._reader.close()
                raise io.UnsupportedOperation("the server does not say how long the file is; use Client.open")
        super().__init__(fs, path, mode, block_size, autocommit, size=size, **options)

    def _fetch_range(self, start: int, end: int) -> bytes:
        assert self._reader is not None
        return self._reader.read_ranges([(start, end)])[0]

    def _initiate_upload(self) -> None:
        self._writer = self.fs.client.create(self.path, overwrite=self.mode == "wb", size=self._announced)

    def _upload_chunk(self, final: bool = False) -> None:
        assert self._writer is not None
        self._writer.write(self.buffer.getbuffer())
        if final and self.autocommit:
            self.commit()

    def commit(self) -> None:
        """Ends the file, if that was not done by closing it."""
        assert self._writer is not None
        self._writer.close()

    def discard(self) -> None:
        """Gives the file up."""
        if self._writer is not None:
            self._writer.discard()
        self.closed = True

    def close(self) -> None:
        if self.closed:
            return
        try:
            super().close()
        except BaseException:
            self.discard()
            raise
        finally:
            if self._reader is not None:
                self._reader.close()

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        if kind is not None and self.mode != "rb":
            self.discard()
        else:
            self.close()

    def __del__(self) -> None:
        # The reader and writer end by themselves, and what was not closed may be incomplete.
        pass


class _TextWriter(io.TextIOWrapper):
    """Text on its way to a file, which an exception gives up."""

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        if kind is not None:
            self.buffer.discard()  # type: ignore[attr-defined]
        self.close()

    def __del__(self) -> None:
        # What was not closed may be incomplete.
        if not self.closed:
            self.buffer.discard()  # type: ignore[attr-defined]


_CLIENT_OPTIONS = frozenset(Client.__init__.__kwdefaults__ or ())


def _has_magic(path: str) -> bool:
    return any(character in path for character in "*?[")


def _is_plain(url: str) -> bool:
    """Whether names in URLs are not encoded: in those of the XRootD protocol."""
    return url.partition("://")[0].lstrip("x") in ("root", "roots")


def _renamed(path: str, below: Optional[str], change: Callable[[str], str]) -> str:
    """A path with other names in the part that fsspec has appended to that of a tree."""
    if below is None or not path.startswith(below):
        return path
    return below + "/".join(change(name) for name in path[len(below) :].split("/"))


def _encoded(name: str) -> str:
    return quote(name, safe="!$&'()*+,;=:@")


def _unqueried(name: str) -> str:
    if "?" in name:
        raise ValueError(f"the XRootD protocol cannot name a file {name}")
    return name


def _decoded(name: str) -> str:
    try:
        decoded = unquote(name, errors="strict")
    except UnicodeDecodeError:
        return name
    # A name from a server must not lead to another directory.
    leads_elsewhere = decoded in ("", ".", "..") or "/" in decoded or "\0" in decoded
    return name if leads_elsewhere else decoded


def _path_of(entry: Entry, directory: str) -> str:
    """A name that no path leads to has one that is refused, and never that of another file."""
    if entry.kind == "name":
        return f"{directory}/{quote(entry.name, safe='').replace('.', '%2E')}"
    return entry.place


def _info(entry: Entry, path: str) -> Dict[str, Any]:
    is_plain = entry.kind in ("file", "directory")
    return {
        "name": path,
        "size": entry.bytes if not entry.is_directory else 0,
        "type": entry.kind if is_plain else "other",
        "modified_s": entry.modified_s,
        "checksums": list(entry.checksums),
    }


def _for_each(offsets: Offsets, count: int) -> List[Optional[int]]:
    each: Iterable[Any] = offsets if isinstance(offsets, Iterable) else [offsets] * count
    return [None if offset is None else operator.index(offset) for offset in each]


def _range(file: ReadFile, start: Optional[int], end: Optional[int]) -> Range:
    """A range with an end, of one that may count from the end as slices do."""
    if (start is None or start >= 0) and end is not None and end >= 0:
        begin = start or 0
        return begin, max(begin, end)
    if file.size is None:
        raise OSError("the server does not say how long the file is")
    begin, behind, _ = slice(start, end).indices(file.size)
    return begin, max(begin, behind)
