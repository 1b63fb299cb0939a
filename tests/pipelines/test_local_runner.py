"""The pipeline in KFP's local runner, which runs each step as a process."""

import builtins
import contextlib
import hashlib
import json
import logging
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import qcnn
from qcnn.components.definitions.pipeline import generate_data
from qcnn.experiment.config import EXPERIMENT_FIELDS, Options
from qcnn.experiment.parsing import from_json
from qcnn.pipelines.qcnn import Outputs
from qcnn.pipelines.qcnn import qcnn as main_pipeline
from qcnn.pipelines.study import study as study_pipeline
from qcnn.registry.address import open_registry
from qcnn.registry.registration_settings import RegistrationSettings
from qcnn.results.local_run import METADATA
from qcnn.studies.record import SELECT_STEP
from tests.buckets import ROWS
from tests.class_runs import rows_of
from tests.shared_training_runs import assert_same_training

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from kfp import local


@pytest.mark.long
def test_local_runner_trains_ten_classes_as_local_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = tuple(f"kind {letter}" for letter in "abcdefghij")
    (file := tmp_path / "rows.csv").write_text(rows_of(names))
    own: dict[str, Any] = {"data": str(file), "encoding": "ry", "qubits": 4, "workers": 2, "epochs": 2, "batch_size": 8}
    sha256 = hashlib.sha256(file.read_bytes()).hexdigest()
    options = {**Options().model_dump(), "loss": "cross_entropy"}
    with _local_runner(tmp_path, monkeypatch):
        outputs = main_pipeline(registration=RegistrationSettings("cluster", str(tmp_path / "models")))(
            **own, data_sha256=sha256, options=options
        ).outputs
    assert set(outputs) == set(Outputs._fields)
    _assert_has_classes(outputs, names)
    with contextlib.closing(open_registry(str(tmp_path / "models"))) as registry:
        (version,) = registry.versions("cluster")
        assert version.record
        assert version.record.source == outputs["model"].uri
        assert version.record.metrics == outputs["metrics"].metadata
        assert registry.labels("cluster").versions == {"champion": 1}
    training = qcnn.train(qcnn.Experiment(**own, loss="cross_entropy"), tmp_path / "here", progress=False)
    assert_same_training(training.training, Path(outputs["training"].path))
    measured = outputs["metrics"].metadata
    assert {**measured, "epoch_seconds": 0} == {**training.metrics, "epoch_seconds": 0}
    (run,) = (tmp_path / "kfp").iterdir()
    for step in ("generate-data", "train", "export-weights", "evaluate"):
        assert _kinds(run / step / METADATA) == _kinds(training.folder / step / METADATA)


@pytest.mark.long
def test_local_runner_generates_data_from_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (file := tmp_path / "rows.csv").write_bytes(ROWS)
    sha256 = hashlib.sha256(ROWS).hexdigest()
    words = {name: field.default for name, field in EXPERIMENT_FIELDS.items()}
    own = {"data": str(file), "data_sha256": sha256, "encoding": "ry", "options": Options().model_dump()}
    with _local_runner(tmp_path, monkeypatch):
        outputs = generate_data(**{**words, **own}).outputs
    assert outputs["dataset"].metadata["data_sha256"] == sha256
    assert from_json(outputs["experiment"]).options.max_samples == 40


@pytest.mark.long
@pytest.mark.usefixtures("forks")
def test_local_runner_repeats_rows_as_local_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared: dict[str, Any] = {"qubits": 4, "rounds": 10, "epochs": 2, "workers": 1, "strategy": "none", "seed": 3}
    published = {"value": 0.9, "spread": 0.1, "spread_is": "std", "runs": 5, "source": "a table"}
    rows: list[dict[str, Any]] = [{"model": "deep", "published": published}, {"learning_rate": 0.1}]
    with _local_runner(tmp_path, monkeypatch):
        outputs = study_pipeline()(experiment=shared, rows=rows, repeat=2).outputs
    study = qcnn.study(qcnn.Experiment(**shared), rows=rows, repeat=2, folder=tmp_path / "here", progress=False)
    ours = (study.folder / SELECT_STEP / "results.csv").read_bytes()
    assert Path(f"{outputs['results'].path}").read_bytes() == ours
    assert {**outputs["metrics"].metadata, "epoch_seconds": 0} == {**study.best.metrics, "epoch_seconds": 0}
    page = Path(outputs["table"].path).read_text()
    for row in study.rows:
        assert f"{row['mean']:.4f} ± {row['standard_error']:.4f}" in page
    # The last trial of the second row.
    alone = qcnn.train(
        qcnn.Experiment(**{**shared, "learning_rate": 0.1, "seed": 4}), tmp_path / "alone", progress=False
    )
    trial = study.trials[3]
    assert (trial["test_loss"], trial["test_accuracy"]) == (alone.metrics["loss"], alone.metrics["accuracy"])
    assert study.rows[1]["mean"] == (study.trials[2]["test_accuracy"] + trial["test_accuracy"]) / 2


def _assert_has_classes(outputs: Mapping[str, Any], names: tuple[str, ...]) -> None:
    measured = outputs["metrics"].metadata
    assert {"loss", "accuracy", "balanced_accuracy", "brier_score"} <= measured.keys()
    columns = json.loads(Path(outputs["confusion"].path).read_text())
    assert columns["labels"] == list(names)
    specs = outputs["confusion"].metadata["confusionMatrix"]["annotationSpecs"]
    assert [each["displayName"] for each in specs] == list(names)
    header = (Path(outputs["predictions"].path) / "predictions.csv").read_text().splitlines()[0]
    assert header.split(",")[5:] == [f"probability_{name}" for name in names]


@contextlib.contextmanager
def _local_runner(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Context manager in which pipelines run locally and write to a folder."""
    # The shell of a step must find the current interpreter.
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    with warnings.catch_warnings(), _restored_print_and_log():
        # The KFP SDK warns about images that are not named python.
        warnings.simplefilter("ignore")
        local.init(local.SubprocessRunner(use_venv=False), pipeline_root=str(folder / "kfp"))
        yield


@contextlib.contextmanager
def _restored_print_and_log() -> Iterator[None]:
    """Context manager that restores `print` and the root logger.

    The runner replaces them during each step (kfp/local/logging_utils.py). Steps that run at the same time restore them
    in the wrong order, so that each print of a later test, also on stderr, would write spaces on stdout.
    """
    original, root = builtins.print, logging.getLogger()
    handlers, level = [*root.handlers], root.level
    try:
        yield
    finally:
        builtins.print = original
        root.handlers[:] = handlers
        root.setLevel(level)


def _kinds(path: Path) -> dict[str, set[str]]:
    """Return the keys of the metadata of each artifact of a step."""
    artifacts = json.loads(path.read_text())["artifacts"]
    return {name: set(each["artifacts"][0]["metadata"]) for name, each in artifacts.items()}
