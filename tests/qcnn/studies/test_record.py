"""Results table of a study."""

import csv
import dataclasses
import io
import itertools
import re
from pathlib import Path

import pytest

from qcnn.circuits.formats.embedded import embed
from qcnn.errors import TrainingError
from qcnn.experiment.parsing import from_mapping
from qcnn.studies.record import load_metric, load_trials, save_trials, table, table_csv, table_page
from qcnn.studies.trials import FailedTrial, Trial, best
from tests.qcnn.studies.test_trials import a_trial


def test_table_embedded_circuit_has_file_name() -> None:
    header, rows = table([a_trial(0.25, model=embed("a.qasm", "[]")), a_trial(0.125)])
    assert [row[header.index("model")] for row in rows] == ["a.qasm@4f53cda1", "hybrid"]


def test_table_has_differing_fields_and_best_trial() -> None:
    # Trials of older releases have no fresh_mse.
    trials = [a_trial(0.25, seed=1), a_trial(0.125, seed=0, options={"shots": 10})]
    header, rows = table(trials)
    read = list(csv.DictReader(io.StringIO(table_csv(header, rows))))
    assert read == [
        {
            "trial": "0",
            "seed": "1",
            "shots": "0",
            "train_loss": "0.5",
            "val_loss": "0.25",
            "val_accuracy": "0.5",
            "fresh_mse": "0.25",
            "weights_epoch": "4",
            "epochs": "5",
            "chosen": "",
        },
        {
            "trial": "1",
            "seed": "0",
            "shots": "10",
            "train_loss": "0.5",
            "val_loss": "0.125",
            "val_accuracy": "0.5",
            "fresh_mse": "",
            "weights_epoch": "4",
            "epochs": "5",
            "chosen": "best",
        },
    ]


def _rows_of(page: str) -> list[str]:
    """Return the text of the first cell of each row of a page."""
    return [re.sub(r"<[^>]*>", " ", cell).strip() for cell in re.findall(r"<tr[^>]*><td[^>]*>(.*?)</td>", page)]


def test_table_page_has_marked_best_trial_first_with_report() -> None:
    failed = FailedTrial(from_mapping({"seed": 3}), "loss, Given: nan")
    trials: list[Trial | FailedTrial] = [a_trial(0.25, seed=1), failed, a_trial(0.125, seed=2), a_trial(0.5, seed=0)]
    page = table_page(trials, "report.html")
    assert [row.split() for row in _rows_of(page)] == [["2", "best"], ["0"], ["3"], ["1"]]
    assert re.findall(r'<a href="([^"]*)">(\w+)</a>', page) == [("report.html", "2")]
    assert "loss, Given: nan" in page
    uri = "minio://bucket/v2/report.html"
    page = table_page(trials, uri)
    assert "<a " not in page
    assert f"Report of trial 2: {uri}" in re.sub("<wbr>", "", page)


def test_table_page_plots_loss_against_searched_fields() -> None:
    trials = [
        a_trial(0.5 - number / 100, seed=number, model=model, learning_rate=rate)
        for number, (model, rate) in enumerate(itertools.product(["hybrid", "deep"], [0.01, 0.02]))
    ]
    header, _ = table(trials)
    # The seed counts the trials, and the other fields depend on the model.
    assert {"seed", "rounds", "num_initializations"} <= set(header)
    titles = re.findall(r"<h3>(.*?)</h3>", table_page(trials))
    assert titles == ["Validation loss by model", "Validation loss by learning_rate"]
    assert re.findall(r"<h3>(.*?)</h3>", table_page(trials[:1])) == []
    only_seeds = [a_trial(0.5, seed=seed) for seed in (0, 1)]
    assert re.findall(r"<h3>(.*?)</h3>", table_page(only_seeds)) == ["Validation loss by seed"]


def test_page_of_study_by_accuracy_has_the_highest_first(tmp_path: Path) -> None:
    trials: list[Trial | FailedTrial] = [
        dataclasses.replace(trial, chosen=dataclasses.replace(trial.chosen, val_accuracy=value))
        for trial, value in zip([a_trial(0.1, seed=3), a_trial(0.4, seed=1)], (0.5, 0.75), strict=True)
    ]
    page = table_page(trials, "report.html", "val_accuracy")
    assert _rows_of(page)[0].split()[0] == "1"
    assert re.findall(r"<h3>(.*?)</h3>", page) == ["Validation accuracy by seed"]
    assert "the highest validation accuracy first" in page
    header, rows = table(trials, "val_accuracy")
    assert [row[header.index("chosen")] for row in rows] == ["", "best"]
    save_trials([trial.experiment for trial in trials], tmp_path, "val_accuracy")
    assert (load_metric(tmp_path), load_trials(tmp_path)) == ("val_accuracy", [trial.experiment for trial in trials])
    save_trials([trial.experiment for trial in trials], tmp_path)
    assert (load_metric(tmp_path), "metric" in (tmp_path / "study.json").read_text()) == ("val_loss", False)


def test_table_failed_trial_has_reason_and_is_not_best() -> None:
    failed = FailedTrial(from_mapping({"seed": 1}), "worker 0 ended with exit code 2: error: loss, Given: nan")
    trials: list[Trial | FailedTrial] = [failed, a_trial(0.5, seed=2), a_trial(0.25, seed=3)]
    assert best(trials) == 2
    header, rows = table(trials)
    read = list(csv.DictReader(io.StringIO(table_csv(header, rows))))
    assert [(row["seed"], row["val_loss"], row["chosen"], row["failure"]) for row in read] == [
        ("1", "", "", failed.reason),
        ("2", "0.5", "", ""),
        ("3", "0.25", "best", ""),
    ]
    assert failed.reason in table_page(trials)


def test_best_all_trials_failed_raises() -> None:
    trials = [FailedTrial(from_mapping({"seed": seed}), f"reason {seed}") for seed in (1, 2)]
    with pytest.raises(TrainingError, match=r"^study: all 2 trials failed; the first: reason 1$"):
        best(trials)
    _, rows = table(trials)
    assert [row[-1] for row in rows] == ["reason 1", "reason 2"]
