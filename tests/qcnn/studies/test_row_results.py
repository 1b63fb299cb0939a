"""Tables of repeated rows."""

import csv
import dataclasses
import io
import statistics
from collections.abc import Sequence
from typing import Any

import pytest

from qcnn.experiment.parsing import from_mapping
from qcnn.studies.record import repeated_page, table_csv
from qcnn.studies.row_results import baseline_table, best_row, legend, row_results, short_table, table
from qcnn.studies.rows import RepeatedRows, StudyRow, parse_rows
from qcnn.studies.trials import Evaluated, FailedTrial, Trial
from tests.qcnn.studies.test_trials import a_trial

ACCURACIES = (0.95, 0.97, 0.99)
PUBLISHED = {"value": 0.97, "spread": 0.01, "spread_is": "std", "runs": 5, "rows": 100, "source": "a table"}


def _trials(accuracies: Sequence[float], split: str = "", **fields: Any) -> list[Trial | FailedTrial]:
    return [
        dataclasses.replace(
            a_trial(1 - accuracy, seed=seed, **fields),
            seconds=0.5,
            evaluated=Evaluated({"accuracy": accuracy, "loss": 1 - accuracy}, 100, split or str(seed)),
        )
        for seed, accuracy in enumerate(accuracies)
    ]


def _rows(*rows: dict[str, Any]) -> RepeatedRows:
    return RepeatedRows(parse_rows(list(rows)), len(ACCURACIES))


def _read(repeated: RepeatedRows, trials: Sequence[Trial | FailedTrial]) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(table_csv(*table(row_results(repeated, trials))))))


def test_row_has_mean_standard_error_ends_and_verdict() -> None:
    trials = [*_trials(ACCURACIES, model="deep"), *_trials([0.5, 0.6, 0.7])]
    first, second = _read(_rows({"published": PUBLISHED}, {"name": "plain"}), trials)
    assert (first["model"], first["metric"], first["runs"], first["test_samples"]) == ("deep", "accuracy", "3", "100")
    assert float(first["mean"]) == pytest.approx(0.97)
    assert float(first["standard_error"]) == pytest.approx(statistics.stdev(ACCURACIES) / 3**0.5)
    assert (first["best"], first["worst"], first["seconds"]) == ("0.99", "0.95", "1.5")
    assert (first["verdict"], first["source"]) == ("agrees", "a table")
    assert float(first["difference_low"]) < 0 < float(first["difference_high"])
    assert (second["name"], second["published"], second["difference"], second["verdict"]) == ("plain", "", "", "")


@pytest.mark.parametrize(
    ("row", "verdict"),
    [
        ({"published": {**PUBLISHED, "value": 0.2}}, "better"),
        ({"published": {**PUBLISHED, "value": 1.0, "rows": None}}, "agrees"),
        ({"published": {**PUBLISHED, "metric": "loss", "value": 0.9}}, "better"),
        ({"published": {**PUBLISHED, "metric": "loss", "value": 0.001, "spread": 0.0001}}, "agrees"),
        ({"published": {**PUBLISHED, "metric": "loss", "value": -0.5}}, "differs"),
        ({"published": PUBLISHED, "differences": ["other rows"]}, "agrees (other setting)"),
        ({"published": {"value": 0.97, "source": "a table"}}, ""),
    ],
)
def test_verdict_of_row(row: dict[str, Any], verdict: str) -> None:
    (found,) = _read(_rows(row), _trials(ACCURACIES))
    assert found["verdict"] == verdict


def test_row_with_failed_trial_has_no_verdict() -> None:
    trials = [*_trials(ACCURACIES[:2]), FailedTrial(from_mapping({"seed": 2}), "loss, Given: nan")]
    (found,) = _read(_rows({"published": PUBLISHED}), trials)
    assert (found["runs"], found["verdict"]) == ("2", "")
    assert float(found["mean"]) == pytest.approx(0.96)
    (found,) = _read(_rows({"published": PUBLISHED}), [trials[-1]] * 3)
    assert (found["runs"], found["mean"], found["verdict"]) == ("0", "", "")


def test_classical_models_have_the_paired_difference() -> None:
    repeated, trials = _rows({}), _trials(ACCURACIES)
    for number, accuracy in enumerate((0.9, 0.93, 0.93)):
        trial = trials[number]
        assert isinstance(trial, Trial)
        assert trial.evaluated
        metrics = {**trial.evaluated.metrics, "svm_accuracy": accuracy}
        trials[number] = dataclasses.replace(trial, evaluated=dataclasses.replace(trial.evaluated, metrics=metrics))
    (found,) = _read(repeated, trials)
    assert float(found["svm_accuracy"]) == pytest.approx(0.92)
    assert float(found["svm_difference"]) == pytest.approx(0.05)
    # Student's t with 2 degrees of freedom.
    half = 4.302653 * statistics.stdev([0.05, 0.04, 0.06]) / 3**0.5
    assert float(found["svm_low"]) == pytest.approx(0.05 - half)
    assert not [name for name in found if name.startswith("perceptron")]
    _, rows = baseline_table(row_results(_rows({"name": "first"}), trials))
    assert rows == [["0", "first", "SVM (RBF kernel)", "0.9200 ± 0.0100", "+0.0500 [+0.0252, +0.0748]"]]


def test_best_row_has_best_mean_of_validation_split() -> None:
    results = row_results(_rows({}, {}), [*_trials([0.9, 0.1, 0.2]), *_trials([0.5, 0.5, 0.5])])
    assert best_row(results, "val_loss", is_maximized=False) == 1
    failed = FailedTrial(from_mapping({}), "no")
    results = row_results(_rows({}, {}), [failed, failed, failed, *_trials([0.5, 0.5, 0.5])])
    assert best_row(results, "val_loss", is_maximized=False) == 1


def test_legend_states_whether_seeds_change_the_split() -> None:
    fixed, varied = _trials(ACCURACIES, "same"), _trials(ACCURACIES)
    assert "the same split for all seeds" in legend(row_results(_rows({}, {}), [*fixed, *fixed]))
    assert "which also change the split." in legend(row_results(_rows({}, {}), [*varied, *varied]))
    assert "which also change the split in rows 1." in legend(row_results(_rows({}, {}), [*fixed, *varied]))


def test_page_has_rows_sources_and_trials() -> None:
    row = {"name": "<b>first</b>", "published": PUBLISHED, "differences": ["other rows"]}
    trials = _trials(ACCURACIES)
    page = repeated_page(trials, row_results(_rows(row), trials), 0, "report.html", "val_loss")
    assert "<b>first" not in page
    for text in ("agrees (other setting)", "a table. other setting: other rows", "0.9700 ± 0.0115", "Trials"):
        assert text in page.replace("<wbr>", "")
    header, (cells,) = short_table(row_results(_rows(row), trials))
    assert dict(zip(header, cells, strict=True))["published"] == "0.9700 ± 0.0045"


def test_grid_without_names_has_its_fields_in_the_short_table() -> None:
    trials = [*_trials(ACCURACIES, model="deep"), *_trials(ACCURACIES, model="hybrid")]
    header, rows = short_table(row_results(RepeatedRows((StudyRow({}),) * 2, 3), trials))
    assert [dict(zip(header, row, strict=True))["model"] for row in rows] == ["deep", "hybrid"]
