"""Export and evaluation of a small model."""

import csv
import json
import re
from pathlib import Path

import pytest

from qcnn.components.steps.dataset import generate_data
from qcnn.components.steps.evaluate import evaluate, export_weights, summarize
from tests.components.conftest import error_line, in_component


def test_export_and_evaluate_report_missing_inputs(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], trained_model: Path
) -> None:
    with pytest.raises(SystemExit):
        in_component(export_weights, str(tmp_path / "training"), str(tmp_path / "model"))
    assert error_line(capfd).startswith("error: training: the folder has no checkpoint")
    generate_data({"qubits": 4}, str(tmp_path / "dataset"))
    outputs = [str(tmp_path / name) for name in ("predictions", "metrics", "report", "baselines")]
    with pytest.raises(SystemExit):
        in_component(evaluate, *(str(tmp_path / name) for name in ("model", "dataset", "training")), *outputs)
    assert error_line(capfd).startswith("error: training: the folder has no checkpoint")
    with pytest.raises(SystemExit):
        in_component(
            evaluate,
            str(tmp_path / "model"),
            str(tmp_path / "dataset"),
            str(trained_model.parent / "training"),
            *outputs,
        )
    assert error_line(capfd).startswith("error: model: model.json is missing")
    assert [path.name for path in tmp_path.iterdir()] == ["dataset"]


def test_evaluate_writes_metrics_report_and_predictions(tmp_path: Path, trained_model: Path) -> None:
    inputs = (trained_model, trained_model.parent / "dataset", trained_model.parent / "training")
    outputs = (*(tmp_path / name for name in ("predictions", "metrics", "report.html")), tmp_path)
    metrics, confusion, metadata = evaluate(*map(str, (*inputs, *outputs)))
    assert json.loads((tmp_path / "metrics").read_text()) == metrics
    assert {"commit", "dirty", "lock_sha256", "image", "seed", "simulator", "tensorflow", "experiment"} <= set(metadata)
    assert metadata["weights"] == "last"
    assert confusion.classes == ("-1", "+1")
    assert {"mse", "accuracy", "train_loss", "val_loss", "epochs", "epoch_seconds"} <= set(metrics)
    assert f"Test MSE<b>{metrics['mse']:.4f}</b>" in (tmp_path / "report.html").read_text()
    (right_negative, _), (_, right_positive) = matrix = confusion.matrix
    assert right_negative + right_positive == round(metrics["accuracy"] * sum(map(sum, matrix)))
    with (tmp_path / "predictions" / "predictions.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert sum(map(sum, matrix)) == len(rows)
    assert sum(matrix[0]) == sum(row["label"] == "-1" for row in rows)
    # The experiment has the field `baseline`.
    content, page = json.loads((tmp_path / "baselines.json").read_text()), (tmp_path / "report.html").read_text()
    assert [each["model"] for each in content["models"]] == ["logistic_regression", "svm", "perceptron"]
    for each in content["models"]:
        for name in ("accuracy", "difference", "difference_low", "difference_high"):
            assert metrics[f"{each['model']}_{name}"] == each[name]
        # 21 circuit parameters, and dense layers of 2 readouts, 8 units and 1 output.
        assert each["network_parameters"] == 21 + (2 + 1) * 8 + 8 + 1
        assert each["difference"] == pytest.approx(metrics["accuracy"] - each["accuracy"], abs=1e-12)
    assert "<h2>Classical models</h2>" in page
    assert f"<td>{content['models'][2]['parameters']} (7 hidden units)</td>" in page


def test_summary_has_metrics_and_artifact_uris(tmp_path: Path) -> None:
    uris = {"model": "gs://bucket/run/export/1/model", "dataset": "gs://bucket/run/generate/2/dataset"}
    summarize({"mse": 0.25, "epochs": 5.0}, uris, str(tmp_path / "summary.md"))
    lines = [re.sub(" +", " ", line) for line in (tmp_path / "summary.md").read_text().splitlines()]
    assert [line for line in lines if line.startswith("#")] == ["# Summary", "## Metrics", "## Artifacts"]
    assert lines.index("| mse | 0.25 |") < lines.index("## Artifacts") < lines.index("In `gs://bucket/run/`:")
    assert "| model | `export/1/model` |" in lines
    assert "| dataset | `generate/2/dataset` |" in lines


def test_summary_names_of_classes_are_text(tmp_path: Path) -> None:
    summarize({"recall_<b>a|`b`": 0.5}, {}, str(tmp_path / "summary.md"))
    assert r"| recall_\<b\>a\|\`b\` |" in (tmp_path / "summary.md").read_text()


def test_summary_has_full_uris_without_common_folder(tmp_path: Path) -> None:
    uris = {"model": "gs://bucket/model", "dataset": "minio://other/dataset"}
    summarize({"mse": 0.25}, uris, str(tmp_path / "summary.md"))
    text = (tmp_path / "summary.md").read_text()
    assert all(f"`{uri}`" in text for uri in uris.values())
    assert "In `" not in text
