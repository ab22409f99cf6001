"""The process beside Python: how many there are, and how they end."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any, List

import pytest
from conftest import Place

import crossload
from crossload import Client, _child
from crossload._program import find_program


def until(is_so: Any) -> None:
    """Waits for something that must come."""
    end = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.02)


def test_a_thousand_reads_are_one_process(ours: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    started: List[Any] = []
    popen = subprocess.Popen

    def counted(*arguments: Any, **options: Any) -> Any:
        started.append(arguments)
        return popen(*arguments, **options)

    monkeypatch.setattr(_child.subprocess, "Popen", counted)
    content = os.urandom(100_000)
    with Client() as client:
        client.write(ours.at("f"), content)
        with client.open_raw(ours.at("f")) as file:
            for at in range(1000):
                assert file.read_ranges([(at * 100, at * 100 + 10)]) == [content[at * 100 : at * 100 + 10]]
    assert len(started) == 1


def test_threads_share_a_client(client: Client, ours: Place) -> None:
    failures: List[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(2):
                name, content = ours.at(f"{number}-{turn}"), os.urandom(1000)
                client.write(name, content)
                assert client.read(name) == content
        except BaseException as error:
            failures.append(error)

    # More than the program takes at the same time.
    threads = [threading.Thread(target=work, args=(number,)) for number in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(client.ls(ours.url)) == 80


WRITER = """
import sys, crossload
client = crossload.Client()
file = client.create(sys.argv[1])
file.write(b"x" * (9 << 20))
print(client._child()._process.pid, flush=True)
sys.stdin.read()
"""


def test_a_killed_parent_leaves_neither_process_nor_file(place: Place, client: Client) -> None:
    if place.scheme in ("http", "https", "dav", "davs") and not place.is_ours:
        pytest.skip("XRootD keeps what a broken upload over HTTP has begun")
    arguments = [sys.executable, "-c", WRITER, place.at("f")]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.send_signal(signal.SIGKILL)
    until(lambda: not _runs(child))
    until(lambda: not client.ls(place.url))


def _runs(process: int) -> bool:
    try:
        with open(f"/proc/{process}/stat") as stat:
            # A zombie has ended; in a container nobody may collect it.
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_killed_process_is_an_error_and_is_started_again(ours: Place) -> None:
    with Client() as client:
        client.write(ours.at("f"), b"content")
        file = client.open_raw(ours.at("f"))
        os.kill(client._child()._process.pid, signal.SIGKILL)
        with pytest.raises(crossload.CrossloadError, match="has ended"):
            file.readall()
        assert client.read(ours.at("f")) == b"content"


def test_an_open_file_keeps_its_client(ours: Place) -> None:
    Client().write(ours.at("f"), b"content")
    file = Client().open(ours.at("f"))
    gc.collect()
    assert file.read() == b"content"


def test_a_forked_process_has_a_program_of_its_own(ours: Place) -> None:
    with Client() as client:
        client.write(ours.at("f"), b"content")
        first = client._child()._process.pid
        child = os.fork()
        if child == 0:
            is_right = client.read(ours.at("f")) == b"content" and client._child()._process.pid != first
            os._exit(0 if is_right else 1)
        _, status = os.waitpid(child, 0)
        assert status == 0
        assert client.read(ours.at("f")) == b"content"


def test_a_cancelled_copy_leaves_nothing(client: Client, ours: Place, tmp_path: Any) -> None:
    source = tmp_path / "f"
    source.write_bytes(os.urandom(20 << 20))
    transfer = client.start_copy(source, ours.at("f"), arguments=["--bwlimit", "1MiB"])
    events = transfer.events()
    assert next(events).kind == "start"
    transfer.cancel()
    with pytest.raises(crossload.CrossloadError) as caught:
        transfer.result()
    assert caught.value.code == "cancelled"
    assert client.ls(ours.url) == []


def test_a_call_that_takes_too_long(ours: Place) -> None:
    with Client(timeout_s=1) as client:
        with client.create(ours.at("f")) as file:
            file.write(b"x")
            # A limit of each call, and not of the program.
            time.sleep(1.5)
        assert client.read(ours.at("f")) == b"x"


def test_the_last_answers_are_written() -> None:
    def ask(line: bytes) -> Any:
        done = subprocess.run([find_program(), "stdio"], input=line, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        return done.returncode, json.loads(done.stdout.splitlines()[-1])

    for _ in range(10):
        code, answer = ask(b'{"id":1,"operation":"stat","place":"/"}\n')
        assert (code, answer["id"], answer["result"]["kind"]) == (0, 1, "directory")
        code, answer = ask(b"no request\n")
        assert (code, answer["id"], answer["error"]["code"]) == (22, None, "bad_request")


def test_what_it_cannot_begin_with_is_an_error() -> None:
    with pytest.raises(FileNotFoundError, match="--cacert"):
        Client(cacert="/no/such/file").schemes
