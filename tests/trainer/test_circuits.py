import cirq
import pytest

from trainer import circuits
from trainer.errors import ConfigError


@pytest.mark.parametrize("qubits", [2, 3, 4, 5, 8, 11])
def test_convolution_joins_every_neighbouring_pair_once(qubits: int) -> None:
    ring = circuits.ring(qubits)
    layer = circuits.convolution(ring, circuits._symbols(1))
    pairs = [op.qubits for op in layer.all_operations() if isinstance(op.gate, cirq.ZZPowGate)]
    assert sorted(pairs) == sorted((ring[i], ring[(i + 1) % qubits]) for i in range(qubits))


@pytest.mark.parametrize(("qubits", "readouts"), [(4, 2), (5, 3), (8, 4), (11, 6)])
def test_hybrid_reads_out_the_second_half(qubits: int, readouts: int) -> None:
    ansatz = circuits.build("hybrid", qubits)
    assert ansatz.readouts == tuple(circuits.ring(qubits)[qubits - readouts :])
    assert len(ansatz.symbols) == 21


@pytest.mark.parametrize(("qubits", "layers"), [(4, 2), (5, 3), (8, 3), (9, 4), (11, 4), (16, 4)])
def test_deep_reads_out_the_last_qubit_for_any_number_of_qubits(qubits: int, layers: int) -> None:
    ansatz = circuits.build("deep", qubits)
    assert ansatz.readouts == (circuits.ring(qubits)[-1],)
    assert len(ansatz.symbols) == 21 * layers
    assert cirq.parameter_names(ansatz.circuit) == {symbol.name for symbol in ansatz.symbols}


def test_a_users_own_circuit_is_imported_by_name() -> None:
    assert circuits.build("tests.trainer.test_circuits:reread", 6).readouts == tuple(circuits.ring(6))


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ("tests.no_such_module:f", "cannot be imported"),
        ("tests.trainer.test_circuits:missing", "cannot be imported"),
        ("tests.trainer.test_circuits:nothing", "must return"),
        ("tests.trainer.test_circuits:forgets_symbols", "symbols must list"),
        ("tests.trainer.test_circuits:leaves_ring", "stay on the ring"),
    ],
)
def test_a_users_circuit_that_cannot_be_used_is_refused(model: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=rf"^model: .*{reason}.*Given: ") as error:
        circuits.build(model, 6)
    assert "\n" not in str(error.value)


def reread(qubits: list[cirq.Qid]) -> circuits.Ansatz:
    symbols = circuits._symbols(1)
    return circuits.Ansatz(circuits.convolution(qubits, symbols[:15]), symbols[:15], tuple(qubits))


def nothing(qubits: list[cirq.Qid]) -> None:
    return None


def forgets_symbols(qubits: list[cirq.Qid]) -> circuits.Ansatz:
    return circuits.Ansatz(reread(qubits).circuit, (), tuple(qubits))


def leaves_ring(qubits: list[cirq.Qid]) -> circuits.Ansatz:
    return circuits.Ansatz(cirq.Circuit(cirq.H(cirq.LineQubit(0))), (), tuple(qubits))
