"""The tutorial on the cluster that KUBECONFIG names: make k8s-demo.

A namespace is set up as in docs/tfjob.md. In it a TFJob trains, a Job predicts, and TensorBoard shows the logs. All
of them are deleted by the commands for it, then the namespace.
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
from qcnn.startup import terminated_as_interrupt  # noqa: E402

_QCNN = Path(sys.executable).with_name("qcnn")
_SMALL = ("--qubits", "4", "--rounds", "30", "--batch-size", "16", "--epochs", "5", "--num-initializations", "1")
# Where there is no bucket, a volume of the cluster's default class.
_CLAIM, _MOUNT = "qcnn-demo", "/outputs"
_RUN = "demo"
_SECONDS = 120


def main() -> None:
    """Go through the tutorial, and leave nothing in the cluster."""
    parser = argparse.ArgumentParser(description="Go through the tutorial on the cluster of KUBECONFIG.")
    parser.add_argument("--image", required=True, help="image that the cluster can run")
    parser.add_argument("--output", help="bucket to write to, as gs://BUCKET/FOLDER (default: a volume, deleted again)")
    parser.add_argument("--pod", type=Path, help="YAML file with settings of the pods")
    asked = parser.parse_args()
    with (
        terminated_as_interrupt(),
        _namespace() as namespace,
        _settings(asked.pod, namespace, volume=not asked.output) as settings,
    ):
        where = ("--namespace", namespace)
        pods = ("--image", asked.image, "--pod", str(settings))
        output = asked.output or _MOUNT
        _qcnn("submit", "--target", "tfjob", "--name", _RUN, "--output", output, *pods, *where, "--follow", *_SMALL)
        _qcnn("status", _RUN, *where)
        _qcnn("predict", "--target", "tfjob", _RUN, *where)
        _qcnn("tensorboard", "--deploy", "--job", _RUN, *pods, *where)
        print(f"\nruns that TensorBoard shows: {_runs_shown(namespace)}")
        _qcnn("tensorboard", "--undeploy", *where)
        _qcnn("delete", "--run", _RUN, "--yes", *where)
        left = _kubectl(*where, "get", "tfjobs,jobs,deployments,pods,services,leases", "--output", "name")
        print(f"\nleft in the namespace: {left.strip() or 'nothing'}")
    if left.strip():
        sys.exit(f"error: something is left of the demonstration. Given: {' '.join(left.split())}")
    print(
        f"the namespace {namespace} is deleted" + (f"; what was trained is in {asked.output}" if asked.output else "")
    )


@contextlib.contextmanager
def _namespace() -> Iterator[str]:
    """Yield a namespace with the roles and policies that trainings need; it is deleted with all that is in it."""
    name = f"qcnn-demo-{secrets.token_hex(4)}"
    try:
        _kubectl("create", "namespace", name)
        _kubectl("--namespace", name, "apply", "--kustomize", str(ROOT / "deploy"))
        yield name
    finally:
        _kubectl("delete", "namespace", name, "--wait", "--ignore-not-found")


@contextlib.contextmanager
def _settings(file: Path | None, namespace: str, *, volume: bool) -> Iterator[Path]:
    """Yield a file with the settings of pods, with a volume to write to if one is needed."""
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
    """Return the runs that TensorBoard knows, through a port of this machine."""
    command = ["kubectl", "--namespace", namespace, "port-forward", "service/tensorboard", f":{PORT}"]
    forward = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert forward.stdout
        port = forward.stdout.readline().partition(" ->")[0].rpartition(":")[2]
        ends = time.monotonic() + _SECONDS
        while True:
            with contextlib.suppress(OSError):
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/data/runs", timeout=10) as answer:
                    found = str(answer.read().decode())
                if found != "[]":
                    return found
            if forward.poll() is not None or time.monotonic() > ends:
                sys.exit(f"error: TensorBoard does not show the run. Given: {_RUN}")
            time.sleep(1)
    finally:
        forward.terminate()
        forward.wait()


def _qcnn(*words: str) -> None:
    print(f"\n$ qcnn {' '.join(words)}", flush=True)
    done = subprocess.run([_QCNN, *words], check=False)
    if done.returncode:
        sys.exit(done.returncode)


def _kubectl(*words: str) -> str:
    done = subprocess.run(["kubectl", *words], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(done.returncode)
    return done.stdout


if __name__ == "__main__":
    main()
