"""Create .venv from uv.lock with only a Python interpreter: the target `setup` of the Makefile.

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
# Platforms of TensorFlow 2.18, with the platform tag of uv's wheel.
_PLATFORMS = {
    ("Linux", "x86_64"): "manylinux_2_17_x86_64",
    ("Linux", "aarch64"): "manylinux_2_17_aarch64",
    ("Darwin", "arm64"): "macosx_11_0_arm64",
}


def main() -> None:
    """Download uv if it is missing, then install the packages of uv.lock."""
    uv = ROOT / ".uv" / "uv"
    if not uv.exists():
        download(uv)
    print("setup: installing the packages of uv.lock into .venv (about 3 GB, takes minutes)", flush=True)
    install(uv)
    report_kernels()


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


def install(uv: Path) -> None:
    """Install exactly the packages of uv.lock into .venv, with the current Python."""
    command = [str(uv), "sync", "--frozen", "--compile-bytecode", "--python", sys.executable, "--no-progress"]
    environment = {
        **os.environ,
        "UV_PYTHON_DOWNLOADS": "never",
        "UV_PROJECT_ENVIRONMENT": str(ROOT / ".venv"),
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


def report_kernels() -> None:
    """Print why simulator statevector_cpu is not available, if it is not. uv hides the output of the build."""
    program = "from qcnn.simulators import kernels; print(kernels.missing_reason())"
    command = [str(ROOT / ".venv" / "bin" / "python"), "-c", program]
    reason = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
    if reason and platform.system() == "Linux":
        print(f"setup: statevector_cpu: {reason}; other simulators run. With a C compiler, make kernels adds it")


def stop(message: str) -> None:
    """Exit with a one-line message."""
    sys.exit(f"setup: {message}")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        stop("interrupted")
    except OSError as error:
        stop(f"the checkout cannot be written ({error.strerror}). Given: {error.filename}")
