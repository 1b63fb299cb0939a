"""The pipeline as Kubeflow's own local runner runs it, each step a process, with nothing of the runner replaced."""

import json
import os
import sys
import warnings
from pathlib import Path

import pytest

import qcnn
from qcnn.pipelines.qcnn import Outputs
from qcnn.pipelines.qcnn import qcnn as main_pipeline
from qcnn.results.local_run import METADATA
from tests.small_trainings import assert_same_training

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from kfp import local

_WORDS = {"qubits": 4, "rounds": 20, "epochs": 2, "batch_size": 8, "workers": 2}


@pytest.mark.long
def test_kubeflows_local_runner_runs_the_pipeline_and_leaves_what_the_steps_leave_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A step's shell looks for the interpreter that runs this.
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    with warnings.catch_warnings():
        # Kubeflow's SDK warns of images that are not named python.
        warnings.simplefilter("ignore")
        local.init(local.SubprocessRunner(use_venv=False), pipeline_root=str(tmp_path / "kfp"))
        outputs = main_pipeline()(**_WORDS).outputs
    assert set(outputs) == set(Outputs._fields)
    training = qcnn.train(qcnn.Experiment(**_WORDS), tmp_path / "here", progress=False)
    assert_same_training(training.training, Path(outputs["training"].path))
    measured = outputs["metrics"].metadata
    assert {**measured, "epoch_seconds": 0} == {**training.metrics, "epoch_seconds": 0}
    (run,) = (tmp_path / "kfp").iterdir()
    for step in ("generate-data", "train", "export-weights", "evaluate"):
        assert _kinds(run / step / METADATA) == _kinds(training.folder / step / METADATA)


def _kinds(path: Path) -> dict[str, set[str]]:
    """Return the keys of the metadata of each artifact of a step."""
    artifacts = json.loads(path.read_text())["artifacts"]
    return {name: set(each["artifacts"][0]["metadata"]) for name, each in artifacts.items()}
