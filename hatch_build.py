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
# Names in `qcnn.simulators.kernels`.
LIBRARY, NOT_COMPILED = "statevector.so", "not_compiled.txt"
# Vectors of 8 numbers and fused multiplication and addition, which x86-64 processors have since 2015.
_PROCESSORS = {"x86_64": ["-march=x86-64-v3"]}
_OPTIONS = ["-std=gnu11", "-O3", "-fcx-limited-range", "-fno-math-errno", "-shared", "-fPIC", "-Wno-psabi"]


class KernelsHook(BuildHookInterface[Any]):
    """Compile `statevector.c` with the C compiler of the system, or of CC, and add the library to the wheel.

    If it cannot be compiled, the wheel has a file with the reason instead, which commands print, and experiments use
    other simulators.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the library before the files of a wheel or an editable installation are collected."""
        if self.target_name != "wheel" or sys.platform != "linux":
            return
        folder = Path(self.root, FOLDER)
        if reason := compile_kernels(folder):
            self.app.display_warning(f"qcnn: simulator statevector_cpu is not available: {reason}")
            build_data["artifacts"].append((FOLDER / NOT_COMPILED).as_posix())
            return
        build_data["artifacts"].append((FOLDER / LIBRARY).as_posix())
        build_data["pure_python"] = False
        # Loaded by ctypes, so it does not depend on the release of Python.
        build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"


def compile_kernels(folder: Path) -> str:
    """Compile the library in a folder, and return an empty string, or the reason if it cannot be compiled.

    The reason is also written to a file. There is either this file or the library, also after an earlier build.
    """
    library, record = folder / LIBRARY, folder / NOT_COMPILED
    with tempfile.TemporaryDirectory(dir=folder) as unfinished:
        built = Path(unfinished, LIBRARY)
        reason = _compile(folder / "statevector.c", built)
        if reason:
            record.write_text(f"{reason}\n", encoding="utf-8")
            library.unlink(missing_ok=True)
        else:
            built.replace(library)
            record.unlink(missing_ok=True)
    return reason


def _compile(source: Path, built: Path) -> str:
    """Compile a library and return an empty string, or the reason if the compiler is missing or fails."""
    compiler = os.environ.get("CC", "cc")
    path = shutil.which(compiler)
    if path is None:
        return f"no C compiler ({compiler})"
    command = [path, *_OPTIONS, *_PROCESSORS.get(platform.machine(), []), "-o", str(built), str(source)]
    try:
        done = subprocess.run(
            [*command, "-lpthread", "-lm"], capture_output=True, text=True, errors="replace", check=False
        )
    except OSError as error:
        return f"{compiler} cannot be run ({error.strerror})"
    if done.returncode == 0:
        return ""
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    # The first error explains the others. Without one, for example from a linker, the last line does.
    message = next((line for line in lines if "error:" in line), lines[-1] if lines else "it printed nothing")
    return f"{compiler} ended with exit code {done.returncode}: {message}"
