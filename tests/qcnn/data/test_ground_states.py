"""Ground states as samples: fields, saved datasets, and training."""

import importlib
import sys
import types
from pathlib import Path

import numpy as np
import pytest

from qcnn import data
from qcnn.circuits.ansatz import ring
from qcnn.circuits.chains import CHAINS, chain_of
from qcnn.circuits.chains.chain import Floats
from qcnn.circuits.chains.cluster_ising import ground_state
from qcnn.circuits.chains.ground_states import ground_state as chain_ground_state
from qcnn.data.ground_states import points_of
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


def fields(split: str, seed: int, count: int, chain: str = "cluster_ising") -> tuple[Floats, ...]:
    """Return the values of each parameter of the samples of a split."""
    found = chain_of(chain)
    return points_of(split, seed, count, found.parameters, found.training_lines)


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


@pytest.mark.parametrize(
    ("chain", "qubits", "fixed"),
    [("annni", 5, {"kappa": [0.0], "h": [0.0]}), ("bond_alternating_xxz", 6, {"delta": [0.5, 3.0], "j_ratio": []})],
)
def test_chain_trains_on_lines_and_tests_plane(chain: str, qubits: int, fixed: dict[str, list[float]]) -> None:
    dataset = data.generate(_config(data=chain, qubits=qubits, options={"loss": "cross_entropy"}))
    described = chain_of(chain)
    assert dataset.layout.classes == described.classes
    assert dataset.layout.known == tuple(parameter.name for parameter in described.parameters)
    for name, samples in dataset.splits():
        points = list(zip(*samples.known.values(), strict=True))
        assert samples.label.tolist() == described.class_of(*samples.known.values()).tolist()
        for state, point in zip(samples.inputs["state"], points, strict=True):
            assert state.tobytes() == chain_ground_state(described, qubits, *point).state.tobytes()
        on_line = [any(value in fixed[key] for key, value in zip(fixed, point, strict=True)) for point in points]
        assert set(on_line) == {name != "test"}
    assert set(dataset.train.label) == {0, 1, 2}
    assert min(np.unique(dataset.train.label, return_counts=True)[1]) >= 3


def test_points_are_in_range_and_validation_covers_lines() -> None:
    for chain in CHAINS:
        for split in ("train", "validation", "test"):
            for parameter, values in zip(chain_of(chain).parameters, fields(split, 1, 200, chain), strict=True):
                assert parameter.minimum <= values.min() <= values.max() <= parameter.maximum
    kappa, h = fields("validation", 1, 200, "annni")
    assert np.all((kappa == 0) | (h == 0))
    assert 70 < np.count_nonzero(kappa) < 130


MODULE = """
import cirq


def ising(qubits, g):
    bonds = [-cirq.Z(a) * cirq.Z(b) for a, b in zip(qubits, qubits[1:])]
    fields = [-g * cirq.X(qubit) for qubit in qubits]
    return cirq.PauliSum.from_pauli_strings(bonds + fields), LABELS[int(g > 1) + (g > 1.5)]


def plane(qubits, g, h):
    return ising(qubits, g)[0] - h * cirq.Z(qubits[0]), LABELS[int(g > 1)]


LABELS = ("ordered", "disordered", "disordered")
ising.parameters = {"g": (0.25, 2.0)}
plane.parameters = {"g": (0.0, 2.0), "h": (-1.0, 1.0)}
"""


@pytest.fixture
def users_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """Module with Hamiltonians of a user, importable as `users_chains`."""
    (tmp_path / "users_chains.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "users_chains", raising=False)
    return importlib.import_module("users_chains")


@pytest.mark.parametrize(
    ("labels", "type_", "classes", "of_disordered"),
    [
        (("ordered", "disordered", "disordered"), "names", ("disordered", "ordered"), -1),
        ((0, 1, 1), "zero_one", (), 1),
        ((1, -1, -1), "signs", (), -1),
    ],
)
def test_custom_hamiltonian_of_two_classes(
    labels: tuple[str | int, ...],
    type_: str,
    classes: tuple[str, ...],
    of_disordered: int,
    users_module: types.ModuleType,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(users_module, "LABELS", labels)
    config = _config(data="users_chains:ising")
    dataset = data.generate(config)
    assert dataset.digest == data.generate(config).digest
    assert (dataset.layout.labels, dataset.layout.classes, dataset.layout.known) == (type_, classes, ("g",))
    for _, samples in dataset.splits():
        g = samples.known["g"]
        assert samples.label.tolist() == np.where(g > 1, of_disordered, -of_disordered).tolist()
        for state, value in zip(samples.inputs["state"], g, strict=True):
            terms = users_module.ising(ring(4), float(value))[0]
            _, vectors = np.linalg.eigh(terms.matrix(ring(4)).real)
            assert abs(vectors[:, 0] @ state) == pytest.approx(1, abs=1e-5)
    # 28 points fill the range evenly.
    assert np.max(np.diff(np.sort(dataset.train.known["g"]))) < 0.2


@pytest.mark.usefixtures("users_module")
def test_custom_hamiltonian_fills_plane() -> None:
    dataset = data.generate(_config(data="users_chains:plane", rounds=25, options={"loss": "cross_entropy"}))
    assert dataset.layout.classes == ("disordered", "ordered")
    for _, samples in dataset.splits():
        g, h = samples.known.values()
        counts, *_ = np.histogram2d(g, h, bins=2, range=[[0, 2], [-1, 1]])
        assert counts.min() >= 1
        assert samples.label.tolist() == (g <= 1).astype(int).tolist()


@pytest.mark.parametrize(
    ("labels", "words", "message"),
    [
        (("a", "b", "c"), {}, "loss: must be cross_entropy with the 3 labels of users_chains:ising. Given: mse"),
        (
            ("a", "b", "c"),
            {"options": {"loss": "cross_entropy"}},
            "classes: must be 3 with the 3 labels of users_chains:ising. Given: 2",
        ),
        (("a", "a", "a"), {}, r"data: must have labels of 2 to 100 classes. Given: 1 \(a\) from users_chains:ising"),
    ],
)
def test_custom_hamiltonian_with_other_classes_raises(
    labels: tuple[str, ...],
    words: dict[str, object],
    message: str,
    users_module: types.ModuleType,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(users_module, "LABELS", labels)
    config = _config(data="users_chains:ising", **words)
    for check in (data.generate, lambda config: data.resolve_files([config])):
        with pytest.raises(ConfigError, match=f"^{message}"):
            check(config)


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
        ({"qubits": 17}, "qubits: must be at most 16 with data cluster_ising.* Given: 17"),
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


def _report(config: ExperimentConfig, folder: Path) -> tuple[str, str, evaluate.EvaluationResult]:
    """Train, and return the HTML report, the header of the predictions and the evaluation."""
    dataset = data.generate(config)
    history = train(config, dataset, folder / "training")
    export.export(folder / "training", folder / "model")
    result = evaluate.evaluate(folder / "model", dataset)
    evaluate.save_predictions(result, folder / "predictions")
    header = (folder / "predictions" / "predictions.csv").read_text().splitlines()[0]
    page = report_page(
        result.description, history, result.samples, result.predictions, result.metrics, result.confusion
    )
    return page, header, result


def test_annni_report_has_phase_diagram_of_three_classes(tmp_path: Path) -> None:
    options = {"loss": "cross_entropy", "num_initializations": 1}
    page, header, result = _report(_config(data="annni", epochs=2, options=options), tmp_path)
    names = ("ferromagnetic", "antiphase", "paramagnetic")
    assert header == f"kappa,h,label,prediction,{','.join(f'probability_{name}' for name in names)}"
    assert result.predictions.shape == (6, 3)
    assert {"recall_paramagnetic", "loss"} <= result.metrics.keys()
    diagram = page[page.index('aria-label="Phase diagram"') :]
    for text in (*names, "Ising", "floating", "training", "kappa", "h / J"):
        assert f">{text}</text>" in diagram
    assert "The ferromagnet is below the Ising line" in page


@pytest.mark.usefixtures("users_module")
@pytest.mark.parametrize("loss", ["mse", "cross_entropy"])
def test_custom_hamiltonian_report_plots_parameter(loss: str, tmp_path: Path) -> None:
    options = {"loss": loss, "num_initializations": 1}
    page, header, _ = _report(_config(data="users_chains:ising", epochs=2, options=options), tmp_path)
    assert header.startswith("g,label,prediction")
    diagram = page[page.index('aria-label="Phase diagram"') :]
    for text in ("g", "probability" if loss == "cross_entropy" else "prediction"):
        assert f">{text}</text>" in diagram


@pytest.mark.long
def test_cluster_ising_example_reaches_accuracy(tmp_path: Path) -> None:
    config = from_mapping(read_file(EXAMPLE))
    history = train(config, data.generate(config), tmp_path / "training")
    # Nine qubits are too few for a sharp phase boundary.
    assert (history[-1].train_accuracy or 0) >= 0.88
    assert (history[-1].val_accuracy or 0) >= 0.88
