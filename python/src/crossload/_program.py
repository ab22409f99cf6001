"""Finds the program, and runs it as the console script."""

from __future__ import annotations

import os
import shutil
import sys
from typing import NoReturn

#: Names another program than the one of the wheel.
VARIABLE = "CROSSLOAD_BIN"


def find_program() -> str:
    """The path of the program: as ``CROSSLOAD_BIN`` says, else that of the wheel, else in ``PATH``.

    Raises :class:`FileNotFoundError` if there is none.
    """
    named = os.environ.get(VARIABLE)
    if named:
        return named
    inside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "crossload")
    if os.access(inside, os.X_OK):
        return inside
    found = shutil.which("crossload")
    if found is None:
        raise FileNotFoundError(f"the program crossload is not installed; {VARIABLE} can name it")
    return found


def main() -> NoReturn:
    """Becomes the program."""
    program = find_program()
    os.execv(program, [program, *sys.argv[1:]])
