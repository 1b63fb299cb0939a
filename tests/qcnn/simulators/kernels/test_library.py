"""Entries of the compiled kernels, called without TensorFlow, and errors of their handlers."""

import ctypes
import dataclasses
import resource
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import psutil
import pytest
import tensorflow as tf

from qcnn import simulators
from qcnn.circuits import circuits
from qcnn.circuits.preparation import Preparation
from qcnn.simulators import SimulatorLimits, kernels
from qcnn.simulators.kernels import library
from qcnn.simulators.kernels.encoding import EncodedProgram, encode
from qcnn.simulators.kernels.program import build
from qcnn.simulators.structure.gates import read_network
from qcnn.testing.steps import step
from tests.qcnn.simulators.test_statevector_cpu import by_cirq, layered

pytestmark = pytest.mark.skipif(bool(kernels.missing_reason()), reason="the kernels cannot run here")
QUBITS, LANES = 5, 4
ANSATZ, PREPARATION = layered(QUBITS, 2), Preparation("ry", QUBITS)
VALUES = np.linspace(0, 2, len(ANSATZ.symbols))


def program_of(qubits: int, layers: int) -> EncodedProgram:
    network = read_network(layered(qubits, layers), circuits.ring(qubits), Preparation("ry", qubits))
    return encode(build(network), network.parameters, norms=False)


def addresses(*arrays: npt.NDArray[Any] | None) -> list[ctypes.c_void_p]:
    return [ctypes.c_void_p(None if array is None else array.ctypes.data) for array in arrays]


def leaves_of(angles: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the states of the qubits of samples, (bundles, 2 qubits, 2, lanes)."""
    states = np.stack([np.cos(angles / 2), np.sin(angles / 2)], axis=-1).reshape(-1, LANES, 2 * angles.shape[1], 1)
    return np.ascontiguousarray(np.concatenate([states, 0 * states], axis=3).transpose(0, 2, 3, 1))


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("bundles", [1, 3])
def test_plain_entries_equal_cirq_and_tensorflow(bundles: int, keep: bool) -> None:
    program, samples, entries = program_of(QUBITS, 2), LANES * bundles, ctypes.CDLL(str(kernels.LIBRARY))
    random = np.random.default_rng(3)
    # float32 angles, because TensorFlow's features are.
    angles = random.uniform(-np.pi, np.pi, (samples, QUBITS)).astype(np.float32).astype(np.float64)
    weights, leaves = random.normal(size=(samples, QUBITS)), leaves_of(angles)
    values = np.zeros((bundles, QUBITS, LANES))
    kept = np.zeros(bundles * program.rows * 2 * LANES + 16) if keep else None
    sizes = ctypes.c_size_t(bundles), ctypes.c_size_t(2), 0
    called = addresses(program.integers, program.constants), addresses(VALUES, leaves)
    assert entries.qcnn_forward_double(*called[0], *sizes, *called[1], *addresses(values, kept)) == 0
    readouts = values.transpose(0, 2, 1).reshape(samples, QUBITS)
    np.testing.assert_allclose(readouts, [by_cirq(ANSATZ, QUBITS, VALUES, each) for each in angles], atol=1e-8)

    gradient, of_leaves = np.zeros(len(VALUES)), np.zeros_like(leaves)
    upstream = np.ascontiguousarray(weights.reshape(bundles, LANES, QUBITS).transpose(0, 2, 1))
    results = addresses(upstream, kept, gradient, of_leaves)
    assert entries.qcnn_backward_double(*called[0], *sizes, *called[1], *results) == 0
    limits = SimulatorLimits(2**30, samples, real_bytes=8)
    simulator = simulators.create("statevector_cpu", ANSATZ, circuits.ring(QUBITS), limits, PREPARATION)
    batch = simulators.ProductStateBatch(tf.constant(angles, tf.float32))
    _, expected = step(simulator, VALUES, batch, weights, compiled=True)
    np.testing.assert_allclose(gradient, expected, atol=1e-12)
    # The states of the first qubit of the first sample are cos and sin of half its angle.
    along = of_leaves[0, 0, 0, 0] * -np.sin(angles[0, 0] / 2) / 2 + of_leaves[0, 1, 0, 0] * np.cos(angles[0, 0] / 2) / 2
    near = [by_cirq(ANSATZ, QUBITS, VALUES, angles[0] + step * np.eye(QUBITS)[0]) for step in (1e-4, -1e-4)]
    assert along == pytest.approx(np.dot(weights[0], near[0] - near[1]) / 2e-4, abs=1e-6)


@pytest.fixture
def little_memory() -> Iterator[None]:
    """Limit of 64 MiB more memory than this process has."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (psutil.Process().memory_info().vms + 2**26, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit the address space")
def test_entries_report_lack_of_memory(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    # A copy has no memory of earlier calls.
    entries = ctypes.CDLL(str(shutil.copy(kernels.LIBRARY, tmp_path)))
    qubits, program = 21, program_of(21, 1)
    leaves, values, gradient = leaves_of(np.zeros((LANES, qubits))), np.zeros((qubits, LANES)), np.zeros(2 * qubits)
    sizes = ctypes.c_size_t(1), ctypes.c_size_t(2), 0
    called = *addresses(program.integers, program.constants), *sizes, *addresses(gradient, leaves)
    results = addresses(values, None)
    request.getfixturevalue("little_memory")
    assert entries.qcnn_forward_double(*called, *results) == 1
    assert entries.qcnn_backward_double(*called, *results, *addresses(gradient, None)) == 1


def call(program: EncodedProgram, parameters: int, threads: kernels.Threads) -> tf.Tensor:
    states = tf.constant(leaves_of(np.zeros((LANES, QUBITS))))
    forward = tf.function(
        lambda values: library.forward(program, threads, values, states, keep=False), jit_compile=True, autograph=False
    )
    return forward(tf.zeros(parameters, tf.float64))[0]


SINGLE = kernels.Threads(1, False)


@pytest.mark.parametrize(
    ("changes", "parameters", "threads", "wrong"),
    [
        ({}, len(VALUES) - 1, SINGLE, "wrong type or shape of the parameters"),
        ({"integers": program_of(QUBITS, 2).integers[:40]}, len(VALUES), SINGLE, "of the integers of the program"),
        ({"readouts": QUBITS + 1}, len(VALUES), SINGLE, "wrong type or shape of the values"),
        ({}, len(VALUES), kernels.Threads(0, False), "wrong attributes"),
        ({}, len(VALUES), kernels.Threads(65, False), "wrong attributes"),
    ],
)
def test_call_that_does_not_fit_program_is_one_line(
    changes: dict[str, Any], parameters: int, threads: kernels.Threads, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.register()
    monkeypatch.setattr(library, "MIN_THREAD_WORK", 0)
    program = program_of(QUBITS, 2)
    assert call(program, len(VALUES), SINGLE).shape == (1, QUBITS, LANES)
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        call(dataclasses.replace(program, **changes), parameters, threads)
    assert str(error.value).startswith("kernels of statevector_cpu: ")
    assert wrong in str(error.value)
    assert len(str(error.value).splitlines()) == 1
