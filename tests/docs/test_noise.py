"""Tests of docs/noise.md: its experiment and its Python example."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from qcnn import data, simulators
from qcnn.circuits import circuits, noise
from qcnn.experiment.parsing import from_mapping
from qcnn.results import evaluate, export
from qcnn.simulators import ExcitationBatch, SimulatorLimits
from qcnn.trainer.loop import train
from qcnn.yaml_files import read_file
from tests.docs.documents import ROOT, blocks

PAGE, EXAMPLE = ROOT / "docs" / "noise.md", ROOT / "examples" / "noise.yaml"


def test_yaml_block_equals_example_file(tmp_path: Path) -> None:
    (block,) = blocks(PAGE, "yaml")
    (tmp_path / "noise.yaml").write_text(block.text)
    assert from_mapping(read_file(tmp_path / "noise.yaml")) == from_mapping(read_file(EXAMPLE))


def test_python_example_readouts_match_simulator() -> None:
    (block,) = blocks(PAGE, "python")
    found: dict[str, Any] = {}
    exec(compile(block.text, block.title, "exec"), found)
    ring = circuits.ring(4)
    channels = noise.parse("depolarizing=0.01,readout=0.02")
    limits = SimulatorLimits(memory=2**30, batch=1)
    simulator = simulators.create("auto", circuits.hybrid(ring), ring, limits, noise=channels)
    parameters = tf.constant(np.linspace(0, 1, 21))
    batch = ExcitationBatch(tf.constant([1]), tf.constant([0.3]))
    np.testing.assert_allclose(simulator.expectations(parameters, batch)[0], np.real(found["readouts"]), atol=1e-7)


@pytest.mark.long
def test_example_trains_and_predicts_with_noise(tmp_path: Path) -> None:
    fields = {**read_file(EXAMPLE), "strategy": "none", "workers": 1}
    config = from_mapping(fields)
    dataset = data.generate(config)
    history = train(config, dataset, tmp_path / "training")
    # The lower bound without noise is 0.19.
    assert 0.15 < history[-1].val_loss < 0.5
    export.export(tmp_path / "training", tmp_path / "model")
    metrics = evaluate.evaluate(tmp_path / "model", dataset).metrics
    assert metrics["accuracy"] > 0.9
    assert "exact_mse" not in metrics
    # The SavedModel includes the noise too.
    model, _ = export.load(tmp_path / "model")
    served = tf.saved_model.load(str(tmp_path / "model" / "saved_model")).signatures["serving_default"]
    inputs = {name: tf.constant(values) for name, values in dataset.test.inputs.items()}
    np.testing.assert_allclose(served(**inputs)["prediction"], evaluate.predict(model, dataset.test), atol=1e-5)
