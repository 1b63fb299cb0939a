"""Circuit files are embedded in experiments when an experiment is read."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import boto3
import cirq
import pytest
import sympy

from qcnn.circuits import circuits
from qcnn.circuits.ansatz import Ansatz, ring
from qcnn.circuits.formats import cirq_json
from qcnn.circuits.formats.embedded import embedded_inputs, model_display_name
from qcnn.circuits.formats.loading import circuit_field, embed_file, with_circuits, with_embedded_circuit
from qcnn.errors import ConfigError
from qcnn.experiment.parsing import from_mapping, with_circuit_read
from qcnn.process.installation import install_command
from qcnn.simulators.structure.gates import fingerprint
from qcnn.studies.trials import Search, plan
from tests.docs.documents import ROOT

QASM = 'OPENQASM 3.0;\ninclude "stdgates.inc";\ninput float a;\nqubit[2] q;\nrx(a) q[0];\ncx q[0], q[1];\n'
# cirq JSON in which the exponent 0.5 is replaced by 1/0.
NO_NUMBER = cirq.to_json(cirq.Circuit(cirq.X(cirq.LineQubit(0)) ** 0.5)).replace(
    "0.5", '{"cirq_type": "sympy.Rational", "p": 1, "q": 0}'
)


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "mine.qasm"
    path.write_text(QASM)
    return str(path)


def test_with_circuit_embeds_file(file: str) -> None:
    words = with_embedded_circuit({"model": file, "qubits": 5})
    assert words["qubits"] == 5
    text = words["model"]
    ansatz = circuits.build(text, 5)
    (a,), (first, second, *_) = sympy.symbols("a,"), circuits.ring(5)
    assert ansatz.circuit == cirq.Circuit(cirq.XPowGate(exponent=a, global_shift=-0.5)(first), cirq.CNOT(first, second))
    assert (ansatz.symbols, ansatz.readouts) == ((a,), (first, second))
    # The display name and the fingerprint have the same digits.
    assert model_display_name(text) == f"mine.qasm@{fingerprint(text, 5)[:8]}"
    assert with_circuit_read(from_mapping({"model": file})).model == text
    assert with_circuits({"model": ["hybrid", file], "seed": [1]}) == {"model": ["hybrid", text], "seed": [1]}


@pytest.mark.parametrize("words", [{"model": "hybrid"}, {"model": "a:b"}, {"model": 3}, {}])
def test_with_circuit_keeps_other_models(words: dict[str, object]) -> None:
    assert with_embedded_circuit(words) == words
    grids: tuple[object, ...] = (None, [], {"model": "hybrid"}, {"seed": [1]})
    for grid in grids:
        assert with_circuits(grid) is grid


def test_circuit_file_in_bucket_is_embedded(s3_server: str, monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    for name, value in {"ACCESS_KEY_ID": "key", "SECRET_ACCESS_KEY": "secret", "ENDPOINT_URL": s3_server}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    client = boto3.client("s3", region_name="us-east-1")
    client.create_bucket(Bucket="circuits")
    client.upload_file(file, "circuits", "folder/mine.qasm")
    client.upload_file(file, "circuits", "mine.qasm")
    for address in ("s3://circuits/folder/mine.qasm", "s3://circuits/mine.qasm"):
        assert embed_file(address) == embed_file(file)
    with pytest.raises(ConfigError, match=r"^model: no such file. Given: s3://circuits/other.qasm$"):
        embed_file("s3://circuits/other.qasm")


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (None, "no such file. "),
        (b"\xff\xff", "the file cannot be read ('utf-8' codec can't decode "),
        (b" " * 20_000_001, "the file must have at most 20000000 bytes. "),
        (NO_NUMBER.encode(), "the circuit must be serializable as cirq JSON (Object of type Complex"),
    ],
)
def test_invalid_circuit_file_is_rejected(tmp_path: Path, content: bytes | None, line: str) -> None:
    path = tmp_path / "mine.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError) as error:
        embed_file(str(path))
    assert str(error.value).startswith(f"model: {line}")
    assert str(error.value).endswith(f"Given: {path}")


def test_qiskit_is_required_for_files_only(file: str) -> None:
    program = """
import sys
sys.modules["qiskit"] = sys.modules["openqasm3"] = None
from qcnn.errors import ConfigError
from qcnn.circuits.circuits import build
from qcnn.circuits.formats.loading import embed_file
text, *files = sys.argv[1:]
print(len(build(text, 4).readouts))
for file in files:
    try:
        embed_file(file)
    except ConfigError as error:
        print(error)
"""
    old = Path(file).with_name("old.qasm")
    old.write_text("OPENQASM 2.0;\nqreg q[1];\n")
    done = subprocess.run(
        [sys.executable, "-c", program, embed_file(file), file, str(old)], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [
        "2",
        f"model: needs Qiskit's reader of OpenQASM 3, which is not installed: {install_command('run')}. Given: {file}",
        f"model: needs Qiskit, which is not installed: {install_command('run')}. Given: {old}",
    ]


def test_first_step_embeds_circuit_uri(file: str, tmp_path: Path) -> None:
    # Imported here, because the other tests need no steps.
    from qcnn.components.steps.dataset import generate_data
    from qcnn.components.steps.study import plan_study

    experiment, metadata = generate_data({"model": file, "qubits": 4, "rounds": 5}, str(tmp_path / "dataset"))
    assert json.loads(experiment)["model"] == embed_file(file) == json.loads(metadata["experiment"])["model"]
    trials = plan_study({"qubits": 4}, {"model": [file, "hybrid"]}, {}, 0, {})
    assert [json.loads(trial)["model"] for trial in trials] == [embed_file(file), "hybrid"]


@pytest.mark.long
def test_worker_trains_with_circuit_file(tmp_path: Path) -> None:
    example = str(ROOT / "examples" / "stabilizers.qasm")
    experiment = {"model": example, "workers": 1, "strategy": "none", "options": {"num_initializations": 1}}
    command = [
        sys.executable,
        "-m",
        "qcnn.trainer.worker",
        "--experiment",
        json.dumps(experiment),
        "--profiler-port",
        "0",
    ]
    places = [
        "--workdir",
        str(tmp_path / "work"),
        "--logs",
        str(tmp_path / "logs"),
        "--export",
        str(tmp_path / "model"),
    ]
    done = subprocess.run([*command, *places], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    description = json.loads((tmp_path / "model" / "model.json").read_text())
    assert description["experiment"]["model"] == embed_file(example)
    # The MSE lower bound of a + b cos + c sin is 0.1894 on freshly sampled data.
    assert description["training"]["val_loss"] < 0.25
    assert "stabilizers.qasm#" not in done.stdout + done.stderr


def _trials(fields: dict[str, Any], grid: dict[str, list[Any]]) -> list[str]:
    """Return the circuits of the trials of a study."""
    shared = with_embedded_circuit(fields, varied=list(grid))
    return [each.model for each in plan(shared, Search(grid=with_circuits(grid, circuit_field(shared, "inputs"))))]


def test_feature_map_precedes_the_circuit_of_every_trial() -> None:
    fields = {"qubits": 4, "feature_map": "zz,repetitions=1", "encoding": "circuit", "data": "x.csv"}
    alone = {
        (model, qubits): from_mapping({**fields, "model": model, "qubits": qubits}).model
        for model in ("hybrid", "deep")
        for qubits in (4, 5)
    }
    assert all(embedded_inputs(text) == tuple(f"x{k}" for k in range(qubits)) for (_, qubits), text in alone.items())
    grid: dict[str, list[Any]] = {"model": ["hybrid", "deep"], "qubits": [4, 5]}
    assert _trials(fields, grid) == [alone[model, qubits] for model in ("hybrid", "deep") for qubits in (4, 5)]
    assert _trials(fields, {"qubits": [5, 4]}) == [alone["hybrid", 5], alone["hybrid", 4]]
    # The map of a trial replaces that of the study.
    maps = ["z", "zz,repetitions=1"]
    found = _trials({**fields, "feature_map": "iqp"}, {"feature_map": maps})
    assert found == [from_mapping({**fields, "feature_map": each}).model for each in maps]


def test_observables_apply_to_the_circuit_of_every_trial(tmp_path: Path) -> None:
    files = [str(tmp_path / name) for name in ("a.json", "b.json")]
    for file, angle in zip(files, (0.5, 0.25), strict=True):
        (qubit,) = ring(1)
        circuit = cirq.Circuit(cirq.X(qubit) ** sympy.Symbol("s"), cirq.Y(qubit) ** angle)
        Path(file).write_text(cirq_json.to_json(Ansatz(circuit, sympy.symbols("s,"), (qubit,))))
    fields = {"qubits": 1, "rounds": 40, "model": files[0], "observables": "X0"}
    found = _trials(fields, {"model": files})
    assert found == [from_mapping(with_embedded_circuit({**fields, "model": file})).model for file in files]
    assert len(set(found)) == 2
