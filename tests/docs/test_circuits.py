"""Tests of docs/circuits.md: the Python example and the table of unsupported features."""

import re
from pathlib import Path

import numpy as np
import pytest

from qcnn.circuits import circuits
from qcnn.circuits.ansatz import Ansatz, ring
from qcnn.circuits.formats import export, openqasm
from qcnn.circuits.formats.loading import embed_file
from qcnn.circuits.preparation import EXCITATION
from qcnn.circuits.sample_circuits import data_state
from qcnn.errors import ConfigError
from qcnn.testing.cirq_readouts import readouts_of_excitation
from tests.docs.documents import ROOT, blocks


def test_python_example_exported_circuit_matches_cirq(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ansatz = circuits.build(embed_file(str(ROOT / "examples" / "stabilizers.qasm")), 8)
    values, sample = np.array([0.9, 0.2, -0.6]), (3, 0.5)
    bound = export.bind_parameters(ansatz, values)
    whole = Ansatz(data_state(EXCITATION, ring(8), sample) + bound.circuit, (), bound.readouts)
    monkeypatch.chdir(tmp_path)
    export.write(whole, ring(8), Path("trained.qasm"), 3, [])
    (example,) = blocks(ROOT / "docs" / "circuits.md", "python")
    names: dict[str, list[float]] = {}
    exec(compile(example.text, example.title, "exec"), names)
    np.testing.assert_allclose(names["readouts"], readouts_of_excitation(ansatz, 8, values, *sample), atol=1e-6)


def test_embedded_circuit_has_stated_number_of_characters(tmp_path: Path) -> None:
    path, page = tmp_path / "hybrid.qasm", (ROOT / "docs" / "circuits.md").read_text(encoding="utf-8")
    stated = re.search(r"`hybrid` on 100 qubits: ([\d,]+) as `\.qasm`", page)
    assert stated
    export.write(circuits.build("hybrid", 100), ring(100), path, 3, [])
    assert round(len(embed_file(str(path))), -2) == int(stated[1].replace(",", ""))


def unsupported_features() -> list[tuple[str, str]]:
    """Return the rows of the table of unsupported OpenQASM 3 features: name and examples."""
    section = (ROOT / "docs" / "circuits.md").read_text(encoding="utf-8").split("OpenQASM 3 only:")[1].split("\n\n")[1]
    rows = [row.split("|")[1:3] for row in section.splitlines()[2:]]
    return [(name.strip(), examples) for name, examples in rows]


@pytest.mark.parametrize(("name", "examples"), unsupported_features())
def test_unsupported_feature_is_rejected_with_line_number(name: str, examples: str) -> None:
    found = re.findall("`([^`]+)`", examples)
    assert found, name
    for example in found:
        text = f'OPENQASM 3.0;\ninclude "stdgates.inc";\nqubit[4] q;\nbit[4] c;\n{example}'
        with pytest.raises(ConfigError, match=r"^model: line 5: .* Given: .*a\.qasm$"):
            openqasm.read(text, "a.qasm")
