"""Build hook: compile the kernels of simulator statevector_cpu."""

import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDER = Path("qcnn", "simulators", "kernels")
# Names in `qcnn.simulators.kernels`.
LIBRARY, NOT_COMPILED = "statevector.so", "not_compiled.txt"
# Environment variable with the platform tag of a published wheel. The compiler of the package ziglang compiles for the
# processor and the release of glibc in the tag. A wheel with the tag `any` has no kernels. Without the variable, the
# wheel is for this machine, and package indexes do not accept its tag linux_*.
PLATFORM = "QCNN_WHEEL_PLATFORM"
ANY = "any"
_PUBLISHED = re.compile(r"manylinux_(\d+)_(\d+)_(x86_64|aarch64)")
_ZIG = (sys.executable, "-m", "ziglang", "cc")
# Vectors of 8 numbers and fused multiplication and addition, which x86-64 processors have since 2015.
_ARCHITECTURES = {"x86_64": "x86-64-v3"}
# GCC fuses all multiplications and additions by default. Clang does so with -ffp-contract=fast. -z defs rejects calls
# of functions that no library defines.
_OPTIONS = (
    *("-std=gnu11", "-O3", "-fcx-limited-range", "-fno-math-errno", "-ffp-contract=fast"),
    *("-shared", "-fPIC", "-Wl,-z,defs", "-Wno-psabi"),
)


class KernelsHook(BuildHookInterface[Any]):
    """Compile `statevector.c` and add the library to the wheel.

    The compiler is the C compiler of the system, or of CC. If it fails, the wheel has a file with the reason instead,
    which commands print, and experiments use other simulators. Published wheels are described at `PLATFORM`.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the library before the files of a wheel or an editable installation are collected."""
        if self.target_name != "wheel":
            return
        folder, platform_tag = Path(self.root, FOLDER), os.environ.get(PLATFORM)
        if platform_tag:
            # Deleted by `finalize`. The library of this machine stays in the package.
            self._unfinished = tempfile.TemporaryDirectory()
            built = Path(self._unfinished.name)
            try:
                build_for_platform(platform_tag, folder, built)
            except ValueError as error:
                self.app.abort(f"qcnn: {error}")
            build_data["force_include"] |= {str(path): (FOLDER / path.name).as_posix() for path in built.iterdir()}
            if platform_tag != ANY:
                self._set_tag(build_data, platform_tag)
            return
        if sys.platform != "linux":
            return
        if reason := compile_kernels(folder):
            self.app.display_warning(f"qcnn: simulator statevector_cpu is not available: {reason}")
            build_data["artifacts"].append((FOLDER / NOT_COMPILED).as_posix())
            return
        build_data["artifacts"].append((FOLDER / LIBRARY).as_posix())
        self._set_tag(build_data, sysconfig.get_platform().replace("-", "_").replace(".", "_"))

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Delete the library of a published wheel."""
        if hasattr(self, "_unfinished"):
            self._unfinished.cleanup()

    def _set_tag(self, build_data: dict[str, Any], platform_tag: str) -> None:
        build_data["pure_python"] = False
        # Loaded by ctypes, so it does not depend on the release of Python.
        build_data["tag"] = f"py3-none-{platform_tag}"


def build_for_platform(platform_tag: str, folder: Path, built: Path) -> None:
    """Write the library of a published wheel to a folder, or the reason why the wheel has none.

    Args:
        platform_tag: Platform tag of the wheel, see `PLATFORM`.
        folder: Folder of the kernels.
        built: Folder to write to.

    Raises:
        ValueError: If the tag is not supported, or the library cannot be compiled.
    """
    if platform_tag == ANY:
        (built / NOT_COMPILED).write_text("the wheel for any platform has no kernels\n", encoding="utf-8")
        return
    tag = _PUBLISHED.fullmatch(platform_tag)
    if not tag:
        raise ValueError(f"{PLATFORM}: must be {ANY} or {_PUBLISHED.pattern}. Given: {platform_tag}")
    major, minor, processor = tag.groups()
    # Debug information is 90 % of the size.
    compiler = (*_ZIG, "-target", f"{processor}-linux-gnu.{major}.{minor}", "-s")
    # zig has underscores in the names of architectures.
    architecture = _ARCHITECTURES.get(processor, "").replace("-", "_")
    if reason := _compile(compiler, architecture, folder / "statevector.c", built / LIBRARY):
        raise ValueError(f"{PLATFORM}: must have a compiler. Given: {platform_tag}, {reason}")


def compile_kernels(folder: Path) -> str:
    """Compile the library in a folder, and return an empty string, or the reason if it cannot be compiled.

    The reason is also written to a file. There is either this file or the library, also after an earlier build.
    """
    library, record = folder / LIBRARY, folder / NOT_COMPILED
    with tempfile.TemporaryDirectory(dir=folder) as unfinished:
        built = Path(unfinished, LIBRARY)
        compiler, architecture = os.environ.get("CC", "cc"), _ARCHITECTURES.get(platform.machine(), "")
        reason = _compile([compiler], architecture, folder / "statevector.c", built)
        if reason:
            record.write_text(f"{reason}\n", encoding="utf-8")
            library.unlink(missing_ok=True)
        else:
            built.replace(library)
            record.unlink(missing_ok=True)
    return reason


def _compile(compiler: Sequence[str], architecture: str, source: Path, built: Path) -> str:
    """Compile a library and return an empty string, or the reason if the compiler is missing or fails.

    Args:
        compiler: Program and its first arguments.
        architecture: Architecture of the processor, or empty for the default of the compiler.
        source: C file.
        built: Path of the library.
    """
    name = compiler[0]
    path = shutil.which(name)
    if path is None:
        return f"no C compiler ({name})"
    processor = [f"-march={architecture}"] if architecture else []
    command = [path, *compiler[1:], *_OPTIONS, *processor, "-o", str(built), str(source)]
    try:
        done = subprocess.run(
            [*command, "-lpthread", "-lm"], capture_output=True, text=True, errors="replace", check=False
        )
    except OSError as error:
        return f"{name} cannot be run ({error.strerror})"
    if done.returncode == 0:
        return ""
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    # The first error explains the others. Without one, for example from a linker, the last line does.
    message = next((line for line in lines if "error:" in line), lines[-1] if lines else "it printed nothing")
    return f"{name} ended with exit code {done.returncode}: {message}"
