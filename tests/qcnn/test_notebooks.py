"""Execution of the notebooks in examples/, and output of their progress bars."""

from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))


def texts(cell: Any) -> str:
    """Return the text output of a cell."""
    return "\n".join(output.get("data", output).get("text/plain", output.get("text", "")) for output in cell.outputs)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_has_no_outputs(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert {cell.cell_type for cell in notebook.cells} == {"code", "markdown"}
    assert not any(cell.outputs or cell.execution_count for cell in code)
    assert "import qcnn" in code[0].source


# tests/cluster/test_python.py runs the notebook that needs a cluster.
@pytest.mark.long
@pytest.mark.parametrize("path", [path for path in NOTEBOOKS if path.stem != "cluster_job"], ids=lambda path: path.stem)
def test_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.read(path, as_version=4)
    client = nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}})
    with client.setup_kernel():
        for number, cell in enumerate(notebook.cells):
            client.execute_cell(cell, number)
    trained = [cell for cell in notebook.cells if "qcnn.train(" in cell.source]
    for cell in trained:
        # The progress bar is a single updated output that keeps its final state. There is no other printed output.
        bar, *others = cell.outputs
        epochs = 12 if path.stem == "first_training" else 20
        assert f"epoch {epochs}/{epochs} ━" in texts(cell)
        assert bar.output_type == "display_data"
        assert [output.output_type for output in others] == ["execute_result"]
