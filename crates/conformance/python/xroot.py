"""XRootD's own Python client against a server: python3 xroot.py CHECK URL FILE, where URL is a directory that may be
written to and FILE a local copy of URL/source. Every check demands what it says and ends with an error otherwise."""

import os
import random
import sys
import threading
import zlib

import XRootD
from XRootD import client
from XRootD.client.flags import DirListFlags, MkDirFlags, OpenFlags, PrepareFlags, QueryCode, StatInfoFlags

# What one piece of a vector read may have, and one request of them, as XRootD says it.
PIECE_MAX = 2097136
PIECES_MAX = 1024


def later():
    """Whether the client is a later one than 5.5, which cannot set attributes nor prepare files from Python 3.11."""
    return not XRootD.__file__.startswith("/usr/lib/python3/dist-packages")


def good(answer):
    """The response of an answer that must be a success."""
    status, response = answer
    assert status.ok, status.message
    return response


def refused(answer, number):
    """Demands an error with this number of the protocol."""
    status = answer[0]
    assert not status.ok, "a success where an error was due"
    assert status.errno == number, (status.errno, status.message)


def opened(url, flags=OpenFlags.READ):
    file = client.File()
    good(file.open(url, flags))
    return file


def place(url):
    """The server and the path in a URL."""
    parsed = client.URL(url)
    return client.FileSystem(f"{parsed.protocol}://{parsed.hostid}"), parsed.path


def vectors(url, content):
    """Vector reads of many and of large pieces, in any order, overlapping, and past the end."""
    chance = random.Random(4)
    with opened(f"{url}/source") as file:
        for count, longest in [(1, 1), (16, 65536), (128, 4096), (512, 16384), (PIECES_MAX, 100), (3, PIECE_MAX)]:
            pieces = []
            for _ in range(count):
                length = chance.randint(1, longest)
                pieces.append((chance.randint(0, len(content) - length), length))
            read = good(file.vector_read(pieces))
            assert read.size == sum(length for _, length in pieces)
            for (offset, length), chunk in zip(pieces, read.chunks, strict=True):
                assert (chunk.offset, chunk.length) == (offset, length)
                assert chunk.buffer == content[offset : offset + length], (offset, length)
        past, _ = file.vector_read([(0, 10), (len(content) - 5, 10)])
        assert not past.ok, "a read past the end"
        many, _ = file.vector_read([(0, 1)] * (PIECES_MAX + 1))
        assert not many.ok, "too many pieces"
        # The session goes on after each.
        assert good(file.vector_read([(7, 3)])).chunks[0].buffer == content[7:10]


def pending(url, content):
    """A file that is being written is there for others, whatever it was opened with, and can be read once it is closed."""
    server, path = place(url)
    for number, flags in enumerate([OpenFlags.NEW, OpenFlags.DELETE, OpenFlags.DELETE | OpenFlags.FORCE]):
        name = f"pending-{number}"
        file = opened(f"{url}/{name}", flags)
        good(server.stat(f"{path}/{name}"))
        good(file.write(content[:1000]))
        good(file.sync())
        assert good(server.stat(f"{path}/{name}")).size == 1000, name
        good(file.close())
        with opened(f"{url}/{name}") as stored:
            assert good(stored.read()) == content[:1000]
        good(server.rm(f"{path}/{name}"))
        refused(server.stat(f"{path}/{name}"), 3011)


def reads(url, content):
    """Reads at offsets, past the end, of lines and of chunks."""
    with opened(f"{url}/source") as file:
        size = len(content)
        assert good(file.stat()).size == size
        assert good(file.read(0, 100)) == content[:100]
        assert good(file.read(size - 10, 100)) == content[-10:]
        assert good(file.read(size, 100)) == b""
        assert good(file.read(size + 1000000, 100)) == b""
        assert good(file.read()) == content
        whole = b"".join(chunk for chunk in file.readchunks(offset=0, chunksize=1000003))
        assert whole == content
        refused(file.write(b"x", 0), 3004)
    with opened(f"{url}/lines", OpenFlags.NEW) as file:
        good(file.write(b"one\ntwo\n\nfour"))
    with opened(f"{url}/lines") as file:
        lines = [file.readline() for _ in range(5)]
        assert [line if isinstance(line, str) else line.decode() for line in lines] == ["one\n", "two\n", "\n", "four", ""]


def writes(url, content):
    """Writing in pieces out of order, reading back, cutting, lengthening, and changing what exists."""
    name = f"{url}/written"
    with opened(name, OpenFlags.NEW) as file:
        step = 1000003
        offsets = list(range(0, len(content), step))
        for offset in reversed(offsets):
            good(file.write(content[offset : offset + step], offset))
        good(file.sync())
        assert good(file.stat(force=True)).size == len(content)
        good(file.write(b"changed", 10))
        good(file.truncate(len(content) - 7))
    expected = content[:10] + b"changed" + content[17:-7]
    with opened(name) as file:
        assert good(file.read()) == expected
    refused(client.File().open(name, OpenFlags.NEW), 3018)
    with opened(name, OpenFlags.UPDATE) as file:
        assert good(file.read(5, 20)) == expected[5:25]
        good(file.write(b"in place", 100))
        good(file.truncate(2000))
        good(file.truncate(2010))
    with opened(name) as file:
        assert good(file.read()) == expected[:100] + b"in place" + expected[108:2000] + bytes(10)
    with opened(name, OpenFlags.DELETE) as file:
        good(file.write(b"new"))
    with opened(name) as file:
        assert good(file.read()) == b"new"
    server, path = place(name)
    assert good(server.query(QueryCode.CHECKSUM, path)).rstrip(b"\0").split() == [b"adler32", b"%08x" % zlib.adler32(b"new")]


def attributes(url, _content):
    """Extended attributes of an open file and of a path, several at once."""
    assert later()
    name = f"{url}/attributes"
    with opened(name, OpenFlags.NEW) as file:
        good(file.write(b"content"))
    server, path = place(name)
    wanted = {"one": "1", "two": "zwei", "three": "a longer value " * 100}
    with opened(name, OpenFlags.UPDATE) as file:
        for _, status in good(file.set_xattr(attrs=list(wanted.items()))):
            assert status["ok"], status
        assert {entry[0]: entry[1] for entry in good(file.list_xattr())} == wanted
        told = good(file.get_xattr(attrs=["two", "none", "one"]))
        assert [entry[1] for entry in told] == ["zwei", "", "1"], told
        assert [entry[2]["ok"] for entry in told] == [True, False, True], told
        assert told[1][2]["errno"] == 3027, told
    good(server.set_xattr(path, attrs=[("two", "deux"), ("four", "4")]))
    good(server.del_xattr(path, attrs=["one", "three"]))
    assert {entry[0]: entry[1] for entry in good(server.list_xattr(path))} == {"two": "deux", "four": "4"}


def copies(url, content):
    """A copy process with several jobs, up and down, with checksums of both sides compared."""
    up = client.CopyProcess()
    up.parallel(4)
    for index in range(6):
        up.add_job(sys.argv[3], f"{url}/copies/{index}", mkdir=True, posc=index % 2 == 1,
                   checksummode="end2end", checksumtype="adler32", chunksize=1000003, parallelchunks=index + 1)
    finished(up, 6)
    down = client.CopyProcess()
    targets = [f"{sys.argv[3]}.{os.getpid()}.{index}" for index in range(6)]
    for index, target in enumerate(targets):
        down.add_job(f"{url}/copies/{index}", target, checksummode="end2end", checksumtype="adler32")
    finished(down, 6)
    for target in targets:
        with open(target, "rb") as file:
            assert file.read() == content, target
        os.remove(target)


def thirteen(url, content):
    """Uploads of which the last write has 13 bytes behind whole chunks, so that two answers are due at once."""
    local = f"{sys.argv[3]}.{os.getpid()}"
    for chunks in (1, 2, 3):
        with open(local, "wb") as file:
            file.truncate((chunks << 23) + 13)
        up = client.CopyProcess()
        up.add_job(local, f"{url}/thirteen/{chunks}", mkdir=True)
        finished(up, 1)
    os.remove(local)
    server, base = place(url)
    assert good(server.stat(f"{base}/thirteen/3")).size == (3 << 23) + 13


def finished(process, count):
    status = process.prepare()
    assert status.ok, status.message
    status, results = process.run()
    assert status.ok, status.message
    assert len(results) == count
    for result in results:
        assert result["status"].ok, result["status"].message


def names(url, content):
    """Everything that the client knows about names."""
    server, base = place(url)
    good(server.ping())
    good(server.protocol())
    good(server.mkdir(f"{base}/a/b", MkDirFlags.MAKEPATH))
    with opened(f"{url}/a/file", OpenFlags.NEW) as file:
        good(file.write(content[:1234]))
    facts = good(server.stat(f"{base}/a/file"))
    assert facts.size == 1234 and facts.flags & StatInfoFlags.IS_READABLE
    assert good(server.stat(f"{base}/a")).flags & StatInfoFlags.IS_DIR
    listed = good(server.dirlist(f"{base}/a", DirListFlags.STAT))
    assert {entry.name: entry.statinfo.flags & StatInfoFlags.IS_DIR for entry in listed} == {
        "b": StatInfoFlags.IS_DIR, "file": 0}
    deep = good(server.dirlist(base, DirListFlags.STAT | DirListFlags.RECURSIVE))
    assert {"a", "a/b", "a/file"} <= {entry.name.lstrip("/") for entry in deep}, [entry.name for entry in deep]
    located = list(good(server.locate(f"{base}/a/file", OpenFlags.REFRESH)))
    assert len(located) == 1 and located[0].is_server, located
    good(server.truncate(f"{base}/a/file", 1000))
    good(server.chmod(f"{base}/a/file", 0o640))
    assert good(server.stat(f"{base}/a/file")).size == 1000
    good(server.mv(f"{base}/a/file", f"{base}/a/b/moved"))
    refused(server.stat(f"{base}/a/file"), 3011)
    assert good(server.statvfs(base)).nodes_rw == 1
    good(server.sendinfo("a test"))
    assert good(server.query(QueryCode.CONFIG, "readv_iov_max readv_ior_max")).split() == [b"1024", b"2097136"]
    assert good(server.query(QueryCode.SPACE, base)).startswith(b"oss.cgroup=")
    if later():
        good(server.prepare([f"{base}/a/b/moved"], PrepareFlags.WRITEMODE))
    status, _ = server.rmdir(f"{base}/a/b")
    assert not status.ok
    good(server.rm(f"{base}/a/b/moved"))
    good(server.rmdir(f"{base}/a/b"))


def crowd(url, content):
    """Many requests of many threads on one connection, none of which waits for another."""
    with opened(f"{url}/source") as file:
        wrong = []

        def work(seed):
            chance = random.Random(seed)
            for _ in range(40):
                offset = chance.randint(0, len(content) - 1)
                length = chance.randint(1, 200000)
                if good(file.read(offset, length)) != content[offset : offset + length]:
                    wrong.append((offset, length))

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong, wrong[:3]


def main():
    print("client", XRootD.__file__, flush=True)
    check, url, local = sys.argv[1:]
    with open(local, "rb") as file:
        content = file.read()
    checks = (vectors, pending, reads, writes, attributes, copies, thirteen, names, crowd)
    {function.__name__: function for function in checks}[check](url, content)
    print("done", check)


main()
