"""Results table of a study."""

import csv
import io

import pytest

from qcnn.circuits.formats.embedded import embed
from qcnn.errors import TrainingError
from qcnn.experiment_io import from_mapping
from qcnn.studies.record import table, table_csv, table_page
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
    page = table_page(header, rows)
    assert "<td>best</td>" in page


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
    assert failed.reason in table_page(header, rows)


def test_best_all_trials_failed_raises() -> None:
    trials = [FailedTrial(from_mapping({"seed": seed}), f"reason {seed}") for seed in (1, 2)]
    with pytest.raises(TrainingError, match=r"^study: all 2 trials failed; the first: reason 1$"):
        best(trials)
    _, rows = table(trials)
    assert [row[-1] for row in rows] == ["reason 1", "reason 2"]
