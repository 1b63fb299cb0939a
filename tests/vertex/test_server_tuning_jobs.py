"""Hyperparameter tuning jobs of the server, with Google's unmodified client."""

import pytest
from google.api_core import exceptions
from google.cloud import aiplatform_v1 as v1

from tests.vertex.clients import jobs, python_pool
from tests.vertex.fake_service.job_run import CANCELLED, FAILED, SUCCEEDED
from tests.vertex.fake_service.vertex import Vertex

_PROGRAM = """
import json, os, sys
values = dict(argument.removeprefix("--").split("=") for argument in sys.argv[1:])
trial = os.environ["CLOUD_ML_TRIAL_ID"]
print(os.environ["AIP_CHECKPOINT_DIR"], json.loads(os.environ["CLUSTER_SPEC"])["task"]["trial"])
if trial == "2":
    sys.exit(1)
with open(os.environ["CLOUD_ML_HP_METRIC_FILE"], "w") as file:
    for step, loss in enumerate([1.0, float(values["learning_rate"]), 2.0]):
        file.write(json.dumps({"trial": trial, "val_loss": str(loss), "global_step": str(step)}) + "\\n")
"""


def _job(program: str = _PROGRAM) -> v1.HyperparameterTuningJob:
    learning_rate = v1.StudySpec.ParameterSpec(
        parameter_id="learning_rate",
        double_value_spec={"min_value": 0.001, "max_value": 0.1},
        scale_type=v1.StudySpec.ParameterSpec.ScaleType.UNIT_LOG_SCALE,
    )
    model = v1.StudySpec.ParameterSpec(parameter_id="model", categorical_value_spec={"values": ["hybrid", "deep"]})
    return v1.HyperparameterTuningJob(
        display_name="tuning",
        study_spec={
            "metrics": [{"metric_id": "val_loss", "goal": v1.StudySpec.MetricSpec.GoalType.MINIMIZE}],
            "parameters": [learning_rate, model],
            "measurement_selection_type": v1.StudySpec.MeasurementSelectionType.BEST_MEASUREMENT,
        },
        max_trial_count=4,
        parallel_trial_count=2,
        trial_job_spec={
            "worker_pool_specs": [python_pool(program)],
            "base_output_directory": {"output_uri_prefix": "gs://b/tuning"},
        },
    )


def _create(server: Vertex, job: v1.HyperparameterTuningJob) -> str:
    made = jobs(server).create_hyperparameter_tuning_job(parent=server.parent, hyperparameter_tuning_job=job)
    return str(made.name)


def test_tuning_trials_are_jobs_with_sampled_values(vertex: Vertex) -> None:
    job = vertex.until_tuning(_create(vertex, _job()), SUCCEEDED, FAILED)
    assert job.state == SUCCEEDED
    assert [trial.id for trial in job.trials] == ["1", "2", "3", "4"]
    assert [trial.state.name for trial in job.trials] == ["SUCCEEDED", "INFEASIBLE", "SUCCEEDED", "SUCCEEDED"]
    assert "non-zero status of 1" in job.trials[1].infeasible_reason
    for trial in (job.trials[0], job.trials[2], job.trials[3]):
        values = {each.parameter_id: each.value for each in trial.parameters}
        assert 0.001 <= values["learning_rate"] <= 0.1
        assert trial.final_measurement.metrics[0].value == pytest.approx(values["learning_rate"])
        assert [each.step_count for each in trial.measurements] == [0, 1, 2]
        printed = vertex.logs.lines(trial.custom_job.split("/")[-1], "workerpool0-0")
        assert printed == [f"gs://b/tuning/{trial.id}/checkpoints/ {trial.id}"]
    assert {trial.parameters[1].value for trial in job.trials} == {"hybrid", "deep"}


def test_cancelled_tuning_job_cancels_its_trials(vertex: Vertex) -> None:
    name = _create(vertex, _job("import time\nwhile True: time.sleep(60)"))
    vertex.state.until(lambda: len(vertex.custom_jobs()) == 2)
    jobs(vertex).cancel_hyperparameter_tuning_job(name=name)
    assert vertex.until_tuning(name, CANCELLED, SUCCEEDED, FAILED).state == CANCELLED
    assert {job.state for job in vertex.custom_jobs()} == {CANCELLED}


def test_log_scale_with_zero_minimum_is_rejected(vertex: Vertex) -> None:
    job = _job()
    job.study_spec.parameters[0].double_value_spec.min_value = 0
    with pytest.raises(exceptions.InvalidArgument, match="log scale needs positive values"):
        _create(vertex, job)
