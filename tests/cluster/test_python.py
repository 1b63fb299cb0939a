"""Python API and notebook for jobs on a cluster."""

import os
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest

import qcnn as library
from qcnn.components.resources import IMAGE
from tests.cluster.launchers import Launchers
from tests.cluster.programs import Qcnn

_ROOT = Path(__file__).parents[2]
# Resources of a worker, small enough for a single-node cluster.
_POD = {"cpu": "200m", "memory": "3Gi"}


def test_python_api_of_job(
    launchers: Launchers, qcnn: Qcnn, bucket: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(qcnn.kubeconfig))
    experiment = library.Experiment(qubits=4, rounds=12, batch_size=8, epochs=3, workers=2)
    environment = {"STORAGE_EMULATOR_HOST": os.environ["STORAGE_EMULATOR_HOST"]}
    settings: dict[str, Any] = {"output": bucket, "name": launchers.identity.run, "image": IMAGE}
    job = library.submit(experiment, "tfjob", **settings, pod={**_POD, "environment": environment})
    assert job.outcome == "created"
    lines = list(job.logs(follow=True))
    assert [line for line in lines if line.startswith("[worker 0] epoch 3/3: ")]
    status = job.wait(timeout=60)
    assert (status.state, [part.name for part in status.parts]) == ("succeeded", ["worker 0", "worker 1"])
    # The operator may have deleted the pod of worker 1, which still ran when worker 0 ended.
    assert status.parts[0].state == "finished"
    local = library.train(experiment, tmp_path / "local", progress=False)
    metrics = job.metrics()
    assert metrics["epochs"] == 3
    assert metrics["val_loss"] == pytest.approx(local.metrics["val_loss"], abs=1e-4)
    model = job.model()
    assert model.predict(qubit=[0, 3], angle=[0.1, -2.0]) == pytest.approx(
        local.model.predict(qubit=[0, 3], angle=[0.1, -2.0]), abs=1e-3
    )
    again = library.get_job(job.name, "tfjob")
    assert job.name in [each.job for each in library.list_jobs("tfjob")]
    again.delete()
    with pytest.raises(library.ArtifactError):
        job.status()


def test_cluster_job_notebook(
    launchers: Launchers, qcnn: Qcnn, bucket: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(qcnn.kubeconfig))
    monkeypatch.setenv("PYTHONPATH", str(_ROOT))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.read(_ROOT / "examples" / "notebooks" / "cluster_job.ipynb", as_version=4)
    environment = {"STORAGE_EMULATOR_HOST": os.environ["STORAGE_EMULATOR_HOST"]}
    settings: dict[str, Any] = {
        "output": bucket,
        "name": launchers.identity.run,
        "image": IMAGE,
        **_POD,
        "environment": environment,
    }
    (parameters,) = [cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", ())]
    parameters.source = f"import qcnn\n\nsettings = {settings!r}"
    client = nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    *_, last = [cell for cell in notebook.cells if cell.cell_type == "code"]
    (output,) = last.outputs
    assert output["data"]["text/plain"] == "False"
    printed = "".join(output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", ()))
    assert "[worker 0] epoch 12/12: " in printed
