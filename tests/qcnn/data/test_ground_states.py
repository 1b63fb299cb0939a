"""Ground states as samples: fields, saved datasets, and training."""

from pathlib import Path

import numpy as np
import pytest

from qcnn import data
from qcnn.circuits.chains.cluster_ising import ground_state
from qcnn.data.generators import fields
from qcnn.errors import ConfigError
from qcnn.experiment.config import ExperimentConfig
from qcnn.experiment.parsing import from_mapping
from qcnn.results import evaluate, export
from qcnn.results.report import report_page
from qcnn.yaml_files import read_file
from tests.shared_training_runs import train

EXAMPLE = Path(__file__).parents[3] / "examples" / "cluster_ising.yaml"
WORDS = {"data": "cluster_ising", "qubits": 4, "rounds": 10, "workers": 1, "strategy": "none"}


def _config(**words: object) -> ExperimentConfig:
    return from_mapping({**WORDS, **words})


def test_ground_states_have_label_of_their_phase() -> None:
    dataset = data.generate(_config())
    assert [len(samples) for _, samples in dataset.splits()] == [28, 6, 6]
    for name, samples in dataset.splits():
        assert samples.inputs["state"].shape == (len(samples), 16)
        for state, h1, h2 in zip(samples.inputs["state"], *samples.known.values(), strict=True):
            assert state.tobytes() == ground_state(4, h1, h2).state.tobytes()
        if name != "test":
            assert not samples.known["h2"].any()
            assert samples.label.tolist() == np.where(samples.known["h1"] < 1, 1, -1).tolist()
    assert np.allclose(np.diff(dataset.train.known["h1"]), 1.6 / 27)


def test_test_fields_fill_diagram_evenly_for_any_count() -> None:
    for count in (16, 100, 1000):
        h1, h2 = fields("test", 5, count)
        counts, *_ = np.histogram2d(h1, h2, bins=2, range=[[0, 1.6], [-1.6, 1.6]])
        np.testing.assert_allclose(counts / count, 0.25, atol=1.5 / np.sqrt(count) / 2)
        assert len(set(zip(h1.tolist(), h2.tolist(), strict=True))) == count


def test_fields_seed_changes_validation_and_test_only() -> None:
    for split, is_moved in (("train", False), ("validation", True), ("test", True)):
        first, second = (np.array(fields(split, seed, 10)) for seed in (0, 1))
        assert (first.tolist() != second.tolist()) == is_moved


def test_load_returns_saved_ground_states(tmp_path: Path) -> None:
    dataset = data.generate(_config())
    data.save(dataset, tmp_path / "dataset")
    loaded = data.load(tmp_path / "dataset")
    assert loaded.digest == dataset.digest == data.generate(_config()).digest
    assert loaded.layout == dataset.layout
    for name, values in dataset.test.known.items():
        np.testing.assert_array_equal(loaded.test.known[name], values)
    np.testing.assert_array_equal(loaded.test.take(np.array([3, 1])).known["h2"], dataset.test.known["h2"][[3, 1]])


@pytest.mark.parametrize("qubits", [4, 9, 15])
def test_ground_states_default_count_is_about_400(qubits: int) -> None:
    config = from_mapping({"data": "cluster_ising", "qubits": qubits})
    assert 400 <= config.rounds * qubits < 400 + qubits


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"qubits": 16}, "qubits: must be at most 15 with data cluster_ising.* Given: 16"),
        ({"qubits": 15, "rounds": 137}, "rounds: rounds x qubits must be at most 2048. Given: 137 with 15 qubits"),
    ],
)
def test_ground_states_too_many_qubits_or_samples_raises(words: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        data.generate(_config(**words))


def test_ground_states_report_has_phase_diagram(tmp_path: Path) -> None:
    config = _config(model="deep", epochs=2, options={"num_initializations": 1})
    dataset = data.generate(config)
    history = train(config, dataset, tmp_path / "training")
    export.export(tmp_path / "training", tmp_path / "model")
    result = evaluate.evaluate(tmp_path / "model", dataset)
    assert "fresh_mse" not in result.metrics
    evaluate.save_predictions(result, tmp_path / "predictions")
    header, *rows = (tmp_path / "predictions" / "predictions.csv").read_text().splitlines()
    assert header == "h1,h2,label,prediction"
    assert len(rows) == 6
    page = report_page(result.description, history, result.samples, result.predictions, result.metrics)
    assert "Phase diagram" in page
    assert "to the antiferromagnet</text>" in page


@pytest.mark.long
def test_cluster_ising_example_reaches_accuracy(tmp_path: Path) -> None:
    config = from_mapping(read_file(EXAMPLE))
    history = train(config, data.generate(config), tmp_path / "training")
    # Nine qubits are too few for a sharp phase boundary.
    assert (history[-1].train_accuracy or 0) >= 0.88
    assert (history[-1].val_accuracy or 0) >= 0.88
