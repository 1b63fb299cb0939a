"""Content of reports. `test_browser.py` tests their appearance in a browser."""

import re
from typing import Any

import numpy as np
import pytest

from qcnn.circuits.formats.embedded import embed
from qcnn.data import excitation_samples
from qcnn.experiment.config import EXPERIMENT_FIELDS, OPTION_FIELDS
from qcnn.results.report import qubit_errors
from tests.trainer.synthetic_report import report


def test_report_page_is_reproducible() -> None:
    assert report() == report()


def test_report_page_has_all_fields() -> None:
    page = report(optimizer="nadam", options={**dict.fromkeys(OPTION_FIELDS, 0.125)})
    for name in [*EXPERIMENT_FIELDS, *OPTION_FIELDS]:
        assert f"<th>{name}</th>" in page
    assert "<th>optimizer</th><td>nadam</td>" in page
    assert page.count("<td>0.125</td>") == len(OPTION_FIELDS)


def test_report_page_embedded_circuit_has_file_name() -> None:
    page = report(model=embed("a.qasm", "[]"))
    assert "<th>model</th><td>a.qasm@4f53cda1</td>" in page
    assert "a.qasm#" not in page


@pytest.mark.parametrize(
    ("words", "bound", "curve"),
    [
        ({"model": "hybrid"}, "0.1894", "1.2732 cos(angle)"),
        ({"model": "deep"}, "0.2268", "1.0000 cos(angle)"),
    ],
)
def test_report_page_has_lower_bound(words: dict[str, Any], bound: str, curve: str) -> None:
    page = report(**words)
    assert f"MSE lower bound<b>{bound}</b>" in page
    assert curve in page
    # Three figures have the bound: loss curves, error by qubit, and error by split.
    assert page.count(f"lower bound {bound}</text>") == 3
    assert "best possible</text>" in page


def test_report_page_has_test_and_fresh_mse() -> None:
    page = report()
    assert "Test MSE<b>0.2716</b>" in page
    assert "Fresh MSE<b>0.2361</b>" in page
    assert ">fresh</text>" in page


@pytest.mark.parametrize("words", [{"model": "mine:circuit"}, {"hidden_activation": "tanh"}])
def test_report_page_without_known_bound_states_so(words: dict[str, Any]) -> None:
    page = report(**words)
    assert "MSE lower bound<b>not known</b>" in page
    assert "No MSE lower bound is known for this model." in page
    assert "best possible</text>" not in page
    assert not re.search(r"lower bound \d", page)


def test_report_page_has_provenance() -> None:
    assert "<th>commit</th>" not in report()
    page = report(description={"provenance": {"commit": "abc123", "dirty": "no", "numpy": "2.0.2"}})
    for row in ("<th>commit</th><td>abc123</td>", "<th>dirty</th><td>no</td>", "<th>numpy</th><td>2.0.2</td>"):
        assert row in page


def test_report_page_escapes_text() -> None:
    page = report(model="<script>alert(1)</script>", description={"provenance": {"<b>": "<img src=x>&"}})
    assert "<script" not in page
    assert "<img" not in page
    assert "<th>&lt;b&gt;</th><td>&lt;img src=x&gt;&amp;</td>" in page


def test_qubit_errors_are_means_of_samples() -> None:
    samples = excitation_samples(np.array([0, 2, 0], np.int32), np.zeros(3, np.float32), np.array([1, -1, 1], np.int8))
    errors = qubit_errors(samples, np.array([0.0, 1.0, 3.0]), 4)
    np.testing.assert_array_equal(errors, [2.5, np.nan, 4.0, np.nan])


@pytest.mark.parametrize(
    ("qubits", "rounds", "epochs"),
    [(4, 1, 1), (8, 3, 2), (1024, 1, 5000), (1024, 3, 5000), (20, 99, 300), (8, 3, 50_000)],
)
def test_report_page_is_below_1_mb(qubits: int, rounds: int, epochs: int) -> None:
    assert len(report(qubits, rounds, epochs).encode()) < 1e6


def test_report_page_has_no_external_resources() -> None:
    page = report(1024, 3, 50)
    fetched = re.findall(r"""(?:src|href|data|action)=["']?([^"'\s>]+)|url\(["']?([^"')]+)|(@import)""", page)
    targets = {"".join(found) for found in fetched}
    assert any(target.startswith("data:image/png") for target in targets)
    assert not [target for target in targets if not target.startswith(("#", "data:"))]
    assert "<script" not in page
    assert "default-src 'none'" in page


def test_report_page_ids_are_unique() -> None:
    ids = re.findall(r'\bid="([^"]*)"', report())
    assert len(ids) == len(set(ids))
    assert set(re.findall(r"(?:href=\"|url\()#([^\")]+)", report())) <= set(ids)
