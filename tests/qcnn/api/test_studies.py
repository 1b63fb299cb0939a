"""Studies that the command or Python begins and the other one continues."""

import dataclasses
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qcnn
from qcnn.model.history import EpochMetrics
from qcnn.results.local_run import read_record
from qcnn.studies.record import SELECT_STEP, table, trial_folders
from qcnn.studies.trials import FailedTrial, Search, Trial, plan
from tests.forks import run, started
from tests.qcnn.api.conftest import SMALL

GRID = {"learning_rate": [0.001, 0.01, 0.02]}
# Module that begins the study in the folder `study`.
MODULE = f"import qcnn; qcnn.study(qcnn.Experiment(**{SMALL!r}), grid={GRID!r}, folder='study', progress=False)"
# Arguments of the command that begins it in a new folder.
COMMAND = (
    *("qcnn.cli", "study", "--grid", "learning_rate=0.001,0.01,0.02"),
    *(part for name, value in SMALL.items() for part in (f"--{name.replace('_', '-')}", str(value))),
)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Result of the study without an interruption."""
    return _result(qcnn.study(qcnn.Experiment(**SMALL), grid=GRID, folder=tmp_path_factory.mktemp("whole") / "study"))


def _result(study: qcnn.Study) -> dict[str, Any]:
    metrics = {name: value for name, value in study.best.metrics.items() if name != "epoch_seconds"}
    return {"trials": list(study.trials), "metrics": metrics, "fields": study.best.experiment.fields}


def _records(folder: Path) -> list[Path]:
    return [*folder.glob("study/study.json"), *folder.glob("runs/*/study.json")]


def _trains(study: Path) -> bool:
    return any(study.glob("*/train/training/checkpoints/*.npz"))


def _has_trained(study: Path) -> bool:
    return any(read_record(trial).state == "succeeded" for trial in trial_folders(study))


def _selects(study: Path) -> bool:
    return (study / SELECT_STEP).exists()


@pytest.mark.long
@pytest.mark.usefixtures("forks")
@pytest.mark.parametrize("point", [_trains, _has_trained, _selects])
@pytest.mark.parametrize("first", ["python", "command"])
def test_killed_study_is_continued_by_the_other(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    expected: dict[str, Any],
    first: str,
    point: Callable[[Path], bool],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "begin.py").write_text(MODULE)
    with started("-m", *(("begin",) if first == "python" else COMMAND)) as (process, _):
        while not any(point(record.parent) for record in _records(tmp_path)):
            assert process.poll() is None, "ended too early"
            time.sleep(0.01)
        process.kill()
        process.wait()
    (record,) = _records(tmp_path)
    if first == "python":
        done = run("-m", "qcnn.cli", "study", "--resume", str(record.parent))
        assert done.returncode == 0, done.stderr
    study = qcnn.study(qcnn.Experiment(**SMALL), grid=GRID, folder=record.parent, progress=False)
    assert _result(study) == expected
    assert _has_trained(record.parent)


def test_complete_study_is_read(tmp_path: Path, shared_server: None) -> None:
    grid = {"seed": [3]}
    study = qcnn.study(qcnn.Experiment(**SMALL), grid=grid, folder=tmp_path / "study", progress=False)
    before = {path: path.stat().st_mtime_ns for path in study.folder.rglob("*")}
    assert qcnn.study(qcnn.Experiment(**SMALL), grid=grid, folder=tmp_path / "study") == study
    assert {path: path.stat().st_mtime_ns for path in study.folder.rglob("*")} == before


def test_study_by_accuracy_selects_another_trial(tmp_path: Path, shared_server: None) -> None:
    def study(metric: str) -> qcnn.Study:
        experiment, grid = qcnn.Experiment(**SMALL, learning_rate=0.02), {"seed": [0, 3]}
        return qcnn.study(experiment, grid=grid, metric=metric, folder=tmp_path / "study", progress=False)

    found = study("val_accuracy")
    first, second = found.trials
    assert (first["val_loss"] < second["val_loss"], first["val_accuracy"] < second["val_accuracy"]) == (True, True)
    assert (first["chosen"], second["chosen"]) == ("", "best")
    assert found.best.experiment.seed == 3
    assert found.best.metrics["val_accuracy"] == second["val_accuracy"]
    other = r"^metric: must be val_accuracy, by which the study in .* selects\. Given: val_loss$"
    with pytest.raises(qcnn.ArtifactError, match=other):
        study("val_loss")


@pytest.fixture
def study_of_four(training: qcnn.Training) -> qcnn.Study:
    """Study over two fields, with a failed trial."""
    search = Search(grid={"learning_rate": [0.01, 0.1], "model": ["hybrid", "deep"]})
    *configs, last = plan(training.experiment.given, search)
    results: list[Trial | FailedTrial] = [
        Trial(config, 2, EpochMetrics(2, 0.5, 0.75, 0.5 - number / 10, 0.5, 0.1), None)
        for number, config in enumerate(configs)
    ]
    results.append(FailedTrial(last, "<i>no</i>"))
    header, rows = table(results)
    return qcnn.Study(
        training.folder, [dict(zip(header, row, strict=True)) for row in rows], training, _results=results
    )


def test_study_plots_metrics_by_searched_fields(study_of_four: qcnn.Study) -> None:
    figure = study_of_four.plot()
    assert [axes.get_xlabel() for axes in figure.axes] == ["model", "learning_rate"]
    points = sorted(tuple(np.asarray(line.get_xydata())[0].tolist()) for line in figure.axes[1].lines)
    assert points == [(0.01, pytest.approx(0.4)), (0.01, 0.5), (0.1, pytest.approx(0.3))]
    assert [axes.get_ylabel() for axes in study_of_four.plot("val_accuracy").axes] == ["val_accuracy"] * 2
    with pytest.raises(qcnn.ConfigError, match=r"^metric: must be one of val_loss, .*_accuracy\. Given: 'fresh_mse'$"):
        study_of_four.plot("fresh_mse")


def test_study_without_differing_field_is_plotted_by_trial(study_of_four: qcnn.Study) -> None:
    alone = dataclasses.replace(study_of_four, _results=study_of_four._results[:1])
    (axes,) = alone.plot().axes
    assert axes.get_xlabel() == "trial"
    assert np.asarray(axes.lines[0].get_xydata()).tolist() == [[0, 0.5]]


def test_study_table_has_trials_and_escaped_reasons(study_of_four: qcnn.Study) -> None:
    page = study_of_four._repr_html_()
    assert page.count("<tr>") == 5
    assert "<td>&lt;i&gt;no&lt;/i&gt;</td>" in page
