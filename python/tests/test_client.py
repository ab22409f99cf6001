"""Names, content and copies, at every place."""

from __future__ import annotations

import http.server
import io
import os
import pickle
import threading
import zlib
from pathlib import Path
from typing import List

import pytest
from conftest import Place

import crossload
from crossload import Client

#: More than one request and one buffer hold.
LONG = os.urandom(1 << 20) * 9 + os.urandom(300_000) + b"end"


def names(client: Client, url: str) -> List[str]:
    return sorted(entry.name for entry in client.ls(url))


def test_names(client: Client, place: Place) -> None:
    client.mkdir(place.at("a/b"), parents=True)
    with pytest.raises(FileExistsError):
        client.mkdir(place.at("a"))
    client.mkdir(place.at("a"), parents=True)
    client.write(place.at("a/f"), b"content")
    entries = {entry.name: entry for entry in client.ls(place.at("a"))}
    assert sorted(entries) == ["b", "f"]
    assert entries["b"].is_directory and entries["f"].is_file
    assert entries["f"].place == place.at("a/f") and entries["f"].bytes == 7
    (itself,) = client.ls(place.at("a/f"))
    assert (itself.place, itself.bytes) == (place.at("a/f"), 7)
    assert client.stat(place.at("a/f")).modified_s is not None
    assert client.sum(place.at("a/f")) == f"{zlib.adler32(b'content'):08x}"
    client.mv(place.at("a/f"), place.at("g"))
    assert not client.exists(place.at("a/f")) and client.exists(place.at("g"))
    with pytest.raises(IsADirectoryError):
        client.rm(place.at("a"))
    with pytest.raises(NotADirectoryError):
        client.rmdir(place.at("g"))
    client.rmdir(place.at("a/b"))
    client.write(place.at("a/deep"), b"")
    with pytest.raises(crossload.CrossloadError) as caught:
        client.rmdir(place.at("a"))
    assert caught.value.errno == 39
    client.rm(place.at("a"), recursive=True)
    client.rm(place.at("g"))
    assert names(client, place.url) == []


def test_errors(client: Client, place: Place, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        client.stat(place.at("none"))
    error = caught.value
    assert isinstance(error, crossload.NotFound)
    assert (error.code, error.exit_code, error.errno) == ("peer_not_found", 2, 2)
    assert error.side == "server" and error.phase and error.next and "; next: " in str(error)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    with pytest.raises(FileNotFoundError):
        client.read(place.at("none"))
    # XRootD would tell a checksum that was asked for of any file of the same second.
    (tmp_path / "old").write_bytes(b"old")
    client.copy(tmp_path / "old", place.at("f"), verify="never")
    with pytest.raises(FileExistsError):
        client.write(place.at("f"), b"new")
    assert client.read(place.at("f")) == b"old"
    client.write(place.at("f"), b"new", overwrite=True)
    assert client.read(place.at("f")) == b"new"
    with pytest.raises(crossload.CrossloadError, match="fly"):
        client.sum(place.at("f"), "fly")


def test_advice_names_arguments_of_the_module() -> None:
    described = {
        "exit_code": 71,
        "message": "client: --cacert names /a: no certificate, /--proxy -r",
        "next": "Give --token-file or --cert; -k, copy -p or rm -r; --delegate has no argument. Use --mode stream.",
    }
    error = crossload.CrossloadError(described)
    assert error.message == "client: cacert names /a: no certificate, /--proxy -r"
    assert error.next == (
        "Give token_file or cert; insecure=True, copy parents=True or rm recursive=True; --delegate has no argument. "
        "Use mode stream."
    )
    # A second translation changes nothing: exceptions are pickled.
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_errors_of_commands(client: Client, place: Place) -> None:
    with pytest.raises(FileNotFoundError):
        client.rm(place.at("none"), recursive=True)
    with pytest.raises(crossload.CrossloadError) as caught:
        client.copy(place.at("none"), place.at("f"), arguments=["--no-such-option"])
    assert caught.value.errno == 22


def test_ranges(client: Client, place: Place) -> None:
    stored = client.write(place.at("f"), LONG)
    assert stored.bytes == len(LONG)
    assert client.read(place.at("f")) == LONG
    ranges = [(0, 10), (5, 5), (len(LONG) - 3, len(LONG) + 100), (1 << 20, 9 << 20), (7, 8)]
    assert client.read_ranges(place.at("f"), ranges) == [LONG[begin:end] for begin, end in ranges]
    many = [(at * 1000, at * 1000 + 10) for at in range(3000)]
    assert client.read_ranges(place.at("f"), many) == [LONG[begin:end] for begin, end in many]
    with client.open(place.at("f")) as file:
        file.seek(-3, io.SEEK_END)
        assert file.read() == b"end"
        file.seek(1 << 20)
        assert file.read(5) == LONG[1 << 20 : (1 << 20) + 5]


def test_whole_files_of_a_server_without_ranges(client: Client) -> None:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_response(200)
            if self.path == "/long":
                self.send_header("Content-Length", str(3 * len(LONG)))
            self.end_headers()

        def do_GET(self) -> None:
            self.do_HEAD()
            self.wfile.write(3 * LONG)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        for name in ("long", "of-unknown-size"):
            assert client.read(f"{url}/{name}") == 3 * LONG
        server.shutdown()


def test_files_appear_when_they_are_complete(client: Client, place: Place) -> None:
    with client.create(place.at("f")) as file:
        for at in range(0, len(LONG), 1_000_000):
            file.write(LONG[at : at + 1_000_000])
    assert file.stored is not None and file.stored.bytes == len(LONG)
    assert client.read(place.at("f")) == LONG
    with client.create(place.at("empty")):
        pass
    assert client.stat(place.at("empty")).bytes == 0


def test_files_that_are_given_up_leave_nothing(client: Client, place: Place) -> None:
    if place.scheme in ("http", "https", "dav", "davs") and not place.is_ours:
        pytest.skip("XRootD keeps what a broken upload over HTTP has begun")
    with pytest.raises(KeyError):
        with client.create(place.at("raised")) as file:
            file.write(LONG)
            raise KeyError
    collected = client.create(place.at("collected"))
    collected.write(LONG)
    del collected
    # A request behind the clean-up of the collector's file.
    file = client.create(place.at("discarded"))
    file.write(LONG)
    file.discard()
    for _ in range(100):
        if not names(client, place.url):
            break
    with pytest.raises(ValueError):
        file.write(b"x")
    with pytest.raises(crossload.CrossloadError):
        with client.create(place.at("short"), size=10) as file:
            file.write(b"short")
    assert names(client, place.url) == []


def test_copies(client: Client, place: Place, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    for name in ("a", "b"):
        (tree / name).write_bytes(LONG)
    result = client.copy(tree, place.url, recursive=True)
    assert sorted(copied.destination for copied in result.copied) == [place.at("tree/a"), place.at("tree/b")]
    assert result.bytes == 2 * len(LONG)
    again = client.copy(tree, place.url, recursive=True)
    assert not again.copied and len(again.skipped) == 2
    with client.start_copy(place.at("tree/a"), tmp_path / "back") as transfer:
        kinds = [event.kind for event in transfer.events()]
    assert kinds[0] == "start" and kinds[-2:] == ["done", "summary"]
    (copied,) = transfer.result().copied
    assert copied.mode == "download" and (tmp_path / "back").read_bytes() == LONG
    with pytest.raises(FileExistsError):
        client.copy(tree / "a", place.at("tree/a"), arguments=["--compare", "time"])
    with pytest.raises(crossload.CrossloadError) as caught:
        client.copy([place.at("none"), place.at("nor this")], tmp_path)
    assert [type(failure) for failure in caught.value.failures] == [crossload.NotFound] * 2
    (tree / "a").unlink()
    changed = client.sync(f"{tree}/", place.at("tree"), delete=True)
    assert changed.deleted == (place.at("tree/a"),)
    assert names(client, place.at("tree")) == ["b"]
