"""Emulation of macOS on arm64 in Python processes: features of Linux on x86-64 are removed."""

import os
import sys
from pathlib import Path

PLATFORM = "Darwin arm64"
# Python runs the first sitecustomize.py on its path at startup.
_SITECUSTOMIZE = """
import ctypes, os, pathlib, platform, socket, sys

system, machine = {platform!r}.split()
platform.system, platform.machine = lambda: system, lambda: machine
# Makes the import fail, as if the library were not installed.
sys.modules["tensorflow_quantum"] = None
del os.sched_getaffinity, os.sched_setaffinity, socket.SO_PEERCRED, socket.SO_BINDTODEVICE


class Library(ctypes.CDLL):
    def __getattr__(self, name):
        if name == "prctl":
            raise AttributeError(name)
        return super().__getattr__(name)


def hidden(called):
    def call(path, *args, **kwargs):
        if path.parts[:2] == ("/", "proc"):
            raise FileNotFoundError(2, "No such file or directory", str(path))
        return called(path, *args, **kwargs)

    return call


ctypes.CDLL = Library
pathlib.Path.iterdir, pathlib.Path.read_text = hidden(pathlib.Path.iterdir), hidden(pathlib.Path.read_text)
"""


def environment(folder: Path) -> dict[str, str]:
    """Create a folder with the startup script, and return the environment of an emulated process."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(_SITECUSTOMIZE.format(platform=PLATFORM))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": str(folder)}
