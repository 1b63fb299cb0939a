import contextlib
import os
import signal
import sys
from pathlib import Path

import cirq
import numpy as np
import pytest
import sympy

from qcnn.circuits import circuits
from qcnn.errors import ConfigError
from qcnn.testing.cirq_readouts import readouts_of_excitations
from tests import reference


@pytest.mark.parametrize("qubits", [2, 3, 4, 5, 8, 11])
def test_convolution_acts_once_on_each_adjacent_pair(qubits: int) -> None:
    ring = circuits.ring(qubits)
    layer = circuits.convolution(ring, circuits._symbols(1))
    pairs = [op.qubits for op in layer.all_operations() if isinstance(op.gate, cirq.ZZPowGate)]
    assert sorted(pairs) == sorted((ring[i], ring[(i + 1) % qubits]) for i in range(qubits))


@pytest.mark.parametrize(("qubits", "readouts"), [(4, 2), (5, 3), (8, 4), (11, 6)])
def test_hybrid_reads_out_second_half(qubits: int, readouts: int) -> None:
    ansatz = circuits.build("hybrid", qubits)
    assert ansatz.readouts == tuple(circuits.ring(qubits)[qubits - readouts :])
    assert len(ansatz.symbols) == 21


@pytest.mark.parametrize(("qubits", "layers"), [(4, 2), (5, 3), (8, 3), (9, 4), (11, 4), (16, 4)])
def test_deep_reads_out_last_qubit(qubits: int, layers: int) -> None:
    ansatz = circuits.build("deep", qubits)
    assert ansatz.readouts == (circuits.ring(qubits)[-1],)
    assert len(ansatz.symbols) == 21 * layers
    assert cirq.parameter_names(ansatz.circuit) == {symbol.name for symbol in ansatz.symbols}


@pytest.mark.parametrize("model", ["hybrid", "deep"])
def test_large_circuits_share_gates_and_moments(model: str) -> None:
    """Pairs share one gate object. Otherwise, building and parsing take minutes."""
    layers = 1 if model == "hybrid" else 10
    circuit = circuits.build(model, 1024).circuit
    assert len({id(operation.gate) for operation in circuit.all_operations()}) <= 50 * layers
    assert len(circuit) <= 35 * layers


def test_custom_circuit_is_imported_by_name() -> None:
    assert circuits.build("tests.qcnn.circuits.test_circuits:reread", 6).readouts == tuple(circuits.ring(6))


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        ("missing", "cannot be imported or fails (AttributeError: "),
        ("exits", "cannot be imported or fails (SystemExit: 3)"),
        ("interrupts", "cannot be imported or fails (KeyboardInterrupt: of mine)"),
        ("raises_at_length", "cannot be imported or fails (ValueError: first second third "),
        ("raises_what_cannot_be_written", "cannot be imported or fails (Unwritable: "),
        ("nothing", "must return qcnn.circuits.circuits.Ansatz. Given: NoneType"),
        ("no_circuit", "circuit must be a cirq.Circuit. Given: ["),
        ("names_of_symbols", "symbols must be of sympy.Symbol. Given: 'a'"),
        ("one_name_twice", "symbols must list each name once. Given: a again"),
        ("no_readouts", "readouts must name at least one qubit. Given: none"),
        ("numbers_as_readouts", "readouts must be qubits, or cirq.PauliString or cirq.PauliSum of qubits. Given: 3"),
    ],
)
def test_invalid_custom_circuit_is_rejected(function: str, reason: str) -> None:
    with pytest.raises(ConfigError) as error:
        circuits.build(f"tests.qcnn.circuits.test_circuits:{function}", 6)
    message = str(error.value)
    assert message.startswith(f"model: {reason}")
    assert "Given: " in message
    assert "\n" not in message
    assert len(message) < 500


def test_module_with_import_error_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ends_at_once.py").write_text("raise SystemExit('enough')\n")
    monkeypatch.syspath_prepend(tmp_path)
    for module, reason in (("tests.no_such_module", "ModuleNotFoundError"), ("ends_at_once", "SystemExit: enough")):
        with pytest.raises(ConfigError, match=rf"^model: cannot be imported or fails \({reason}.*Given: {module}:f$"):
            circuits.build(f"{module}:f", 6)


@pytest.mark.parametrize("function", ["is_interrupted", "swallows_the_interrupt", "turns_the_interrupt_into_an_error"])
def test_ctrl_c_in_custom_function_interrupts(function: str, monkeypatch: pytest.MonkeyPatch) -> None:
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            circuits.build(f"tests.qcnn.circuits.test_circuits:{function}", 6)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, previous)


def reread(qubits: list[cirq.Qid]) -> circuits.Ansatz:
    symbols = circuits._symbols(1)
    return circuits.Ansatz(circuits.convolution(qubits, symbols[:15]), symbols[:15], tuple(qubits))


def nothing(qubits: list[cirq.Qid]) -> None:
    return None


def exits(qubits: list[cirq.Qid]) -> None:
    sys.exit(3)


def interrupts(qubits: list[cirq.Qid]) -> None:
    raise KeyboardInterrupt("of mine")


def raises_at_length(qubits: list[cirq.Qid]) -> None:
    raise ValueError("first\n  second\n\tthird " + "x" * 10**6)


class Unwritable(Exception):  # noqa: N818 - as users name theirs
    def __str__(self) -> str:
        raise ZeroDivisionError

    __repr__ = __str__


def raises_what_cannot_be_written(qubits: list[cirq.Qid]) -> None:
    raise Unwritable


def is_interrupted(qubits: list[cirq.Qid]) -> None:
    os.kill(os.getpid(), signal.SIGINT)
    # Wait until the interpreter handles the signal.
    while True:
        pass


def swallows_the_interrupt(qubits: list[cirq.Qid]) -> circuits.Ansatz:
    with contextlib.suppress(KeyboardInterrupt):
        is_interrupted(qubits)
    return reread(qubits)


def turns_the_interrupt_into_an_error(qubits: list[cirq.Qid]) -> None:
    try:
        is_interrupted(qubits)
    except KeyboardInterrupt:
        raise SystemExit(1) from None


A = sympy.Symbol("a")


def no_circuit(qubits: list[cirq.Qid]) -> circuits.Ansatz:
    return circuits.Ansatz([cirq.X(qubits[0]) ** A], (A,), tuple(qubits))  # type: ignore[arg-type]


def names_of_symbols(qubits: list[cirq.Qid]) -> circuits.Ansatz:
    return circuits.Ansatz(cirq.Circuit(cirq.X(qubits[0]) ** A), ("a",), tuple(qubits))


def one_name_twice(qubits: list[cirq.Qid]) -> circuits.Ansatz:
    symbols = (A, sympy.Symbol("a", real=True))
    return circuits.Ansatz(cirq.Circuit(cirq.X(qubits[0]) ** A), symbols, tuple(qubits))


def no_readouts(qubits: list[cirq.Qid]) -> circuits.Ansatz:
    return circuits.Ansatz(cirq.Circuit(cirq.X(qubits[0]) ** A), (A,), ())


def numbers_as_readouts(qubits: list[cirq.Qid]) -> circuits.Ansatz:
    return circuits.Ansatz(cirq.Circuit(cirq.X(qubits[0]) ** A), (A,), (3,))  # type: ignore[arg-type]


def test_ansatz_accepts_frozen_circuit_and_lists() -> None:
    ring = circuits.ring(4)
    circuit = cirq.FrozenCircuit(cirq.X(ring[0]) ** A)
    ansatz = circuits.Ansatz(circuit, [A], ring)
    assert (ansatz.circuit, ansatz.symbols, ansatz.readouts) == (circuit.unfreeze(), (A,), tuple(ring))


@pytest.mark.parametrize("qubits", range(4, 13))
@pytest.mark.parametrize("model", ["hybrid", "deep"])
def test_models_equal_published_description(model: str, qubits: int) -> None:
    """The contract of simulators compares them with these circuits."""
    random, ansatz = np.random.default_rng(qubits), circuits.build(model, qubits)
    values = random.uniform(0, 2, len(ansatz.symbols))
    excited, angles = [*range(qubits), 1], random.uniform(-np.pi, np.pi, qubits + 1).tolist()
    expected = [reference.expectations(model, qubits, values, *each) for each in zip(excited, angles, strict=True)]
    found = readouts_of_excitations(ansatz, qubits, values, excited, angles)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
