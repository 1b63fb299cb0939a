"""Environment of processes in pods, in a namespace with pod security standard "restricted"."""

import dataclasses
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from kubernetes.client import CoreV1Api

from qcnn.jobs.kubernetes.training_manifest import JobTimeouts
from qcnn.jobs.tfjob.engine import TFJOBS
from tests.cluster.launchers import Launchers, job

PERMISSIONS = """
import os, stat
from pathlib import Path
print("user and group", os.getuid(), os.getgid())
print("has a token", Path("/var/run/secrets/kubernetes.io/serviceaccount/token").exists())
root = os.lstat("/").st_dev
for folder, folders, files in os.walk("/"):
    folders[:] = [name for name in folders if os.lstat(os.path.join(folder, name)).st_dev == root]
    for name in files:
        mode = os.lstat(os.path.join(folder, name)).st_mode
        if stat.S_ISREG(mode) and mode & (stat.S_ISUID | stat.S_ISGID):
            print("setuid", os.path.join(folder, name))
"""
UNLISTED = """
import importlib.metadata, json
from pathlib import Path
components = json.loads(Path("/usr/share/qcnn/sbom.json").read_text())["components"]
listed = {each["name"].lower().replace("_", "-") for each in components}
installed = {each.name.lower().replace("_", "-") for each in importlib.metadata.distributions()}
print("not listed", sorted(installed - listed - {"qcnn-pipelines"}))
"""
WRITING = "open('/output/checkpoint', 'w').write('all'); print('written')"


@pytest.mark.parametrize("seconds", [None, 600])
def test_pods_run_as_uid_10001_with_token_only_if_lease_watched(launchers: Launchers, seconds: int | None) -> None:
    launcher = launchers.start(job(PERMISSIONS, replicas={"worker": 1}), JobTimeouts(lease_seconds=seconds))
    assert launcher.exit_code() == 0, launcher.output
    lines = [line for line in launcher.output.splitlines() if line.startswith("[worker 0] ")]
    assert lines == ["[worker 0] user and group 10001 10001", f"[worker 0] has a token {seconds is not None}"]


def test_image_packages_are_in_sbom(launchers: Launchers) -> None:
    launcher = launchers.start(job(UNLISTED, replicas={"worker": 1}))
    assert launcher.exit_code() == 0, launcher.output
    assert "[worker 0] not listed []" in launcher.output


@pytest.fixture
def claim(launchers: Launchers, tmp_path: Path) -> Iterator[str]:
    """Claim for a volume on a disk of the node, owned by root."""
    if not any(process.info["name"] == "kubelet" for process in psutil.process_iter(["name"])) or os.getuid():
        pytest.skip("the node is not the local machine, or this process is not root")
    core, name = CoreV1Api(), f"output-{secrets.token_hex(4)}"
    (node,) = [node.metadata.name for node in core.list_node().items]
    (folder := tmp_path / "output").mkdir(mode=0o755)
    # Only root can reach a folder below tmp_path. The kubelet runs as root.
    on_node = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    common = {"accessModes": ["ReadWriteOnce"], "storageClassName": "by-hand"}
    volume = {
        "metadata": {"name": name},
        "spec": {
            **common,
            "capacity": {"storage": "1Gi"},
            "local": {"path": str(folder)},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [on_node]}]}},
        },
    }
    claim = {
        "metadata": {"name": name},
        "spec": {**common, "volumeName": name, "resources": {"requests": {"storage": "1Gi"}}},
    }
    core.create_persistent_volume(volume)
    core.create_namespaced_persistent_volume_claim(launchers.namespace, claim)
    yield name
    core.delete_namespaced_persistent_volume_claim(name, launchers.namespace)
    core.delete_persistent_volume(name)


def test_volume_owned_by_root_is_writable(launchers: Launchers, claim: str) -> None:
    volumes = {"/output": {"persistentVolumeClaim": {"claimName": claim}}}
    launcher = launchers.start(job(WRITING, replicas={"worker": 1}, volumes=volumes))
    assert launcher.exit_code() == 0, launcher.output
    assert "[worker 0] written" in launcher.output


def test_outputs_on_claim_persist_after_job_deletion(launchers: Launchers, claim: str, tmp_path: Path) -> None:
    folder = "/output/runs/$(QCNN_JOB)/training"
    program = (
        f"from pathlib import Path; (out := Path('{folder}')).mkdir(parents=True); (out / 'all').write_text('all')"
    )
    volumes = {"/output": {"persistentVolumeClaim": {"claimName": claim}}}
    writing = job(program, replicas={"worker": 1}, volumes=volumes)
    writing = dataclasses.replace(writing, outputs={"training": folder})
    launcher = launchers.start(writing)
    assert launcher.exit_code() == 0, launcher.output
    launchers.api.delete(TFJOBS, launchers.name(writing))
    launchers.wait_until_deleted()
    assert (tmp_path / "output" / "runs" / launchers.name(writing) / "training" / "all").read_text() == "all"
