"""Build hook: compile the kernels of simulator statevector_cpu."""

import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDER = Path("qcnn", "simulators", "kernels")
# Vectors of 8 numbers and fused multiplication and addition, which x86-64 processors have since 2015.
_PROCESSORS = {"x86_64": ["-march=x86-64-v3"]}
_OPTIONS = ["-std=gnu11", "-O3", "-fcx-limited-range", "-fno-math-errno", "-shared", "-fPIC", "-Wno-psabi"]


class KernelsHook(BuildHookInterface[Any]):
    """Compile `statevector.c` with the C compiler of the system, or of CC, and add the library to the wheel.

    Without a compiler, the wheel has no kernels, and experiments use other simulators.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the library before the files of a wheel or an editable installation are collected."""
        if self.target_name != "wheel" or sys.platform != "linux":
            return
        folder = Path(self.root, FOLDER)
        library = folder / "statevector.so"
        compiler = shutil.which(os.environ.get("CC", "cc"))
        if compiler is None:
            self.app.display_warning("qcnn: no C compiler (CC), so simulator statevector_cpu is not available.")
            return
        with tempfile.TemporaryDirectory(dir=folder) as unfinished:
            built = Path(unfinished, library.name)
            options = [*_OPTIONS, *_PROCESSORS.get(platform.machine(), [])]
            command = [compiler, *options, "-o", str(built), str(folder / "statevector.c"), "-lpthread", "-lm"]
            subprocess.run(command, check=True)
            built.replace(library)
        build_data["artifacts"].append((FOLDER / library.name).as_posix())
        build_data["pure_python"] = False
        # Loaded by ctypes, so it does not depend on the release of Python.
        build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
