"""TensorBoard on the cluster with role qcnn-user: metrics and profiles of a running job."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from qcnn.components.resources import IMAGE
from qcnn.jobs.kubernetes.api import DEPLOYMENTS, PODS, SERVICES
from qcnn.storage.store import parse_bucket_uri
from qcnn.storage.sync import open_store
from tests.cluster.launchers import Launchers
from tests.cluster.programs import Qcnn
from tests.tensorboard_server import Board

pytestmark = pytest.mark.skipif(not shutil.which("kubectl"), reason="kubectl is missing")

# Query parameters of the profile page.
_CAPTURE = {"is_tpu_name": "false", "duration": 1000, "num_retry": 3, "worker_list": ""}


@contextlib.contextmanager
def _opened(namespace: str) -> Iterator[Board]:
    """Connect to the Service through the API server."""
    with subprocess.Popen(["kubectl", "proxy", "--port=0"], stdout=subprocess.PIPE, text=True) as proxy:
        try:
            assert proxy.stdout
            address = proxy.stdout.readline().split()[-1]
            yield Board(f"http://{address}/api/v1/namespaces/{namespace}/services/tensorboard:http/proxy")
        finally:
            proxy.terminate()


def test_tensorboard_shows_and_profiles_running_job(
    launchers: Launchers, qcnn: Qcnn, bucket: str, namespace: str
) -> None:
    server = f"STORAGE_EMULATOR_HOST={os.environ['STORAGE_EMULATOR_HOST']}"
    pods = ("--image", IMAGE, "--cpu", "200m", "--memory", "3Gi", "--env", server)
    run = launchers.identity.run
    fields = ("--qubits", "4", "--rounds", "200", "--epochs", "100000", "--workers", "2")
    following = qcnn.start(
        *("submit", "--target", "tfjob", "--name", run, "--output", bucket, *pods, *fields, "--yes", "--follow")
    )
    name = following.wait_for_line(r"^TFJob \S+ is created").split()[1]
    following.wait_for_line(r"epoch 3/100000")
    output = qcnn("tensorboard", "--deploy", "--job", run, *pods)
    assert "TensorBoard tensorboard runs in namespace" in output
    with _opened(namespace) as board:
        (shown,) = {run.partition("/")[0] for run in board.wait("runs", bool)}
        assert shown == name
        for worker in range(2):
            address = f"{name}-worker-{worker}:2223"
            # With 0.3 CPUs, a worker may complete no step in 1 s, so the request is repeated.
            captured = {"service_addr": address, **_CAPTURE}
            board.wait("plugin/profile/capture_profile", lambda answer: "result" in answer, **captured)
        profiled = {run.rpartition("/")[2] for run in board.wait("plugin/profile/runs", lambda found: len(found) >= 1)}
        assert profiled
    # A deleted pod is replaced, and reads all logs again.
    selector = "app.kubernetes.io/name=tensorboard"
    (before,) = launchers.api.find(PODS, labelSelector=selector)
    launchers.api.delete(PODS, before["metadata"]["name"])
    assert "runs in namespace" in qcnn("tensorboard", "--deploy", "--job", run, *pods)
    with _opened(namespace) as board:
        assert board.wait("runs", bool)
    assert "is deleted" in qcnn("tensorboard", "--undeploy")
    assert not [
        found["metadata"]["name"]
        for resource in (PODS, SERVICES, DEPLOYMENTS)
        for found in launchers.api.find(resource, labelSelector=selector)
    ]
    assert (
        qcnn("tensorboard", "--undeploy", code=2)
        .splitlines()[-1]
        .startswith("error: tensorboard: not found in namespace ")
    )
    following.close()
    qcnn("delete", "--run", run, "--yes")
    # Profiles of workers other than the chief are stored in the TensorBoard pod only.
    logs = parse_bucket_uri(f"{bucket}/{name}/logs")
    assert logs
    with contextlib.closing(open_store(logs)) as store:
        assert not [name for name in store.versions() if "plugins/profile" in name and "worker-1" in name]
