"""Tests of qcnn circuit."""

import hashlib
import json
import re
import sys
import unittest.mock
import warnings
from pathlib import Path

import h5py
import numpy as np
import pytest
from qiskit import qasm3, qpy
from qiskit.quantum_info import Pauli, Statevector

from qcnn.artifact_io import save_description
from qcnn.circuits import circuits
from qcnn.circuits.formats import cirq_json
from qcnn.circuits.formats.loading import embed_file
from qcnn.experiment.parsing import from_mapping
from qcnn.simulators.registry import SIMULATORS
from qcnn.simulators.structure.gates import fingerprint
from qcnn.testing.cirq_readouts import readouts_of_excitation
from tests.docs.documents import ROOT
from tests.qcnn.cli.conftest import Typed

FILE = str(ROOT / "examples" / "stabilizers.qasm")
VALUES = np.array([0.9, 0.1, -0.4])


@pytest.fixture
def trained(tmp_path: Path) -> str:
    """Create a model folder with a circuit and its trained parameters."""
    folder = tmp_path / "model"
    folder.mkdir()
    with h5py.File(folder / "qcnn.weights.h5", "w") as file:
        file["layers/quantum_layer/vars/0"] = VALUES
    config = from_mapping({"model": embed_file(FILE)})
    description = {
        "experiment": config.model_dump(),
        "dataset_digest": "",
        "training": {},
        "circuit": fingerprint(config.model, config.qubits),
        "weights_sha256": hashlib.sha256((folder / "qcnn.weights.h5").read_bytes()).hexdigest(),
    }
    save_description(description, folder / "model.json")
    return str(folder)


def test_circuit_prints_drawing_counts_and_simulator(typed: Typed) -> None:
    code, text, _ = typed("circuit", FILE)
    assert code == 0
    assert re.match(r"stabilizers.qasm@[0-9a-f]{8}: 8 qubits, 3 parameters, 8 readouts\n", text)
    assert "Y^turn" in text
    assert "24 gates: 8 CZPow, 8 ZPow, 8 YPow\n" in text
    assert "parameters: strength, phase_shift, turn\n" in text
    assert "readouts: qubits 0, 1, 2, 3, 4, 5, 6, 7\n" in text
    assert re.search(
        r"^8 readouts, \d of them distinct; independent parts of their light cones, .*: \d qubits", text, re.M
    )
    assert re.search(r"^lightcone +[\d.e+]+ .*selected$", text, re.M)
    assert text.endswith("\nsimulator lightcone, the cheapest that is exact and fits in memory\n")


def test_circuit_file_is_embedded_and_read_once(typed: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    with unittest.mock.patch.object(cirq_json, "read", wraps=cirq_json.read) as read:
        assert typed("circuit", FILE)[0] == 0
    read.assert_called_once()


def test_drawing_ends_at_width_of_terminal(typed: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    piped = typed("circuit", FILE)[1]
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    shown = typed("circuit", FILE)[1]
    lines = shown.splitlines()[2:]
    drawing = lines[: lines.index("")]
    assert max(map(len, drawing)) == 40
    assert all(
        line == whole or line == f"{whole[:39]}…" for line, whole in zip(drawing, piped.splitlines()[2:], strict=False)
    )
    assert "lines end at the width of the terminal; pipe them to less -S, or draw them with --image FILE\n" in shown
    assert "lines end at" not in piped


def test_drawing_of_deep_circuit_names_the_export(typed: Typed, tmp_path: Path) -> None:
    gates = "".join(f"rx({number}.5) q[0]; h q[1]; cx q[0], q[1];\n" for number in range(200))
    (file := tmp_path / "long.qasm").write_text(f'OPENQASM 2.0;\ninclude "qelib1.inc";\nqreg q[2];\n{gates}')
    code, text, _ = typed("circuit", str(file), "--export", str(tmp_path / "whole.json"))
    assert code == 0
    assert "\nnot all gates are drawn; --export FILE writes them all\n" in text
    assert "\n600 gates: " in text
    assert len(circuits.build(embed_file(str(tmp_path / "whole.json")), 4).circuit) >= 400
    assert "not all gates" not in typed("circuit", FILE)[1]


@pytest.mark.parametrize(
    ("arguments", "qubits", "simulator"),
    [
        (("hybrid", "--qubits", "64"), 64, "lightcone"),
        (("deep", "--qubits", "5"), 5, "statevector_cpu"),
        ((FILE, "--qubits", "12"), 12, "lightcone"),
        (("tests.qcnn.circuits.test_circuits:reread",), 8, "lightcone"),
    ],
)
def test_circuit_as_json(typed: Typed, arguments: tuple[str, ...], qubits: int, simulator: str) -> None:
    found = json.loads(typed("circuit", *arguments, "--format", "json")[1])
    assert (found["qubits"], found["simulator"], found["values"], found["refusal"]) == (qubits, simulator, None, "")
    assert found["depth"] >= found["fused_depth"] >= 1
    assert sum(found["gates"].values()) >= found["blocks"]
    assert list(found["simulators"]) == list(SIMULATORS)


def test_circuit_without_simulator_prints_reason(typed: Typed) -> None:
    code, text, _ = typed("circuit", "deep", "--qubits", "512")
    assert code == 0
    assert "light cones: too wide for any memory" in text
    assert "qubits: no simulator can run this circuit in 2 GiB (simulator_memory_gib); " in text


def test_export_of_trained_model_contains_values(typed: Typed, trained: str, tmp_path: Path) -> None:
    found = json.loads(typed("circuit", trained, "--format", "json")[1])
    assert found["values"] == dict(zip(("strength", "phase_shift", "turn"), VALUES.tolist(), strict=True))
    for name in ("a.qasm", "a.qpy"):
        code, text, error = typed("circuit", trained, "--export", str(tmp_path / name), "--sample", "3,0.5")
        assert code == 0, error
        assert text.endswith(f"saved {tmp_path / name}\n")
    with (tmp_path / "a.qpy").open("rb") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        both = (*qpy.load(file), qasm3.loads((tmp_path / "a.qasm").read_text()))
    expected = readouts_of_excitation(circuits.build(embed_file(FILE), 8), 8, VALUES, 3, 0.5)
    for circuit in both:
        state = Statevector(circuit.remove_final_measurements(inplace=False))
        values = [state.expectation_value(Pauli("Z"), [qubit]).real for qubit in range(8)]
        np.testing.assert_allclose(values, expected, atol=1e-6)


def test_exported_file_is_a_valid_model(typed: Typed, tmp_path: Path) -> None:
    for name, options in (("a.json", ()), ("a.qasm", ())):
        assert typed("circuit", "hybrid", "--qubits", "4", "--export", str(tmp_path / name), *options)[0] == 0
        code, text, _ = typed("circuit", str(tmp_path / name))
        assert code == 0
        assert "parameters: s0, s1, s2, s3, s4, ... s20 (21)" in text


def test_export_to_input_file_is_an_error(typed: Typed, trained: str, tmp_path: Path) -> None:
    (mine := tmp_path / "mine.qasm").write_bytes(Path(FILE).read_bytes())
    (tmp_path / "link.qasm").symlink_to(mine)
    run = tmp_path / "run"
    (run / "export-weights").mkdir(parents=True)
    (run / "export-weights" / "model").symlink_to(trained)
    description = Path(trained) / "model.json"
    before = mine.read_bytes(), description.read_bytes()
    for model, target in ((mine, mine), (tmp_path / "link.qasm", mine), (trained, description), (run, description)):
        code, out, error = typed("circuit", str(model), "--export", str(target))
        assert (code, out) == (2, "")
        assert error == f"error: export: must differ from the input file. Given: {target}\n"
    assert (mine.read_bytes(), description.read_bytes()) == before


def test_circuit_accepts_folder_of_run(typed: Typed, trained: str, tmp_path: Path) -> None:
    run = tmp_path / "run" / "export-weights"
    run.mkdir(parents=True)
    Path(trained).rename(run / "model")
    assert "3 parameters" in typed("circuit", str(run.parent))[1]


def test_image_is_saved(typed: Typed, tmp_path: Path) -> None:
    for name, begin in (("a.png", b"\x89PNG"), ("a.svg", b"<?xml")):
        assert typed("circuit", "hybrid", "--qubits", "4", "--image", str(tmp_path / name))[0] == 0
        assert (tmp_path / name).read_bytes().startswith(begin)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("nothing.qasm",), "model: no such file. Given: nothing.qasm"),
        (("nothing",), "model: must be one of hybrid, deep, or a custom circuit.* Given: 'nothing'"),
        ((FILE, "--qubits", "4"), "qubits: must be at least 8, the qubits of stabilizers.qasm@[0-9a-f]{8}. Given: 4"),
        (("hybrid", "--image", "a.gif"), "image: the file's name must end in one of .png, .svg. Given: a.gif"),
        (("hybrid", "--export", "a.qasm", "--image", "a.gif"), "image: the file's name must end in .* Given: a.gif"),
        (("hybrid", "--export", "a.gif", "--image", "a.png"), "export: the file's name must end in .* Given: a.gif"),
        (("x.json#" + "A" * 300,), "model: must be one of hybrid, deep, or a custom circuit.* Given: 'x.json#A.*"),
        ((".qasm",), "model: must be one of hybrid, deep, or a custom circuit.* Given: '.qasm'"),
        (("hybrid", "--export", "a.gif"), "export: the file's name must end in one of .* Given: a.gif"),
        (("hybrid", "--sample", "1,2"), "sample: must be given with --export. Given: 1,2"),
        (("hybrid", "--export", "a.qasm", "--sample", "x"), "sample: must be finite numbers .* Given: x"),
        (("hybrid", "--export", "a.qasm", "--sample", "9,1"), "sample: must be a qubit, 0 to 7, and .* Given: 9,1"),
        (("hybrid", "--export", "a.qasm", "--openqasm", "2"), "export: OpenQASM 2 has no inputs; .* 21 parameters"),
        ((".",), "model: must be the folder of a model or of a run, with model.json in it. Given: ."),
        (
            (".", "--qubits", "8"),
            "circuit: --qubits, --encoding, --inputs and --observables must not be given for a trained model. Given: .",
        ),
    ],
)
def test_invalid_arguments_are_one_line_errors(
    typed: Typed, arguments: tuple[str, ...], line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, error = typed("circuit", *arguments)
    assert (code, out) == (2, "")
    assert re.fullmatch(rf"error: {line}\n", error)
    assert not list(tmp_path.iterdir())
