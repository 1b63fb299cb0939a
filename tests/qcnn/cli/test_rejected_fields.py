"""Every field of an experiment: an invalid value is rejected before data are generated, and nothing is written."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import qcnn
from qcnn.components.steps.dataset import generate_data
from qcnn.components.steps.study import plan_study
from qcnn.experiment.config import ALL_FIELDS
from qcnn.jobs.local.fork_protocol import VARIABLE
from qcnn.process import operating_system
from qcnn.process.operating_system import Memory
from qcnn.simulators import kernels
from tests.qcnn.cli.conftest import Typed

ALONE = ("--strategy", "none", "--workers", "1")
# Flags that a run on a machine without GPUs, TPU and kernels rejects, and the error, by field. A new field needs an
# entry: the first value that the schema, the strategy or the machine cannot use.
REJECTED: dict[str, list[tuple[tuple[str, ...], str]]] = {
    "qubits": [
        (("--qubits", "0"), "qubits: must be an integer, at least 1"),
        (("--qubits", "3"), "qubits: must be at least 4 with hybrid"),
        (("--qubits", "17", "--data", "cluster_ising"), "qubits: must be at most 16 with data cluster_ising"),
        (("--qubits", "7", "--data", "bond_alternating_xxz"), "qubits: must be even with data bond_alternating_xxz"),
        (("--qubits", "31", "--simulator", "statevector"), "qubits: must be at most 30 with simulator statevector"),
    ],
    "rounds": [(("--rounds", "-1"), "rounds: must be an integer, at least 0")],
    "data": [
        (("--data", "rows.txt"), "data: must be one of excitations"),
        (("--data", "nowhere.csv", "--encoding", "ry"), "data: cannot be read (file not found)"),
        (("--data", "nowhere:f"), "data: cannot be imported or fails (ModuleNotFoundError"),
        (("--data", "phases:incommensurable"), "data: attribute parameters must map one or two names"),
    ],
    "encoding": [(("--encoding", "ry"), "encoding: must be excitation unless data is a file")],
    "seed": [(("--seed", "-1"), "seed: must be an integer, at least 0")],
    "model": [
        (("--model", "shallow"), "model: must be one of hybrid"),
        (("--model", "nowhere:f"), "model: cannot be imported"),
        (("--model", "nowhere.qasm"), "model: no such file"),
    ],
    "simulator": [
        (("--simulator", "abacus"), "simulator: must be one of auto"),
        (
            ("--simulator", "statevector_cpu"),
            "simulator: statevector_cpu needs kernels, which cannot run here: of a test",
        ),
        (("--simulator", "lightcone", "--model", "deep", "--qubits", "256"), "qubits: the light cones of this circuit"),
    ],
    "optimizer": [(("--optimizer", "newton"), "optimizer: must be one of adam")],
    "hidden_units": [(("--hidden-units", "0"), "hidden_units: must be an integer, at least 1")],
    "hidden_activation": [(("--hidden-activation", "step"), "hidden_activation: must be one of linear")],
    "strategy": [
        (("--strategy", "alone"), "strategy: must be one of multi_worker"),
        (("--strategy", "tpu", "--workers", "1"), "strategy: no TPU was found"),
    ],
    "workers": [
        (("--workers", "0"), "workers: must be an integer, at least 1"),
        (("--workers", "64"), "workers: 64 processes need at least 8.28 GiB of memory; this machine has 4 GiB"),
    ],
    "epochs": [(("--epochs", "-1"), "epochs: must be an integer, at least 0")],
    "batch_size": [(("--batch-size", "1"), "batch_size: must be at least workers (2)")],
    "learning_rate": [(("--learning-rate", "0"), "learning_rate: must be a finite number, greater than 0")],
    "train_fraction": [(("--train-fraction", "1"), "train_fraction: must be a finite number, greater than 0")],
    "validation_fraction": [(("--validation-fraction", "0.3"), "validation_fraction: train_fraction + validation")],
    "simulator_memory_gib": [
        (("--simulator-memory-gib", "0"), "simulator_memory_gib: must be a finite number"),
        (
            ("--simulator-memory-gib", "1e-6", "--model", "deep"),
            "qubits: no simulator can run this circuit in 1.05 KiB",
        ),
        (
            ("--simulator-memory-gib", "1e-4", "--qubits", "20", "--simulator", "statevector"),
            "qubits: simulator statevector needs at least 112 MiB; simulator_memory_gib allows 105 KiB",
        ),
        (
            ("--simulator-memory-gib", "64", "--qubits", "28", "--model", "deep", "--simulator", "statevector", *ALONE),
            "simulator_memory_gib: 1 process needs at least 56.7 GiB of memory; this machine has 4 GiB. Given: 64.0",
        ),
    ],
    "precision": [(("--precision", "half"), "precision: must be one of complex64")],
    "checkpoint_seconds": [(("--checkpoint-seconds", "-1"), "checkpoint_seconds: must be a finite number")],
    "patience": [(("--patience", "-1"), "patience: must be an integer, at least 0")],
    "target_val_loss": [(("--target-val-loss", "low"), "target_val_loss: must be a loss such as 0.2")],
    "export_checkpoint": [(("--export-checkpoint", "first"), "export_checkpoint: must be one of last")],
    "continue_from": [
        (("--continue-from", "gs://name:password@bucket"), "continue_from: must be a path"),
        (("--continue-from", "nowhere"), "continue_from: the folder has no checkpoint. Given: nowhere"),
    ],
    "max_restarts": [(("--max-restarts", "-1"), "max_restarts: must be an integer, at least 0")],
    "heartbeat_timeout_seconds": [
        (("--heartbeat-timeout-seconds", "0"), "heartbeat_timeout_seconds: must be a finite")
    ],
    "log_every": [(("--log-every", "minute"), "log_every: must be one of epoch")],
    "profile_batches": [(("--profile-batches", "20-10"), "profile_batches: must be first-last")],
    "learning_rate_schedule": [
        (("--learning-rate-schedule", "steps"), "learning_rate_schedule: must be one of cosine")
    ],
    "warmup_fraction": [(("--warmup-fraction", "1"), "warmup_fraction: must be a finite number")],
    "readout_normalization": [(("--readout-normalization", "batch"), "readout_normalization: must be one of centered")],
    "initialization": [(("--initialization", "zeros"), "initialization: must be one of normal")],
    "initialization_scale": [(("--initialization-scale", "-1"), "initialization_scale: must be a finite number")],
    "num_initializations": [(("--num-initializations", "-1"), "num_initializations: must be an integer")],
    "shots": [(("--shots", "-1"), "shots: must be an integer, at least 0")],
    "noise": [
        (("--noise", "loud"), "noise: must be "),
        (("--noise", "depolarizing=0.1", "--simulator", "tfq"), "simulator: must be auto or density with noise"),
    ],
    "trajectories": [(("--trajectories", "1"), "trajectories: must be an integer, at least 2")],
    "gradient": [
        (("--gradient", "numeric"), "gradient: must be one of adjoint"),
        (("--gradient", "parameter_shift", "--simulator", "tfq"), "gradient: must be adjoint with simulator tfq"),
        (
            ("--gradient", "parameter_shift", "--model", "phases:incommensurable"),
            "gradient: parameter_shift needs gates",
        ),
    ],
    "feature_scaling": [(("--feature-scaling", "none"), "feature_scaling: must be minmax unless encoding is rx")],
    "max_samples": [(("--max-samples", "5"), "max_samples: must be 0 unless data is a file")],
    "chief": [(("--chief", "1", *ALONE), "chief: requires strategy multi_worker")],
    "ps": [(("--ps", "1"), "ps: requires strategy parameter_server")],
    "evaluator": [(("--evaluator", "1", *ALONE), "evaluator: requires several training processes")],
    "devices": [(("--devices", "2"), "devices: requires strategy mirrored or central_storage")],
    "reduction": [
        (("--reduction", "one_device"), "reduction: requires strategy mirrored"),
        (("--reduction", "nccl", "--strategy", "mirrored", "--workers", "1"), "reduction: this machine has no GPU"),
    ],
    "communication": [
        (("--communication", "ring", *ALONE), "communication: requires strategy multi_worker"),
        (("--communication", "nccl"), "communication: this machine has no GPU. Given: nccl"),
    ],
    "communication_timeout": [(("--communication-timeout", "9", *ALONE), "communication_timeout: requires strategy")],
    "inter_threads": [(("--inter-threads", "-1"), "inter_threads: must be an integer, at least 0")],
    "intra_threads": [(("--intra-threads", "-1"), "intra_threads: must be an integer, at least 0")],
    "placement_log": [(("--placement-log", "2"), "placement_log: must be an integer")],
    "visible_gpus": [
        (("--visible-gpus", "first"), "visible_gpus: must be indices"),
        (("--visible-gpus", "0,1"), "visible_gpus: this machine has no GPU. Given: 0,1"),
    ],
    "gpu_memory": [
        (("--gpu-memory", "all"), "gpu_memory: must be growth"),
        (("--gpu-memory", "growth"), "gpu_memory: this machine has no GPU. Given: growth"),
    ],
    "loss": [
        (("--loss", "hinge"), "loss: must be one of mse, cross_entropy"),
        (("--data", "annni"), "loss: must be cross_entropy with data annni, which has 3 classes. Given: mse"),
        (("--loss", "cross_entropy", "--target-val-loss", "floor+0.1"), "target_val_loss: the MSE lower bound is no"),
        (("--loss", "cross_entropy", "--noise", "depolarizing=0.1", "--qubits", "12"), "loss: must be mse with noise"),
    ],
    "observables": [(("--observables", "Z0*Z1"), "observables: must be empty unless model is a circuit file")],
    "inputs": [
        (
            ("--inputs", "x0,x1"),
            "encoding: must be circuit with a circuit that has inputs. Given: excitation with x0,x1",
        ),
    ],
    "feature_map": [
        (("--feature-map", "zz"), "qubits: must be 1 to 32768 and given with feature_map. Given: none"),
        (("--feature-map", "y", "--qubits", "4"), "feature_map: must be z, zz, iqp, with repetitions of"),
    ],
    "head": [
        (("--head", "logits"), "head: must be one of auto, expectation, probabilities, softmax, dense"),
        (("--head", "expectation"), "head: must be auto or dense with the 4 readouts of model hybrid"),
    ],
    "temperature": [
        (("--temperature", "0"), "temperature: must be a finite number, at least 0.01 and at most 100"),
        (("--temperature", "0.5"), "temperature: must be 1 unless head is probabilities or softmax"),
    ],
    "classes": [
        (("--classes", "101"), "classes: must be an integer, at least 0 and at most 100"),
        (("--classes", "2"), "classes: must be 0 unless loss is cross_entropy"),
        (("--classes", "3", "--loss", "cross_entropy"), "classes: must be 2 with data excitations"),
        (("--classes", "2", "--loss", "cross_entropy", "--data", "annni"), "classes: must be 3 with data annni"),
    ],
    "momentum": [
        (("--momentum", "1"), "momentum: must be a finite number, at least 0 and less than 1"),
        (("--momentum", "0.5"), "momentum: must be 0.9 unless optimizer is nesterov"),
    ],
    "baseline": [(("--baseline", "2"), "baseline: must be an integer, at least 0 and at most 1")],
    "steps_per_epoch": [(("--steps-per-epoch", "-1"), "steps_per_epoch: must be an integer, at least 0")],
}
CASES = [(flags, message) for cases in REJECTED.values() for flags, message in cases]
CIRCUIT = """
import cirq, numpy, sympy
from qcnn.circuits.circuits import Ansatz


class Phases(cirq.EigenGate):
    def _num_qubits_(self):
        return 2

    def _eigen_components(self):
        return [(phase, numpy.diag(numpy.eye(4)[level])) for level, phase in enumerate((0, 1, 2**0.5, 3))]


def incommensurable(qubits):
    first, second, *_ = qubits
    symbol = sympy.Symbol("a")
    return Ansatz(cirq.Circuit(Phases(exponent=symbol)(first, second)), (symbol,), (first,))
"""


def test_every_field_has_rejected_values() -> None:
    assert REJECTED.keys() == ALL_FIELDS.keys()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Machine without devices and kernels, with 4 GiB of memory and an empty working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(operating_system, "gpus", lambda: 0)
    monkeypatch.setattr(operating_system, "memory", lambda: Memory(2.0**32, 2.0**32))
    monkeypatch.setattr(kernels, "missing_reason", lambda: "of a test")
    for name in ("TPU_NAME", "KUBE_GOOGLE_CLOUD_TPU_ENDPOINTS"):
        monkeypatch.delenv(name, raising=False)
    # The experiments are rejected before a process is forked.
    monkeypatch.setenv(VARIABLE, "")


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize(("flags", "message"), CASES, ids=[" ".join(flags) for flags, _ in CASES])
def test_run_rejects_field_before_data(flags: tuple[str, ...], message: str, tmp_path: Path, typed: Typed) -> None:
    (tmp_path / "phases.py").write_text(CIRCUIT)
    code, out, err = typed("run", *flags)
    *lines, error = err.splitlines()
    assert (code, out) == (2, "")
    assert error.startswith(f"error: {message}")
    assert all(line.startswith(("statevector_cpu: of a test", "workers: ")) for line in lines)
    assert [path.name for path in tmp_path.iterdir() if path.suffix != ".pyc"] == ["phases.py"]


# The same experiment for each command, function and step.
FIELDS: dict[str, Any] = {"qubits": 20, "model": "deep", "simulator": "statevector", "simulator_memory_gib": 1e-3}
FLAGS = [part for name, value in FIELDS.items() for part in (f"--{name.replace('_', '-')}", str(value))]
LINE = "qubits: simulator statevector needs at least 112 MiB; simulator_memory_gib allows 1.02 MiB. Given: 20"
IMAGE = ("--image", "qcnn:1", "--dry-run")


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize(
    "command",
    [
        ("run",),
        ("study", "--grid", "seed=1,2"),
        ("plan",),
        ("plan", "--target", "tfjob"),
        ("submit", "--target", "tfjob", "--output", "gs://bucket/run", *IMAGE),
        ("schedule", "create", "--host", "http://localhost:1", "--interval", "1h", *IMAGE),
    ],
    ids=" ".join,
)
def test_every_command_rejects_experiment(command: tuple[str, ...], tmp_path: Path, typed: Typed) -> None:
    code, out, err = typed(*command, *FLAGS)
    assert (code, out) == (2, "")
    assert err.splitlines()[-1] == f"error: {LINE}"
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize(
    "function",
    [
        lambda experiment: qcnn.train(experiment, "folder"),
        lambda experiment: qcnn.study(experiment, grid={"seed": [1, 2]}, folder="folder"),
        qcnn.plan,
        lambda experiment: qcnn.requests(experiment, "tfjob", output="gs://bucket/run", image="qcnn:1"),
    ],
    ids=["train", "study", "plan", "requests"],
)
def test_every_function_rejects_experiment(function: Callable[[qcnn.Experiment], object], tmp_path: Path) -> None:
    experiment = qcnn.Experiment(**FIELDS)
    with pytest.raises(qcnn.ConfigError) as error:
        function(experiment)
    assert str(error.value) == LINE
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize(
    "step",
    [lambda: generate_data(FIELDS, "dataset"), lambda: plan_study(FIELDS, {"seed": [1, 2]}, {}, 0, {})],
    ids=["generate-data", "plan-study"],
)
def test_every_first_step_rejects_experiment(step: Callable[[], object], tmp_path: Path) -> None:
    with pytest.raises(qcnn.ConfigError) as error:
        step()
    assert str(error.value) == LINE
    assert not list(tmp_path.iterdir())
