"""What the wheel takes from the rest of the repository: the version, the program and its protocols."""

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any, Dict

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

ROOT = Path(__file__).resolve().parent.parent


def program() -> Path:
    """The program that the wheel contains; ``CROSSLOAD_BIN`` names another one."""
    return Path(os.environ.get("CROSSLOAD_BIN", ROOT / "target/release/crossload"))


class CustomMetadataHook(MetadataHookInterface):
    def update(self, metadata: Dict[str, Any]) -> None:
        manifest = (ROOT / "Cargo.toml").read_text()
        found = re.search(r'^version = "(.+)"$', manifest, re.MULTILINE)
        assert found, "Cargo.toml has no version"
        metadata["version"] = found.group(1)
        said = subprocess.run([program(), "stdio"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True)
        schemes = json.loads(said.stdout.splitlines()[0])["schemes"]
        file_system = "crossload.filesystem:CrossloadFileSystem"
        metadata["entry-points"] = {"fsspec.specs": {f"crossload+{scheme}": file_system for scheme in schemes}}


class CustomBuildHook(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: Dict[str, Any]) -> None:
        if self.target_name != "wheel":
            raise ValueError("only wheels are built: the program is not made from Python")
        machine = os.uname().machine
        build_data["pure_python"] = False
        # The program needs the C library of the machine that built it, or a later one.
        build_data["tag"] = f"py3-none-linux_{machine}"
        build_data["force_include"][str(program())] = "crossload/bin/crossload"
