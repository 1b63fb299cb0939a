"""Circuits from memory as models of experiments."""

import pickle
from pathlib import Path

import cirq
import pytest
import sympy
from qiskit import QuantumCircuit
from qiskit.circuit import Parameter, ParameterVector

import qcnn
from qcnn.circuits import circuits
from qcnn.circuits.ansatz import ring
from qcnn.circuits.formats import cirq_json, export
from qcnn.simulators.structure.gates import fingerprint

Q = ring(4)
S, T = sympy.symbols("s t")


def _circuit() -> cirq.Circuit:
    return cirq.Circuit(
        cirq.rx(sympy.pi * S)(Q[0]), cirq.CNOT(Q[0], Q[1]), cirq.ry(sympy.pi * T)(Q[1]), cirq.measure(Q[1])
    )


def _of_qiskit() -> QuantumCircuit:
    circuit = QuantumCircuit(2, 1)
    circuit.rx(Parameter("first"), 0)
    circuit.cx(0, 1)
    circuit.ry(Parameter("second"), 1)
    circuit.measure(1, 0)
    return circuit


def _parts(model: object) -> tuple[str, str]:
    experiment = qcnn.Experiment(model=model, qubits=4)
    return experiment.model.partition("#")[0], fingerprint(experiment.model, 4)


def test_equal_circuits_have_equal_fingerprints(tmp_path: Path) -> None:
    def mine(qubits: list[cirq.GridQubit]) -> qcnn.Ansatz:
        return qcnn.Ansatz(_circuit()[:-1], [S, T], [qubits[1]])

    (tmp_path / "mine.json").write_text(cirq.to_json(_circuit()))
    models = {
        "circuit.json": qcnn.Ansatz(_circuit()[:-1], [S, T], [Q[1]]),
        "mine.json": mine,
        "lambda.json": lambda qubits: _circuit(),
    }
    found = {name: _parts(model) for name, model in models.items()}
    assert {name: each[0] for name, each in found.items()} == {name: name for name in models}
    prints = {each[1] for each in found.values()} | {_parts(_circuit())[1], _parts(tmp_path / "mine.json")[1]}
    assert len(prints) == 1


def test_qiskit_circuit_qpy_and_openqasm_are_equal(tmp_path: Path) -> None:
    of_qiskit = _parts(_of_qiskit())[1]
    ansatz = circuits.build(qcnn.Experiment(model=_of_qiskit(), qubits=4).model, 4)
    for name in ("written.qpy", "written.qasm"):
        export.write(ansatz, Q[:2], tmp_path / name, 3, ())
        assert _parts(tmp_path / name) == (name, of_qiskit)


def test_parameters_of_qiskit_keep_their_order() -> None:
    weights = ParameterVector("w", 11)
    circuit = QuantumCircuit(2)
    for number in (10, *range(10)):
        circuit.ry(weights[number] / 2, number % 2)
    model = qcnn.Experiment(model=circuit, qubits=4).model
    ansatz = circuits.build(model, 4)
    assert [symbol.name for symbol in ansatz.symbols] == [f"w[{number}]" for number in range(11)]
    assert ansatz.readouts == tuple(Q[:2])


def test_experiment_with_circuit_is_plain_and_can_be_pickled() -> None:
    experiment = qcnn.Experiment(model=_circuit(), qubits=4)
    assert pickle.loads(pickle.dumps(experiment)) == experiment
    assert qcnn.Experiment(**experiment.fields) == experiment
    changed = experiment.replace(observables="Z0*Z1")
    (readout,) = circuits.build(changed.model, 4).readouts
    assert not isinstance(readout, cirq.Qid)
    named = cirq_json.to_json(qcnn.Ansatz(cirq.Circuit(cirq.X(cirq.NamedQubit("b"))), (), [cirq.NamedQubit("a")]))
    assert "NamedQubit" in named


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (3, "must be a name, a file, a qcnn.Ansatz, a cirq.Circuit, a qiskit.QuantumCircuit, or a function"),
        (lambda qubits: 1 / 0, r"the function fails \(ZeroDivisionError: division by zero\)\. Given: lambda$"),
        (lambda qubits: None, "must be a name, a file, .*. Given: None"),
        ("__main__:mine", "must be one of hybrid, deep, or a custom circuit"),
        (QuantumCircuit(), "the circuit must have qubits"),
        (cirq.Circuit(cirq.XPowGate(dimension=3)(cirq.LineQid(0, 3))), "qubits must have two levels"),
    ],
    ids=["number", "failing", "returns nothing", "program", "empty", "three levels"],
)
def test_other_models_are_one_clear_error(model: object, message: str) -> None:
    with pytest.raises(qcnn.ConfigError, match=f"^model: {message}"):
        qcnn.Experiment(model=model, qubits=4)


def test_damaged_qpy_is_one_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "broken.qpy"
    path.write_bytes(b"QISKIT\x0d\x00")
    with pytest.raises(qcnn.ConfigError, match=r"^model: the file must be valid QPY \(.*\)\. Given: .*broken\.qpy$"):
        qcnn.Experiment(model=path, qubits=4)
