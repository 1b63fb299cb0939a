"""Export of models, and loading of exported models."""

import dataclasses
import json
import logging
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from qcnn import data
from qcnn.artifact_io import load_description, save_description
from qcnn.errors import ArtifactError
from qcnn.experiment.config import ExperimentConfig
from qcnn.model import checkpoints
from qcnn.model.network import build_model
from qcnn.model.optimizer import values_of
from qcnn.results import export
from qcnn.results.evaluate import predict
from qcnn.results.predictor import load_predictor
from tests.shared_training_runs import copy_checkpoint, documents


def test_saved_model_predicts_without_tensorflow_quantum(model_folder: Path, tmp_path: Path) -> None:
    fresh = data.sample_excitations(4, 50, seed=11)
    np.savez(tmp_path / "samples.npz", qubit=fresh.qubit, angle=fresh.angle)
    program = """
import sys
sys.modules["tensorflow_quantum"] = None
import numpy as np
import tensorflow as tf
model, samples, output = sys.argv[1:]
serve = tf.saved_model.load(model).signatures["serving_default"]
with np.load(samples) as arrays:
    np.save(output, serve(qubit=tf.constant(arrays["qubit"]), angle=tf.constant(arrays["angle"]))["prediction"])
"""
    paths = [model_folder / "saved_model", tmp_path / "samples.npz", tmp_path / "served.npy"]
    subprocess.run([sys.executable, "-c", program, *map(str, paths)], check=True, capture_output=True)
    model, _ = export.load(model_folder)
    np.testing.assert_allclose(np.load(tmp_path / "served.npy"), predict(model, fresh), atol=1e-5)


def test_export_describes_experiment(model_folder: Path, small_config: ExperimentConfig) -> None:
    description = json.loads((model_folder / "model.json").read_text())
    assert ExperimentConfig.model_validate(description["experiment"]) == small_config
    assert description["training"]["epochs"] == 3
    assert sorted(path.name for path in model_folder.iterdir()) == [
        "model.json",
        "predictor.json",
        "qcnn.weights.h5",
        "saved_model",
    ]


def test_export_without_checkpoint_raises(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"^training: the folder has no checkpoint. Given: "):
        export.export(tmp_path / "empty", tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_export_incomplete_training_raises(trained: Path, tmp_path: Path) -> None:
    copy_checkpoint(trained, 2, tmp_path / "training")
    with pytest.raises(ArtifactError, match=r"^training: must be complete, 3 epochs. Given: 2 epochs"):
        export.export(tmp_path / "training", tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("limit", [0, 1000, 20_000, 100_000])
def test_export_file_size_limit_raises_one_line(
    trained: Path, tmp_path: Path, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HDF5 would crash the process or print long errors if it cannot write."""
    # The log may be a file, to which the limit applies, too.
    monkeypatch.setattr(logging.getLogger("qcnn"), "handlers", [])
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        with pytest.raises(
            ArtifactError, match=rf"file size limit of this process is {limit} bytes, see ulimit -f\). Given: "
        ):
            export.export(trained, tmp_path / "model")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, hard))
    assert not list(tmp_path.iterdir())


def test_export_provenance_has_requested_and_used_simulator(model_folder: Path) -> None:
    source = json.loads((model_folder / "model.json").read_text())["provenance"]
    assert (source["simulator"], source["simulator_used"]) == ("auto", "statevector_cpu")


def test_export_weights_match_documentation(model_folder: Path) -> None:
    rows = re.findall(r"^\| `(layers/\S+)` \| \((.*?)\) \|", documents(), re.MULTILINE)
    sizes = {"parameters": 21, "readouts": 2, "hidden_units": 8, "1": 1}
    documented = {name: tuple(sizes[size] for size in re.findall(r"\w+", shape)) for name, shape in rows}
    found = {}

    def look(name: str, item: object) -> None:
        if isinstance(item, h5py.Dataset) and name.startswith("layers/"):
            assert item.dtype == np.float64
            found[name] = item.shape

    with h5py.File(model_folder / "qcnn.weights.h5") as file:
        file.visititems(look)
    assert found == documented


def _edit(**values: object) -> Callable[[Path], None]:
    """Return a function that changes values of model.json and updates its digest."""

    def change(folder: Path) -> None:
        path = folder / "model.json"
        save_description({**load_description("model", path), **values}, path)

    return change


def _change_seed(folder: Path) -> None:
    path = folder / "model.json"
    path.write_text(path.read_text().replace('"seed": 0', '"seed": 1'))


def _truncate(folder: Path) -> None:
    path = folder / "qcnn.weights.h5"
    path.write_bytes(path.read_bytes()[:100])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: shutil.rmtree(folder), "model: model.json is missing"),
        (lambda folder: (folder / "model.json").write_text("{}"), "model: model.json is damaged"),
        (lambda folder: (folder / "model.json").write_text("[]"), "model: model.json is damaged"),
        (lambda folder: (folder / "qcnn.weights.h5").unlink(), "model: qcnn.weights.h5 is missing"),
        (_edit(schema_version=7), r"model: schema_version must be one of \(1, 2\). Given: 7"),
        (_change_seed, r"model: model.json is damaged \(sha256 is not that of the content"),
        (_edit(experiment={"qubits": 3}), "model: model.json is damaged .*qubits"),
        (_truncate, "model: qcnn.weights.h5 is damaged or of another model"),
    ],
)
def test_load_damaged_model_raises(
    model_folder: Path, tmp_path: Path, damage: Callable[[Path], object], message: str
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(model_folder, folder)
    damage(folder)
    with pytest.raises(ArtifactError, match=f"^{message}") as error:
        export.load(folder)
    assert "Given: " in str(error.value)
    assert "\n" not in str(error.value)


def test_load_weights_of_other_model_raises(
    model_folder: Path, small_config: ExperimentConfig, trained: Path, tmp_path: Path
) -> None:
    deep = small_config.model_copy(update={"model": "deep"})
    checkpoint = checkpoints.load_latest(trained / checkpoints.FOLDER)
    assert checkpoint
    weights = values_of(build_model(deep).trainable_variables)
    line = dataclasses.replace(checkpoint.line, weights=weights, history=checkpoint.history)
    other = dataclasses.replace(checkpoint, config=deep, line=line)
    checkpoints.save(other, tmp_path / "deep" / checkpoints.FOLDER)
    export.export(tmp_path / "deep", tmp_path / "model")
    shutil.copy(model_folder / "qcnn.weights.h5", tmp_path / "model")
    with pytest.raises(ArtifactError, match=r"^model: qcnn.weights.h5 is damaged or of another model"):
        export.load(tmp_path / "model")


def test_export_asynchronous_training_has_staleness(trained: Path, tmp_path: Path) -> None:
    """Staleness is over all epochs. Synchronous training has none."""
    saved = checkpoints.load_latest(trained / "checkpoints")
    assert saved
    assert "staleness" not in export.export(trained, tmp_path / "in step")["training"]
    stale = [
        dataclasses.replace(epoch, staleness=number / 2, largest_staleness=3 - number)
        for number, epoch in enumerate(saved.history)
    ]
    line = dataclasses.replace(saved.line, history=tuple(stale))
    checkpoints.save(dataclasses.replace(saved, line=line), tmp_path / "training" / "checkpoints")
    training = export.export(tmp_path / "training", tmp_path / "model")["training"]
    assert (training["staleness"], training["largest_staleness"]) == (0.5, 3)


def test_load_predictor_predicts_as_network(model_folder: Path) -> None:
    predictor, (model, _) = load_predictor(model_folder), export.load(model_folder)
    samples = data.sample_fresh(predictor.config.qubits, seed=3).take(np.arange(150))
    np.testing.assert_allclose(predictor.predict(samples.inputs), predict(model, samples), atol=1e-6)
