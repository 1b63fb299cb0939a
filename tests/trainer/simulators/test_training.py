"""Training does not depend on the simulator, and only simulator `tfq` needs TensorFlow Quantum."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.trainer.conftest import SMALL
from trainer import data
from trainer.config import from_mapping
from trainer.training.fit import train


def losses(folder: Path, **words: object) -> list[tuple[float, float]]:
    config = from_mapping({**SMALL, "epochs": 5, **words})
    history = train(config, data.generate(config), folder)
    return [(epoch.train_loss, epoch.val_loss) for epoch in history]


@pytest.mark.parametrize("model", ["hybrid", "deep"])
def test_losses_are_those_of_any_other_simulator(model: str, tmp_path: Path) -> None:
    window, statevector, tfq = (
        losses(tmp_path / name, model=model, simulator=name) for name in ("window", "statevector", "tfq")
    )
    np.testing.assert_allclose(window, tfq, atol=1e-3)
    np.testing.assert_allclose(statevector, tfq, atol=1e-3)
    # Closer than the reference, whose gradient is in float32.
    np.testing.assert_allclose(statevector, window, atol=1e-4)
    # Losses that stay would be equal for any gradient.
    assert abs(window[0][0] - window[-1][0]) > 0.05


def test_windows_are_sampled_too(tmp_path: Path) -> None:
    exact, many, few = (
        losses(tmp_path / str(shots), simulator="window", options={"shots": shots}) for shots in (0, 10**8, 10)
    )
    np.testing.assert_allclose(many, exact, atol=1e-3)
    assert np.abs(np.array(few) - exact).max() > 1e-2


_ALL_BUT_TFQ = """
import sys

blocked = sys.argv[1] == "blocked"
if blocked:
    sys.modules["tensorflow_quantum"] = None
from pathlib import Path

from trainer import data
from trainer.results import evaluate, export
from trainer.config import from_mapping
from trainer.errors import ConfigError
from trainer.training.fit import train
from trainer.model import build_model

words = {"qubits": 4, "rounds": 10, "epochs": 1, "batch_size": 8, "strategy": "none", "workers": 1}
config = from_mapping(words)
dataset = data.generate(config)
folder = Path(sys.argv[2])
train(config, dataset, folder / "training")
export.export(folder / "training", folder / "model")
evaluate.evaluate(folder / "model", dataset)
for name in ("window", "statevector"):
    build_model(from_mapping({**words, "simulator": name}))
if not blocked:
    print([name for name in sys.modules if name.startswith("tensorflow_quantum")])
else:
    try:
        build_model(from_mapping({**words, "simulator": "tfq"}))
    except ConfigError as error:
        print(error)
"""


_HALTED = "import of tensorflow_quantum halted; None in sys.modules"


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("installed", "[]"),
        ("blocked", f"simulator: TensorFlow Quantum is not installed here ({_HALTED}). Given: tfq"),
    ],
    ids=["installed", "blocked"],
)
def test_only_the_simulator_of_that_name_needs_tensorflow_quantum(how: str, said: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", _ALL_BUT_TFQ, how, str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[-1] == said
