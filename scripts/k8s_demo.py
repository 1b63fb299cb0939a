"""Demonstration of TFJob training on the cluster of KUBECONFIG: make k8s-demo.

It creates a namespace as in docs/kubernetes.md, trains with a TFJob, predicts with a Job and deploys TensorBoard. It
then deletes these objects with the qcnn commands, and the namespace.
"""

import argparse
import contextlib
import secrets
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from qcnn.jobs.kubernetes.tensorboard import PORT  # noqa: E402
from qcnn.process.signals import terminated_as_interrupt  # noqa: E402

_QCNN = Path(sys.executable).with_name("qcnn")
_SMALL = ("--qubits", "4", "--rounds", "30", "--batch-size", "16", "--epochs", "5", "--num-initializations", "1")
# Volume of the default storage class, used without a bucket.
_CLAIM, _MOUNT = "qcnn-demo", "/outputs"
_RUN = "demo"
# Timeout of TensorBoard.
_SECONDS = 120


def main() -> None:
    """Run the demonstration, and delete its objects from the cluster."""
    parser = argparse.ArgumentParser(description="Run the demonstration on the cluster of KUBECONFIG.")
    parser.add_argument("--image", required=True, help="container image of the pods")
    parser.add_argument(
        "--output", help="URI of the output, such as gs://BUCKET/FOLDER (default: a volume that is deleted)"
    )
    parser.add_argument("--pod", type=Path, help="path to a pod settings file (YAML)")
    arguments = parser.parse_args()
    with (
        terminated_as_interrupt(),
        _namespace() as namespace,
        _settings(arguments.pod, namespace, volume=not arguments.output) as settings,
    ):
        where = ("--namespace", namespace)
        pods = ("--image", arguments.image, "--pod", str(settings))
        output = arguments.output or _MOUNT
        _qcnn("submit", "--target", "tfjob", "--name", _RUN, "--output", output, *pods, *where, "--follow", *_SMALL)
        _qcnn("status", _RUN, *where)
        _qcnn("predict", "--target", "tfjob", _RUN, *where)
        _qcnn("tensorboard", "--deploy", "--job", _RUN, *pods, *where)
        print(f"\nruns that TensorBoard shows: {_runs_shown(namespace)}")
        _qcnn("tensorboard", "--undeploy", *where)
        _qcnn("delete", "--run", _RUN, "--yes", *where)
        left = _kubectl(*where, "get", "tfjobs,jobs,deployments,pods,services,leases", "--output", "name")
        print(f"\nremaining objects: {left.strip() or 'none'}")
    if left.strip():
        sys.exit(f"error: all objects must be deleted. Given: {' '.join(left.split())}")
    print(
        f"the namespace {namespace} is deleted"
        + (f"; the outputs are in {arguments.output}" if arguments.output else "")
    )


@contextlib.contextmanager
def _namespace() -> Iterator[str]:
    """Context manager that creates a namespace with the RBAC roles of training jobs, and deletes it."""
    name = f"qcnn-demo-{secrets.token_hex(4)}"
    try:
        _kubectl("create", "namespace", name)
        _kubectl("--namespace", name, "apply", "--kustomize", str(ROOT / "deploy"))
        yield name
    finally:
        _kubectl("delete", "namespace", name, "--wait", "--ignore-not-found")


@contextlib.contextmanager
def _settings(file: Path | None, namespace: str, *, volume: bool) -> Iterator[Path]:
    """Context manager that creates a pod settings file, and deletes it.

    Args:
        file: File with additional pod settings, or None.
        namespace: Namespace of the volume.
        volume: Whether to create and mount a volume for the outputs.
    """
    yaml = YAML(typ="safe")
    values: dict[str, Any] = {"service_account": "qcnn-worker", "cpu": "500m", "memory": "3Gi"}
    values |= (yaml.load(file) or {}) if file else {}
    path = ROOT / "build" / f"{namespace}.yaml"
    path.parent.mkdir(exist_ok=True)
    try:
        if volume:
            claim = {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": _CLAIM},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            }
            with path.open("w", encoding="utf-8") as stream:
                yaml.dump(claim, stream)
            _kubectl("--namespace", namespace, "apply", "--filename", str(path))
            values["volumes"] = {_MOUNT: {"persistentVolumeClaim": {"claimName": _CLAIM}}}
        with path.open("w", encoding="utf-8") as stream:
            yaml.dump(values, stream)
        yield path
    finally:
        path.unlink(missing_ok=True)


def _runs_shown(namespace: str) -> str:
    """Return the names of the runs in TensorBoard as JSON, through a forwarded port."""
    command = ["kubectl", "--namespace", namespace, "port-forward", "service/tensorboard", f":{PORT}"]
    forward = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert forward.stdout
        port = forward.stdout.readline().partition(" ->")[0].rpartition(":")[2]
        deadline = time.monotonic() + _SECONDS
        while True:
            with contextlib.suppress(OSError):
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/data/runs", timeout=10) as response:
                    found = str(response.read().decode())
                if found != "[]":
                    return found
            if forward.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"error: TensorBoard does not show the run. Given: {_RUN}")
            time.sleep(1)
    finally:
        forward.terminate()
        forward.wait()


def _qcnn(*arguments: str) -> None:
    print(f"\n$ qcnn {' '.join(arguments)}", flush=True)
    done = subprocess.run([_QCNN, *arguments], check=False)
    if done.returncode:
        sys.exit(done.returncode)


def _kubectl(*arguments: str) -> str:
    done = subprocess.run(["kubectl", *arguments], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(done.returncode)
    return done.stdout


if __name__ == "__main__":
    main()
