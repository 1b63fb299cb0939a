"""Training with all simulators, and without TensorFlow Quantum."""

import functools
import tempfile
from pathlib import Path

import numpy as np
import pytest

from qcnn import data
from qcnn.experiment.parsing import from_mapping
from qcnn.simulators import registry
from tests.forks import run
from tests.shared_training_runs import SMALL, train


@functools.cache
def losses(model: str, simulator: str, shots: int = 0) -> list[tuple[float, float]]:
    fields = {"epochs": 5, "model": model, "simulator": simulator, "options": {**SMALL["options"], "shots": shots}}
    config = from_mapping({**SMALL, **fields})
    with tempfile.TemporaryDirectory() as folder:
        history = train(config, data.generate(config), Path(folder))
    return [(epoch.train_loss, epoch.val_loss) for epoch in history]


@pytest.mark.parametrize("model", ["hybrid", "deep"])
def test_losses_are_equal_for_all_simulators(model: str) -> None:
    lightcone, *others = (
        losses(model, name) for name, each in registry.SIMULATORS.items() if not each.DECLARATION.library
    )
    for other in others:
        np.testing.assert_allclose(other, lightcone, atol=1e-4)
    # Constant losses would be equal for any gradient.
    assert abs(lightcone[0][0] - lightcone[-1][0]) > 0.05


@pytest.mark.tfq
@pytest.mark.parametrize("model", ["hybrid", "deep"])
def test_losses_equal_those_of_tensorflow_quantum(model: str) -> None:
    # The gradient of TensorFlow Quantum is in float32.
    np.testing.assert_allclose(losses(model, "lightcone"), losses(model, "tfq"), atol=1e-3)


def test_dense_layers_after_circuit_without_gates_are_trained_by_all_simulators(tmp_path: Path) -> None:
    """The array of the circuit's parameters is empty, and no expectation value depends on it."""
    states = np.random.default_rng(0).normal(size=(20, 16))
    labels = (states[:, 0] ** 2 > np.median(states[:, 0] ** 2)).astype(int)
    table = np.column_stack([states, labels])
    header = ",".join([*(f"amplitude_{index}" for index in range(16)), "label"])
    np.savetxt(tmp_path / "states.csv", table, delimiter=",", header=header, comments="")
    fields = {
        "model": "qcnn.published.bars_and_stripes:squares",
        "encoding": "amplitude",
        "hidden_units": 4,
        "rounds": 0,
        "data": str(tmp_path / "states.csv"),
    }
    found = []
    for simulator in ("statevector", "statevector_cpu", "density"):
        config = from_mapping({**SMALL, **fields, "simulator": simulator})
        found.append(train(config, data.generate(config), tmp_path / simulator))
    losses_of = [[(epoch.train_loss, epoch.val_loss) for epoch in history] for history in found]
    np.testing.assert_allclose(losses_of[1:], losses_of[:-1], atol=1e-5)
    assert losses_of[0][0] != losses_of[0][-1]


def test_lightcone_with_shots_estimates_losses() -> None:
    exact, many, few = losses("hybrid", "lightcone"), *(losses("hybrid", "lightcone", shots) for shots in (10**8, 10))
    np.testing.assert_allclose(many, exact, atol=1e-3)
    assert np.abs(np.array(few) - exact).max() > 1e-2


_WITHOUT_TFQ = """
import sys
from pathlib import Path

# Modules that import TensorFlow Quantum would be imported again. The fork server has already loaded other libraries.
for name in [name for name in sys.modules if name.partition(".")[0] in ("qcnn", "tensorflow_quantum")]:
    del sys.modules[name]


class Missing:
    requested = []

    @classmethod
    def find_spec(cls, name, path, target=None):
        if name.startswith("tensorflow_quantum"):
            cls.requested.append(name)
            raise ImportError("for this test")


sys.meta_path.insert(0, Missing)

from qcnn import data
from qcnn.results import evaluate, export
from qcnn.experiment.parsing import from_mapping
from qcnn.errors import ConfigError
from qcnn.trainer.loop import train
from qcnn.model.network import build_model

fields = {"qubits": 4, "rounds": 10, "epochs": 1, "batch_size": 8, "strategy": "none", "workers": 1}
config = from_mapping(fields)
dataset = data.generate(config)
folder = Path(sys.argv[1])
train(config, dataset, folder / "training")
export.export(folder / "training", folder / "model")
evaluate.evaluate(folder / "model", dataset)
for name in ("lightcone", "statevector"):
    build_model(from_mapping({**fields, "simulator": name}))
print(Missing.requested)
try:
    build_model(from_mapping({**fields, "simulator": "tfq"}))
except ConfigError as error:
    print(error)
"""


def test_only_simulator_tfq_imports_tensorflow_quantum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forks: None
) -> None:
    (tmp_path / "without_tfq.py").write_text(_WITHOUT_TFQ)
    monkeypatch.chdir(tmp_path)
    result = run("-m", "without_tfq", str(tmp_path))
    assert result.returncode == 0, result.stderr
    *_, requested, message = result.stdout.splitlines()
    assert requested == "[]"
    assert message == "simulator: TensorFlow Quantum is not installed (for this test). Given: tfq"
