"""The file system of fsspec, by the tests of fsspec itself, at one server."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from conftest import PLACES
from fsspec.tests import abstract

import crossload
from crossload.filesystem import CrossloadFileSystem


@pytest.fixture(scope="module")
def new_directory(client: crossload.Client) -> str:
    """One server and protocol for fsspec's many tests, the last one."""
    told = PLACES[-1]
    url = str(told["url"]) + uuid.uuid4().hex
    client.mkdir(url)
    return url


class Fixtures(abstract.AbstractFixtures):
    @pytest.fixture(scope="class")
    def fs(self) -> Any:
        return CrossloadFileSystem()

    @pytest.fixture
    def fs_path(self, new_directory: str) -> str:
        return new_directory

    @pytest.fixture
    def supports_empty_directories(self) -> bool:
        return True


# The edge cases of globs are many, and only about fsspec's own code.
class TestCopy(abstract.AbstractCopyTests, Fixtures):
    test_copy_glob_edge_cases = None


class TestGet(abstract.AbstractGetTests, Fixtures):
    test_get_glob_edge_cases = None


class TestPut(abstract.AbstractPutTests, Fixtures):
    test_put_glob_edge_cases = None


class TestPipe(abstract.AbstractPipeTests, Fixtures):
    pass


class TestOpen(abstract.AbstractOpenTests, Fixtures):
    pass
