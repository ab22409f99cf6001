"""A file of ROOT's format, made and read by uproot.

    python3 rootfile.py make FILE
    python3 rootfile.py read URL HANDLER

HANDLER names how uproot fetches it: `default` (fsspec), `xrootd` (XRootD's own client, with vector reads) or `http`
(ranges, several in one request where the server can)."""

import sys

import numpy
import uproot

ENTRIES = 60000


def columns():
    """The same numbers for making and for comparing; noise, because what compresses well is read in one piece."""
    noise = numpy.random.default_rng(17)
    return {
        "number": numpy.arange(ENTRIES, dtype=numpy.int64),
        "energy": noise.normal(size=ENTRIES),
        "vector": noise.normal(size=(ENTRIES, 3)).astype(numpy.float32),
    }


def make(path):
    with uproot.recreate(path, compression=uproot.ZLIB(1)) as file:
        tree = file.mktree("events", {name: (column.dtype, column.shape[1:]) for name, column in columns().items()})
        for start in range(0, ENTRIES, 5000):
            tree.extend({name: column[start : start + 5000] for name, column in columns().items()})
        file["histogram"] = numpy.histogram(columns()["energy"], bins=20)


def read(url, handler):
    options = {}
    if handler == "xrootd":
        options["handler"] = uproot.source.xrootd.XRootDSource
    elif handler == "http":
        options["handler"] = uproot.source.http.HTTPSource
    expected = columns()
    with uproot.open(url, **options) as file:
        tree = file["events"]
        assert tree.num_entries == ENTRIES
        some = tree.arrays(["number", "vector"], entry_start=12345, entry_stop=43210, library="np")
        assert (some["number"] == expected["number"][12345:43210]).all()
        assert (some["vector"] == expected["vector"][12345:43210]).all()
        every = tree.arrays(library="np")
        for name, column in expected.items():
            assert (every[name] == column).all(), name
        counts, _ = file["histogram"].to_numpy()
        assert counts.sum() == ENTRIES


if sys.argv[1] == "make":
    make(sys.argv[2])
else:
    read(*sys.argv[2:])
print("done", sys.argv[1])
