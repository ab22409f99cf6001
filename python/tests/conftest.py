"""The places of the tests, from the variable CROSSLOAD_TEST_PLACES: a JSON list of URLs of directories
that can be written, each with the directory behind it and whether the server is ours."""

from __future__ import annotations

import json
import os
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator

import pytest

import crossload


@dataclass
class Place:
    """A new directory at a server."""

    url: str
    directory: Path
    is_ours: bool

    def at(self, name: str) -> str:
        return f"{self.url}/{name}"

    @property
    def scheme(self) -> str:
        return self.url.split(":")[0]


PLACES = json.loads(os.environ["CROSSLOAD_TEST_PLACES"])


@pytest.fixture(scope="session")
def client() -> Iterator[crossload.Client]:
    with crossload.Client() as client:
        yield client


@pytest.fixture(params=PLACES, ids=lambda place: ("ours-" if place["is_ours"] else "xrootd-") + place["url"].split(":")[0])
def place(request: pytest.FixtureRequest, client: crossload.Client) -> Place:
    told = request.param
    name = uuid.uuid4().hex
    client.mkdir(told["url"] + name)
    return Place(told["url"] + name, Path(told["directory"], name), told["is_ours"])


@pytest.fixture
def ours(client: crossload.Client) -> Place:
    """A directory at a server of ours, for tests that are about this machine."""
    told = next(told for told in PLACES if told["is_ours"])
    name = uuid.uuid4().hex
    client.mkdir(told["url"] + name)
    return Place(told["url"] + name, Path(told["directory"], name), True)
