"""What an experiment costs is counted without TensorFlow."""

import subprocess
import sys

from qcnn.trainer.config import from_mapping
from qcnn.trainer.planning.machine import NOMINAL_MACHINE
from qcnn.trainer.planning.plan import count, predict

ALONE = {"qubits": 12, "rounds": 10, "batch_size": 16, "workers": 1, "strategy": "none"}


def test_the_chosen_simulator_has_the_seconds_of_its_row_and_of_its_workers() -> None:
    config = from_mapping(ALONE)
    counts = count(config)
    predicted = predict(config, counts, NOMINAL_MACHINE)
    assert predicted.by_simulator.keys() == {"window", "statevector", "tfq", "density"}
    assert predicted.chosen == predicted.by_simulator["window"] == predicted.by_workers[1]
    # No more workers than samples of a batch.
    assert list(predicted.by_workers) == list(counts.by_workers) == [1, 2, 4, 8, 16]


def test_counting_and_choosing_load_no_tensorflow() -> None:
    program = """
import sys
from qcnn.trainer.config import from_mapping
from qcnn.trainer.planning.expectation import expectation
from qcnn.trainer.planning.plan import count
from qcnn.trainer.simulators.structure.gates import read_model
for model, simulator in (("hybrid", "auto"), ("deep", "statevector"), ("hybrid", "window")):
    config = from_mapping({"qubits": 12, "model": model, "simulator": simulator})
    chosen = count(config).chosen.simulator
    expectation(config, read_model(model, 12)[1], chosen, 1)
print(*sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not {"tensorflow", "tf_keras", "tensorflow_quantum"} & set(done.stdout.split())
