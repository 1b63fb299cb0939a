"""Model servers on the cluster with role qcnn-user: versions replaced under load, rollback and deletion."""

import collections
import contextlib
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

import qcnn as package
from qcnn.components.resources import IMAGE
from qcnn.jobs.kubernetes.api import PODS, REPLICA_SETS, NamespaceClient
from qcnn.jobs.kubernetes.inference_service import INFERENCE_SERVICES
from qcnn.jobs.kubernetes.model_server import PROGRAM
from qcnn.serving.version_export import export_version
from qcnn.targets import target_class
from qcnn.targets.base import Deploys
from qcnn.targets.settings import settings_from
from tests.cluster.programs import Qcnn
from tests.qcnn.serving.conftest import EXCITATIONS
from tests.qcnn.serving.versions import write_other_model

TARGET = ("--target", "kubernetes", "--endpoint", "digits")
ROW = {"qubit": 3, "angle": -2.0}
V1 = {"instances": [ROW]}
V2 = {
    "inputs": [
        {"name": "qubit", "datatype": "INT32", "shape": [1], "data": [3]},
        {"name": "angle", "datatype": "FP32", "shape": [1], "data": [-2.0]},
    ]
}
_SECONDS = 30
# Calls of a command until a pod has started, a few seconds each.
_ATTEMPTS = 40


@contextlib.contextmanager
def _proxied(namespace: str) -> Iterator[str]:
    """Context manager that yields the URL of the Service behind the API server."""
    if not shutil.which("kubectl"):
        pytest.skip("kubectl is missing")
    with subprocess.Popen(["kubectl", "proxy", "--port=0"], stdout=subprocess.PIPE, text=True) as proxy:
        try:
            assert proxy.stdout
            address = proxy.stdout.readline().split()[-1]
            yield f"http://{address}/api/v1/namespaces/{namespace}/services/digits:80/proxy"
        finally:
            proxy.terminate()


class Load:
    """Thread that sends requests without a pause, each on a new connection, and counts the answers."""

    def __init__(self, url: str) -> None:
        self._url, self._stopped = f"{url}/v1/models/digits:predict", threading.Event()
        self._changed, self._thread = threading.Condition(), threading.Thread(target=self._run)
        self.answers: collections.Counter[float] = collections.Counter()
        self.failures: list[str] = []

    def __enter__(self) -> "Load":
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._stopped.set()
        self._thread.join()

    def wait_for(self, prediction: float) -> None:
        """Wait for further answers with a prediction."""
        with self._changed:
            count = self.answers[prediction] + 3
            assert self._changed.wait_for(lambda: self.answers[prediction] >= count, _SECONDS), self.answers

    def _run(self) -> None:
        while not self._stopped.wait(0.02):
            try:
                answer = requests.post(self._url, json=V1, timeout=_SECONDS)
                answer.raise_for_status()
                (prediction,) = answer.json()["predictions"]
                with self._changed:
                    self.answers[prediction] += 1
                    self._changed.notify_all()
            except requests.RequestException as error:
                self.failures.append(str(error))


def test_model_is_served_replaced_rolled_back_and_undeployed(
    qcnn: Qcnn, bucket: str, namespace: str, tmp_path: Path
) -> None:
    models = f"{bucket}/digits"
    folders = EXCITATIONS, write_other_model(tmp_path / "other")
    first, second = (float(package.load(folder).predict(qubit=[3], angle=[-2.0])[0]) for folder in folders)
    assert first != second
    assert [export_version(str(folder), models).number for folder in folders] == [1, 2]
    server = f"STORAGE_EMULATOR_HOST={os.environ['STORAGE_EMULATOR_HOST']}"
    pods = ("--image", IMAGE, "--cpu", "100m", "--memory", "512Mi", "--min-replicas", "1", "--env", server)

    output = qcnn("deploy", *TARGET, models, *pods, "--version", "1")
    assert f"{models}, version 1  100 %" in output
    with contextlib.closing(NamespaceClient(namespace)) as api, _proxied(namespace) as url:
        with Load(url) as load:
            load.wait_for(first)
            assert f"{models}, version 2  100 %" in qcnn("deploy", *TARGET, models, *pods, "--version", "2")
            load.wait_for(second)
            inferred = requests.post(f"{url}/v2/models/digits/infer", json=V2, timeout=_SECONDS).json()
            assert (inferred["model_version"], inferred["outputs"][0]["data"]) == ("2", [second])
            qcnn("deploy", *TARGET, "--rollback")
            load.wait_for(first)
            # The pods of a version that does not exist replace none.
            missing = ("deploy", *TARGET, models, *pods, "--version", "3", "--timeout-seconds", "10")
            for _ in range(_ATTEMPTS):
                # On a busy node, the new pod has not read its versions in time. The next call has its later reason.
                failed = qcnn(*missing, code=2).splitlines()[-1]
                if "it does not answer" not in failed:
                    break
            assert "version 3 does not exist, of 1, 2. Given: digits" in failed
            load.wait_for(first)
        assert not load.failures
        assert load.answers.keys() == {first, second}

        assert "deleted" in qcnn("undeploy", "--target", "kubernetes", "digits", "--yes")
        resources = (*PROGRAM.resources.values(), REPLICA_SETS, PODS)
        assert not [
            each for resource in resources for each in api.find(resource, labelSelector=PROGRAM.selector("digits"))
        ]
    assert qcnn("undeploy", "--target", "kubernetes", "digits", "--yes", code=2).startswith("error: serving: not found")


@pytest.mark.parametrize(
    "settings",
    [
        {"image": IMAGE},
        {"image": IMAGE, "version": 2, "deployment_mode": "Knative", "traffic": 10},
        {"server": "tensorflow"},
        {"server": "tensorflow", "version": 2, "cpu": "1", "service_account": "reader", "deployment_mode": "Standard"},
    ],
)
def test_inference_services_match_the_schema_of_kserve(namespace: str, settings: dict[str, object]) -> None:
    kind = target_class("kserve", Deploys)
    given = settings_from(
        kind.deploy_settings, {"model": "gs://bucket/digits", "endpoint": "digits", **settings}, "kserve"
    )
    with contextlib.closing(NamespaceClient(namespace)) as api, kind(given) as target:
        if not api.serves(INFERENCE_SERVICES):
            pytest.skip("the cluster has no InferenceServices")
        for manifest in target.deploy_requests(given):
            assert api.create(INFERENCE_SERVICES, manifest, dry_run=True)
