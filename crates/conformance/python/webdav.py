"""webdav4 used as its documents show it: python3 webdav.py URL FILE."""

import sys
from io import BytesIO

from webdav4.client import Client, ResourceConflict, ResourceNotFound
from webdav4.fsspec import WebdavFileSystem

url, file = sys.argv[1:3]
client = Client(url, timeout=60)

client.mkdir("made")
client.upload_file(file, "made/file")
client.upload_fileobj(BytesIO(b"hello"), "made/small name")
assert client.content_length("made/small name") == 5
assert client.isdir("made") and client.isfile("made/file")
assert sorted(client.ls("made", detail=False)) == ["made/file", "made/small name"]
assert client.info("made/file")["etag"], client.info("made/file")
client.mkdir("made/below")
client.upload_fileobj(BytesIO(b"deep"), "made/below/deep")

back = BytesIO()
client.download_fileobj("made/file", back)
with open(file, "rb") as original:
    assert back.getvalue() == original.read()

client.copy("made", "copied")
assert client.exists("copied/below/deep")
client.copy("made/file", "copied/other")
client.move("copied", "moved")
assert not client.exists("copied")
with client.open("moved/below/deep") as opened:
    assert opened.read() == "deep"
try:
    client.mkdir("not/there")
    raise SystemExit("a directory was made without its parent")
except ResourceConflict:
    pass
client.remove("moved")
assert not client.exists("moved")
try:
    client.remove("moved")
    raise SystemExit("what is not there was removed")
except ResourceNotFound:
    pass

system = WebdavFileSystem(url)
assert sorted(system.find("made")) == ["made/below/deep", "made/file", "made/small name"]
assert system.cat("made/below/deep") == b"deep"
with system.open("made/written", "wb") as written:
    written.write(b"by fsspec")
assert system.info("made/written")["size"] == 9
system.rm("made", recursive=True)
assert not system.exists("made")
