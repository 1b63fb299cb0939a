"""What docs/noise.md shows: the experiment is the example's and trains; the circuit is what is computed."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from qcnn import data, simulators
from qcnn.circuits import circuits, noise
from qcnn.experiment_io import from_mapping, read_file
from qcnn.results import evaluate, export
from qcnn.simulators import Batch, Limits
from qcnn.trainer.loop import train
from tests.docs.documents import ROOT, blocks

PAGE, EXAMPLE = ROOT / "docs" / "noise.md", ROOT / "examples" / "noise.yaml"


def test_the_experiment_that_is_shown_is_the_example(tmp_path: Path) -> None:
    (shown,) = blocks(PAGE, "yaml")
    (tmp_path / "shown.yaml").write_text(shown.text)
    assert from_mapping(read_file(tmp_path / "shown.yaml")) == from_mapping(read_file(EXAMPLE))


def test_the_circuit_that_is_shown_has_the_readouts_of_the_simulator() -> None:
    (shown,) = blocks(PAGE, "python")
    found: dict[str, Any] = {}
    exec(compile(shown.text, shown.title, "exec"), found)
    ring = circuits.ring(4)
    word = noise.parse("depolarizing=0.01,readout=0.02")
    limits = Limits(memory=2**30, batch=1)
    simulator = simulators.create("auto", circuits.hybrid(ring), ring, limits, noise=word)
    parameters = tf.constant(np.linspace(0, 1, 21))
    batch = Batch(tf.constant([1]), tf.constant([0.3]))
    np.testing.assert_allclose(simulator.expectations(parameters, batch)[0], np.real(found["readouts"]), atol=1e-7)


@pytest.mark.long
def test_the_example_trains_and_predicts_under_its_noise(tmp_path: Path) -> None:
    words = {**read_file(EXAMPLE), "strategy": "none", "workers": 1}
    config = from_mapping(words)
    dataset = data.generate(config)
    history = train(config, dataset, tmp_path / "training")
    # What it could at best without noise is 0.19.
    assert 0.15 < history[-1].val_loss < 0.5
    export.export(tmp_path / "training", tmp_path / "model")
    metrics = evaluate.evaluate(tmp_path / "model", dataset).metrics
    assert metrics["accuracy"] > 0.9
    assert "exact_mse" not in metrics
    # What is served is under the noise too.
    model, _ = export.load(tmp_path / "model")
    served = tf.saved_model.load(str(tmp_path / "model" / "saved_model")).signatures["serving_default"]
    inputs = {name: tf.constant(values) for name, values in dataset.test.inputs.items()}
    np.testing.assert_allclose(served(**inputs)["prediction"], evaluate.predict(model, dataset.test), atol=1e-5)
