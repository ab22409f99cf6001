"""The process beside Python: how many there are, and how they end."""

from __future__ import annotations

import gc
import json
import os
import pickle
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
        client.mkdir(ours.at("d"))
        client.write(ours.at("d/f"), b"")
        client.rm(ours.at("d"), recursive=True)
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
        with client.open(ours.at("f")) as file:
            child = os.fork()
            if child == 0:
                is_right = client.read(ours.at("f")) == b"content" and client._child()._process.pid != first
                try:
                    file.read()
                    is_right = False
                except crossload.CrossloadError:
                    pass
                file.close()
                os._exit(0 if is_right else 1)
            _, status = os.waitpid(child, 0)
            assert status == 0
            assert file.read() == b"content"
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
        for wrong in (b"no request\n", b'{"id":1,"oper', b'{"id":1,"operation":"write","file":1,"payload_bytes":3}\nab'):
            code, answer = ask(wrong)
            assert (code, answer["id"], answer["error"]["code"]) == (22, None, "bad_request")


def test_what_it_cannot_begin_with_is_an_error() -> None:
    with pytest.raises(FileNotFoundError, match="cacert names /no/such/file"):
        Client(cacert="/no/such/file").schemes
    with pytest.raises(crossload.CrossloadError, match="not crossload"):
        Client(program="/bin/echo").schemes


def test_what_cannot_be_asked_harms_no_other_request(ours: Place) -> None:
    with Client() as client:
        client.write(ours.at("f"), b"content")
        first = client._child()._process.pid
        # More than run at the same time.
        for _ in range(40):
            with pytest.raises(TypeError):
                client.stat(b"/")  # type: ignore[arg-type]
        for wrong in ("/\udcff", "/" + "x" * 2_000_000, "-"):
            with pytest.raises(crossload.CrossloadError):
                client.stat(wrong)
            with pytest.raises(crossload.CrossloadError):
                client.copy(wrong, ours.at("g"))
        with pytest.raises(crossload.CrossloadError):
            client.copy([], ours.at("g"), arguments=["--from-file=-"])
        assert client.read_ranges(ours.at("f"), [(0, 1 << 70)]) == [b"content"]
        assert client._child()._process.pid == first


def test_files_are_collected_in_any_thread(ours: Place) -> None:
    with Client() as client:
        client.write(ours.at("f"), b"content")
        holder: List[Any] = [client.open(ours.at("f"))]
        holder.append(holder)
        del holder

        def collect(_: Any) -> None:
            # This thread reads the answers, and must not wait for one.
            gc.collect()

        call = client._child().start("ls", on_event=collect, place=ours.url)
        until(call._done.is_set)
        assert client.read(ours.at("f")) == b"content"


def test_an_error_in_a_handler_is_that_of_its_call(ours: Place) -> None:
    def fail(_: Any) -> None:
        raise KeyError("handler")

    with Client() as client:
        with pytest.raises(KeyError, match="handler"):
            client._child().start("ls", on_event=fail, place=ours.url).result()
        assert client.ls(ours.url) == []


def test_an_interrupt_cancels_what_is_waited_for(ours: Place, tmp_path: Any) -> None:
    source = tmp_path / "f"
    source.write_bytes(os.urandom(20 << 20))

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with Client() as client:
            child = client._child()
            for wait_s in (0.001, 0.3):
                with pytest.raises(KeyboardInterrupt):
                    signal.setitimer(signal.ITIMER_REAL, wait_s)
                    client.copy(source, ours.at("f"), arguments=["--bwlimit", "100KiB"])
                until(lambda: not child._calls)
            assert client.ls(ours.url) == [] and client._child() is child
    finally:
        signal.signal(signal.SIGALRM, before)


def test_copies_that_are_cancelled_hold_up_no_other_request(ours: Place, tmp_path: Any) -> None:
    (tmp_path / "f").write_bytes(b"content")
    with Client() as client:
        for turn in range(10):
            transfers = [client.start_copy(tmp_path / "f", ours.at(f"{turn}-{number}")) for number in range(20)]
            for transfer in transfers:
                transfer.cancel()
            call = client._child().start("ls", place=ours.url)
            until(call._done.is_set)


def test_a_client_can_be_pickled(ours: Place) -> None:
    with Client() as client:
        client.write(ours.at("f"), b"content")
        with pickle.loads(pickle.dumps(client)) as copy:
            assert copy.read(ours.at("f")) == b"content"
            assert copy._child()._process.pid != client._child()._process.pid
