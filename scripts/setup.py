"""Create .venv from uv.lock with only a Python interpreter: the target `setup` of the Makefile.

With the argument `tfq`, create .venv-tfq with TensorFlow Quantum, which requires other releases of the dependencies.

The lock file also contains the URL and the hash of uv, so pip, the venv module and an installer script are not
required. Each error is reported in one line.
"""

import hashlib
import http.client
import io
import os
import platform
import re
import subprocess
import sys
import urllib.request
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOG = ROOT / ".uv" / "setup.log"
_WHEEL = re.compile(r'url = "(?P<url>[^"]+/uv-[^"/]+-(?P<tag>[^"/]+)\.whl)", hash = "sha256:(?P<sha256>\w+)"')
# Platforms of TensorFlow 2.21, with the platform tag of uv's wheel.
_PLATFORMS = {
    ("Linux", "x86_64"): "manylinux_2_17_x86_64",
    ("Linux", "aarch64"): "manylinux_2_17_aarch64",
    ("Darwin", "arm64"): "macosx_11_0_arm64",
}


# Python releases with wheels of TensorFlow Quantum 0.7.6.
_PYTHONS_OF_TFQ = ((3, 11), (3, 12))


def main(extra: str = "") -> None:
    """Download uv if it is missing, then install the packages of uv.lock.

    Args:
        extra: Extra with a separate environment, or empty for .venv.
    """
    if extra:
        check_extra(extra)
    uv = ROOT / ".uv" / "uv"
    if not uv.exists():
        download(uv)
    folder = ROOT / f".venv{extra and '-'}{extra}"
    print(f"setup: installing the packages of uv.lock into {folder.name} (about 3 GB, takes minutes)", flush=True)
    install(uv, folder, ["--no-default-groups", "--group", "test", "--extra", extra] if extra else [])
    report_kernels(folder)


def check_extra(extra: str) -> None:
    """Check that an extra has a separate environment and supports this machine."""
    if extra != "tfq":
        stop(f"EXTRA: must be tfq or empty. Given: {extra}")
    if (platform.system(), platform.machine()) != ("Linux", "x86_64") or sys.version_info[:2] not in _PYTHONS_OF_TFQ:
        given = f"{platform.system()} {platform.machine()}, Python {sys.version_info[0]}.{sys.version_info[1]}"
        stop(f"TensorFlow Quantum is published for Linux on x86-64 with Python 3.11 or 3.12 only. Given: {given}")


def download(uv: Path) -> None:
    """Download the locked wheel of uv, check its hash and extract the program."""
    machine = (platform.system(), platform.machine())
    wanted = _PLATFORMS.get(machine)
    wheels = [match for match in _WHEEL.finditer((ROOT / "uv.lock").read_text()) if wanted and wanted in match["tag"]]
    if not wheels:
        allowed = ", ".join(" ".join(each) for each in _PLATFORMS)
        stop(f"this system is not supported; allowed: {allowed}. Given: {' '.join(machine)}")
    try:
        with urllib.request.urlopen(wheels[0]["url"], timeout=60) as response:
            content = response.read()
    except (OSError, http.client.HTTPException) as error:
        stop(f"uv cannot be downloaded; check the network. Given: {error}")
    if hashlib.sha256(content).hexdigest() != wheels[0]["sha256"]:
        stop(f"the hash of the downloaded uv must be that in uv.lock. Given: {wheels[0]['url']}")
    with zipfile.ZipFile(io.BytesIO(content)) as wheel:
        name = next(name for name in wheel.namelist() if name.endswith("/scripts/uv"))
        uv.parent.mkdir(exist_ok=True)
        unfinished = uv.with_name(f"uv.{os.getpid()}")
        unfinished.write_bytes(wheel.read(name))
        unfinished.chmod(0o755)
        unfinished.replace(uv)


def install(uv: Path, folder: Path, selection: list[str]) -> None:
    """Install exactly the packages of uv.lock into a virtual environment, with the current Python.

    Args:
        uv: Program.
        folder: Folder of the virtual environment.
        selection: Arguments that select extras and groups.
    """
    command = [str(uv), "sync", "--frozen", "--compile-bytecode", "--python", sys.executable, "--no-progress"]
    command += selection
    environment = {
        **os.environ,
        "UV_PYTHON_DOWNLOADS": "never",
        "UV_PROJECT_ENVIRONMENT": str(folder),
    }
    environment.pop("VIRTUAL_ENV", None)
    finished = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    LOG.write_text(finished.stdout + finished.stderr)
    if finished.returncode:
        lines = [line.strip() for line in finished.stderr.splitlines()]
        causes = [line for line in lines if line.startswith(("error:", "Caused by:"))]
        cause = causes[-1] if causes else f"exit code {finished.returncode}"
        stop(
            f"uv cannot install the packages; check the network and the free disk space. Given: {cause} (more in {LOG})"
        )


def report_kernels(folder: Path) -> None:
    """Print the reason if simulator statevector_cpu is not available. uv hides the output of the build."""
    program = "from qcnn.simulators import kernels; print(kernels.missing_reason())"
    command = [str(folder / "bin" / "python"), "-c", program]
    reason = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
    if reason and platform.system() == "Linux":
        advice = ". With a C compiler, make kernels adds it" if reason.startswith("not compiled") else ""
        print(f"setup: statevector_cpu: {reason}; other simulators run{advice}")


def stop(message: str) -> None:
    """Exit with a one-line message."""
    sys.exit(f"setup: {message}")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except KeyboardInterrupt:
        stop("interrupted")
    except OSError as error:
        stop(f"the checkout cannot be written ({error.strerror}). Given: {error.filename}")
