"""Checks before data are generated: which belong to which place, and what this machine lacks."""

import contextlib
import sys
from pathlib import Path
from typing import Any

import pytest

import qcnn
from qcnn.errors import QcnnError
from qcnn.experiment.config import ExperimentConfig
from qcnn.experiment.parsing import from_mapping
from qcnn.planning.checks import (
    LOCAL,
    PLANNED,
    PLANNED_REMOTELY,
    STEP,
    SUBMITTED,
    Place,
    check_experiments,
    missing_cores,
    missing_kernels,
    missing_memory,
    on_gpus,
)
from qcnn.planning.memory import minimum_bytes
from qcnn.process import operating_system
from qcnn.process.operating_system import Memory
from qcnn.simulators import kernels
from qcnn.storage.copies import new_copy

GIB = 2.0**30
NO_COMPILER = "not compiled at installation, no C compiler (cc)"
# Fields that this machine cannot train, and those that no machine can train.
OF_MACHINE: dict[str, dict[str, Any]] = {
    "kernels": {"simulator": "statevector_cpu"},
    "gpu": {"gpu_memory": "growth"},
    "nccl": {"communication": "nccl"},
    "tpu": {"strategy": "tpu", "workers": 1},
    "checkpoint": {"continue_from": "nowhere"},
    "memory": {"workers": 40},
}
OF_EXPERIMENT: dict[str, dict[str, Any]] = {
    "memory of states": {"qubits": 20, "model": "deep", "simulator_memory_gib": 1e-5},
    "memory of a simulator": {"qubits": 20, "model": "deep", "simulator": "statevector", "simulator_memory_gib": 1e-3},
    "light cones": {"qubits": 256, "model": "deep", "simulator": "lightcone"},
}


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Machine without devices and kernels, with 4 GiB of memory and an empty working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(operating_system, "gpus", lambda: 0)
    monkeypatch.setattr(operating_system, "cores", lambda: 2)
    monkeypatch.setattr(operating_system, "memory", lambda: Memory(4 * GIB, 3 * GIB))
    monkeypatch.setattr(kernels, "missing_reason", lambda: NO_COMPILER)
    for name in ("TPU_NAME", "KUBE_GOOGLE_CLOUD_TPU_ENDPOINTS"):
        monkeypatch.delenv(name, raising=False)


def _check(fields: dict[str, Any], place: Place) -> list[str]:
    lines: list[str] = []
    check_experiments([from_mapping(fields)], place, lines.append)
    return lines


@pytest.mark.parametrize("fields", OF_EXPERIMENT.values(), ids=list(OF_EXPERIMENT))
@pytest.mark.parametrize("place", [LOCAL, PLANNED, PLANNED_REMOTELY, SUBMITTED, STEP])
def test_experiment_that_no_machine_trains_is_rejected(fields: dict[str, Any], place: Place) -> None:
    with pytest.raises(QcnnError, match=r"^qubits: "):
        _check(fields, place)


@pytest.mark.parametrize("fields", OF_MACHINE.values(), ids=list(OF_MACHINE))
def test_machine_is_checked_for_local_training_only(fields: dict[str, Any]) -> None:
    with pytest.raises(QcnnError):
        _check(fields, LOCAL)
    for place in (PLANNED_REMOTELY, SUBMITTED, STEP):
        assert _check(fields, place) == []


def test_plan_reports_shortage_that_a_run_is_rejected_for() -> None:
    kernels_line, cores_line, memory_line = _check({"workers": 40}, PLANNED)
    assert kernels_line == f"statevector_cpu: {NO_COMPILER}; auto selects another simulator"
    assert cores_line == "workers: 40 workers share 2 cores; more workers than cores do not shorten training"
    assert memory_line == "workers: 40 processes need at least 5.4 GiB of memory; this machine has 4 GiB"
    with pytest.raises(qcnn.ConfigError, match=rf"^{memory_line}\. Given: 40$"):
        _check({"workers": 40}, LOCAL)


def test_lines_of_several_experiments_are_reported_once() -> None:
    lines: list[str] = []
    experiments = [from_mapping({"workers": workers, "seed": seed}) for seed in range(3) for workers in (1, 3)]
    assert check_experiments(experiments, LOCAL, lines.append) == experiments
    assert [line.partition(":")[0] for line in lines] == ["statevector_cpu", "workers"]


def test_gpus_of_pods_reject_simulator_of_cpus() -> None:
    _check({"simulator": "statevector_cpu"}, on_gpus(SUBMITTED, 0))
    with pytest.raises(
        qcnn.ConfigError, match=r"^simulator: must be .* in processes with GPUs\. Given: statevector_cpu"
    ):
        _check({"simulator": "statevector_cpu"}, on_gpus(SUBMITTED, 1))


def test_module_of_circuit_is_imported_where_it_trains_only() -> None:
    for place in (LOCAL, PLANNED, STEP):
        with pytest.raises(qcnn.ConfigError, match=r"^model: cannot be imported"):
            _check({"model": "only_in_image:circuit"}, place)
    assert _check({"model": "only_in_image:circuit"}, SUBMITTED) == []


def test_states_on_gpus_need_no_memory_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    large = {"qubits": 27, "model": "deep", "simulator": "statevector", "simulator_memory_gib": 20.0}
    with pytest.raises(qcnn.ConfigError, match=r"^workers: 2 processes need at least .* Given: 2$"):
        _check(large, LOCAL)
    monkeypatch.setattr(operating_system, "gpus", lambda: 1)
    assert _check(large, LOCAL) == []


def test_visible_gpus_must_be_those_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operating_system, "gpus", lambda: 2)
    assert _check({"visible_gpus": "1,0", "simulator": "statevector"}, LOCAL) == []
    for numbers in ("2", "0,0"):
        with pytest.raises(
            qcnn.ConfigError, match=rf"^visible_gpus: must be different numbers below 2, .*: {numbers}$"
        ):
            _check({"visible_gpus": numbers}, LOCAL)


def test_tpu_is_searched_if_the_environment_names_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TPU_NAME", "local")
    assert _check({"strategy": "tpu", "workers": 1}, LOCAL) == []


@pytest.mark.long
def test_circuit_with_gate_that_tfq_lacks_is_rejected(tmp_path: Path) -> None:
    pytest.importorskip("tensorflow_quantum")
    circuit = "OPENQASM 3;\ninclude 'stdgates.inc';\ninput float w;\nqubit[4] q;\n"
    (tmp_path / "ccx.qasm").write_text(circuit.replace("'", '"') + "ry(w) q[0];\nccx q[0], q[1], q[2];\n")
    fields = dict(qcnn.Experiment(qubits=4, model="ccx.qasm", simulator="tfq").fields)
    tensorflow = "tensorflow" in sys.modules
    with pytest.raises(qcnn.ConfigError, match=r"^model: TensorFlow Quantum does not support this gate"):
        _check(fields, LOCAL)
    assert ("tensorflow" in sys.modules) == tensorflow


# A checkpoint of another experiment is known before data, too.
@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({}, None),
        ({"epochs": 9}, None),
        ({"learning_rate": 0.5}, "learning_rate: the folder's checkpoint was trained with 0.02"),
        ({"epochs": 1}, "epochs: the folder's checkpoint is already at epoch 3"),
    ],
)
def test_checkpoint_of_other_experiment_is_rejected(
    trained: Path, small_config: ExperimentConfig, changed: dict[str, Any], message: str | None
) -> None:
    values = {**small_config.model_dump(), **changed}
    values["options"] = {**values["options"], "continue_from": str(trained)}
    with contextlib.nullcontext() if message is None else pytest.raises(QcnnError, match=f"^{message}"):
        _check(values, LOCAL)


@pytest.mark.parametrize(
    ("processes", "needed", "memory", "line"),
    [
        (2, 3.0, Memory(4 * GIB, 3 * GIB), ""),
        (2, 3.5, Memory(4 * GIB, 3 * GIB), "workers: 2 processes need at least 3.5 GiB; 3 GiB of 4 GiB are available"),
        (2, 5.0, Memory(4 * GIB, 3 * GIB), "workers: 2 processes need at least 5 GiB; this machine has 4 GiB"),
        (
            1,
            5.0,
            Memory(4 * GIB, 4 * GIB, is_limited=True),
            "simulator_memory_gib: 1 process needs at least 5 GiB; the limit of this container is 4 GiB",
        ),
    ],
)
def test_missing_memory_names_available_memory(processes: int, needed: float, memory: Memory, line: str) -> None:
    assert missing_memory(processes, needed * GIB, memory) == line.replace("GiB;", "GiB of memory;")


def test_missing_cores_counts_workers() -> None:
    assert missing_cores(2, 2) == ""
    assert missing_cores(2, 1) == "workers: 2 workers share 1 core; more workers than cores do not shorten training"


@pytest.mark.parametrize(
    ("fields", "is_reported"),
    [
        ({}, True),
        ({"simulator": "statevector"}, False),
        ({"strategy": "parameter_server"}, False),
    ],
)
def test_missing_kernels_are_reported_where_auto_could_select_them(fields: dict[str, Any], is_reported: bool) -> None:
    if sys.platform == "linux":
        assert bool(missing_kernels(from_mapping(fields))) == is_reported


def test_forked_processes_share_libraries() -> None:
    forked, separate = (minimum_bytes(10, GIB, are_forked=are_forked) for are_forked in (True, False))
    assert minimum_bytes(1, 0.0, are_forked=True) == minimum_bytes(1, 0.0, are_forked=False)
    assert GIB < forked < 4 * GIB < 7 * GIB < separate


def test_checkpoints_in_bucket_are_found(rows: str, tmp_path: Path) -> None:
    bucket = rows.rpartition("/")[0]
    with pytest.raises(
        qcnn.ArtifactError, match=rf"^continue_from: the folder has no checkpoint\. Given: {bucket}/run$"
    ):
        _check({"continue_from": f"{bucket}/run"}, LOCAL)
    with new_copy(f"{bucket}/run", "history.csv") as folder:
        (folder / "checkpoints").mkdir(parents=True)
        (folder / "checkpoints" / "epoch-000003.npz").write_bytes(b"content")
    _check({"continue_from": f"{bucket}/run"}, LOCAL)
