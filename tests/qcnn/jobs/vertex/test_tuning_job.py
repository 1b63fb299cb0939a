"""Tuning jobs: StudySpec messages, and launchers on a local Vertex AI server."""

from typing import Any

import pytest
from google.cloud import aiplatform_v1 as v1

from qcnn.jobs.vertex.machines import DECAY_CURVE, MEDIAN, NONE
from qcnn.jobs.vertex.tuning_job import Candidates, NumericRange, StudySpec, study_spec
from tests.qcnn.jobs.vertex.launchers import launched
from tests.vertex.fake_service.job_run import CANCELLED, FAILED, RUNNING, SUCCEEDED
from tests.vertex.fake_service.vertex import Vertex


def _spec(
    *parameters: Candidates | NumericRange, stopping: str = NONE, best_report: bool = False, metric: str = "val_loss"
) -> dict[str, Any]:
    study = StudySpec(parameters, metric, 5, parallel=2, stopping=stopping, best_report=best_report)
    spec: dict[str, Any] = v1.StudySpec.to_dict(study_spec(study), always_print_fields_with_no_presence=False)
    return spec


@pytest.mark.parametrize(
    ("parameter", "expected"),
    [
        (
            NumericRange("learning_rate", 1e-4, 0.1, whole=False, by_logarithm=True),
            {"double_value_spec": {"min_value": 1e-4, "max_value": 0.1}, "scale_type": 2},
        ),
        (
            NumericRange("hidden_units", 2, 16, whole=True, by_logarithm=False),
            {"integer_value_spec": {"min_value": "2", "max_value": "16"}, "scale_type": 1},
        ),
        (Candidates("hidden_units", [16, 4, 4]), {"discrete_value_spec": {"values": [4.0, 16.0]}}),
        (Candidates("model", ["hybrid", "deep"]), {"categorical_value_spec": {"values": ["hybrid", "deep"]}}),
        (Candidates("rounds", ["auto", 40]), {"categorical_value_spec": {"values": ["auto", "40"]}}),
    ],
)
def test_study_spec_converts_all_parameter_types(
    parameter: Candidates | NumericRange, expected: dict[str, Any]
) -> None:
    assert _spec(parameter)["parameters"] == [{"parameter_id": parameter.name, **expected}]


def test_study_spec_has_metric_with_goal_and_stopping_rule() -> None:
    choice = Candidates("model", ["hybrid", "deep"])
    spec = _spec(choice)
    assert spec["metrics"] == [{"metric_id": "val_loss", "goal": v1.StudySpec.MetricSpec.GoalType.MINIMIZE}]
    highest = [{"metric_id": "val_accuracy", "goal": v1.StudySpec.MetricSpec.GoalType.MAXIMIZE}]
    assert _spec(choice, metric="val_accuracy")["metrics"] == highest
    assert spec["measurement_selection_type"] == v1.StudySpec.MeasurementSelectionType.LAST_MEASUREMENT
    best = _spec(choice, best_report=True)["measurement_selection_type"]
    assert best == v1.StudySpec.MeasurementSelectionType.BEST_MEASUREMENT
    rules = {"median_automated_stopping_spec", "decay_curve_stopping_spec"}
    assert not rules & spec.keys()
    assert rules & _spec(choice, stopping=MEDIAN).keys() == {"median_automated_stopping_spec"}
    assert rules & _spec(choice, stopping=DECAY_CURVE).keys() == {"decay_curve_stopping_spec"}


# Reports the value of its parameter as its loss.
_TRIAL = """
import json, os, sys
value = sys.argv[1].removeprefix("--learning_rate=")
with open(os.environ["CLOUD_ML_HP_METRIC_FILE"], "w") as file:
    file.write(json.dumps({"val_loss": value, "global_step": "1"}))
"""
_FOREVER = "import time\nwhile True: time.sleep(1)"


def _jobs(server: Vertex) -> list[v1.HyperparameterTuningJob]:
    return server.state.all(v1.HyperparameterTuningJob)


@pytest.mark.long
@pytest.mark.usefixtures("forks")
def test_launch_tuning_job_runs_once_and_logs_each_trial(vertex: Vertex) -> None:
    for outcome in ("is created", "has already succeeded"):
        with launched(vertex, _TRIAL, trials=3) as launcher:
            assert launcher.end() == 0, launcher.lines
        assert outcome in launcher.lines[0]
        assert launcher.lines[0].startswith("tuning job ")
        if outcome == "is created":
            ended = [line for line in launcher.lines if "has ended: val_loss" in line]
            assert [line.split(" (")[0] for line in sorted(ended)] == ["trial 1", "trial 2", "trial 3"]
            assert len([line for line in launcher.lines if "is running" in line and line.startswith("trial")]) <= 3
    (job,) = _jobs(vertex)
    assert job.state == SUCCEEDED
    assert job.max_failed_trial_count == 3


@pytest.mark.long
@pytest.mark.usefixtures("forks")
def test_launch_tuning_job_is_adopted_and_cancelled_on_sigterm(vertex: Vertex) -> None:
    with launched(vertex, _FOREVER, trials=2) as first:
        first.until_line("trial 1 ")
        first.kill()
    with launched(vertex, _FOREVER, trials=2) as second:
        second.until_line("is adopted")
        (job,) = _jobs(vertex)
        assert job.state == RUNNING
        second.terminate()
        assert second.end() == 128 + 15
    assert "ended by SIGTERM; its tuning job is cancelled. Given: " in second.lines[-1]
    vertex.until_tuning(job.name, CANCELLED)


@pytest.mark.long
@pytest.mark.usefixtures("forks")
def test_launch_tuning_job_response_lost_creates_one_job(vertex: Vertex) -> None:
    vertex.fail("JobService/CreateHyperparameterTuningJob", 503, answered=False)
    with launched(vertex, _TRIAL, trials=1) as launcher:
        assert launcher.end() == 0, launcher.lines
    assert len(_jobs(vertex)) == 1


@pytest.mark.long
@pytest.mark.usefixtures("forks")
def test_launch_tuning_job_stopped_trial_logs_last_loss(vertex: Vertex) -> None:
    with launched(vertex, f"{_TRIAL}\nprint('reported', flush=True)\n{_FOREVER}", trials=1) as launcher:
        (trial,) = vertex.state.until(lambda: next((job.trials for job in _jobs(vertex) if job.trials), None))
        vertex.until_line(trial.custom_job, "workerpool0-0", "reported")
        vertex.tuning.stop(_jobs(vertex)[0].name, "1")
        assert launcher.end() == 0, launcher.lines
    assert any(line.startswith("trial 1 (") and "has ended: val_loss" in line for line in launcher.lines)


@pytest.mark.long
@pytest.mark.usefixtures("forks")
def test_launch_tuning_job_all_trials_failed_is_not_retried(vertex: Vertex) -> None:
    with launched(vertex, "raise SystemExit(2)", trials=2) as launcher:
        assert launcher.end() == 2
    (job,) = _jobs(vertex)
    assert job.state == FAILED
    assert launcher.lines[-1] == f"error: tuning job: FAILED: Too many failed Trials: 2. Given: {job.name}"
    reason = "has failed: The replica workerpool0-0 exited with a non-zero status of 2."
    assert sum(reason in line for line in launcher.lines) == 2
