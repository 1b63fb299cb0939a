"""One search, one tuning job, however often its launcher is killed; its trials are small Python programs."""

import pytest
from google.cloud import aiplatform_v1 as v1

from tests.qcnn.jobs.vertex.launchers import launched
from tests.vertex.server.job_run import CANCELLED, FAILED, RUNNING, SUCCEEDED
from tests.vertex.server.vertex import Vertex

# Reports its word as its loss.
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
def test_a_search_is_gone_through_once_and_each_trial_is_said(vertex: Vertex) -> None:
    for said in ("is created", "has already succeeded"):
        with launched(vertex, _TRIAL, trials=3) as launcher:
            assert launcher.end() == 0, launcher.lines
        assert said in launcher.lines[0]
        assert launcher.lines[0].startswith("tuning job ")
        if said == "is created":
            ended = [line for line in launcher.lines if "has ended: val_loss" in line]
            assert [line.split(" (")[0] for line in sorted(ended)] == ["trial 1", "trial 2", "trial 3"]
            assert len([line for line in launcher.lines if "is running" in line and line.startswith("trial")]) <= 3
    (job,) = _jobs(vertex)
    assert job.state == SUCCEEDED
    assert job.max_failed_trial_count == 3


@pytest.mark.long
def test_a_launcher_that_is_killed_is_followed_by_one_that_adopts_and_one_told_to_end_cancels(vertex: Vertex) -> None:
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
def test_a_creation_whose_answer_is_lost_makes_no_second_search(vertex: Vertex) -> None:
    vertex.fail("JobService/CreateHyperparameterTuningJob", 503, answered=False)
    with launched(vertex, _TRIAL, trials=1) as launcher:
        assert launcher.end() == 0, launcher.lines
    assert len(_jobs(vertex)) == 1


@pytest.mark.long
def test_a_trial_that_is_stopped_early_has_its_last_loss(vertex: Vertex) -> None:
    with launched(vertex, f"{_TRIAL}\nprint('reported', flush=True)\n{_FOREVER}", trials=1) as launcher:
        (trial,) = vertex.state.until(lambda: next((job.trials for job in _jobs(vertex) if job.trials), None))
        vertex.until_line(trial.custom_job, "workerpool0-0", "reported")
        vertex.tuning.stop(_jobs(vertex)[0].name, "1")
        assert launcher.end() == 0, launcher.lines
    assert any(line.startswith("trial 1 (") and "has ended: val_loss" in line for line in launcher.lines)


@pytest.mark.long
def test_where_every_trial_fails_there_is_one_line_and_no_second_search(vertex: Vertex) -> None:
    with launched(vertex, "raise SystemExit(2)", trials=2) as launcher:
        assert launcher.end() == 2
    (job,) = _jobs(vertex)
    assert job.state == FAILED
    assert launcher.lines[-1] == f"error: tuning job: FAILED: Too many failed Trials: 2. Given: {job.name}"
    reason = "has failed: The replica workerpool0-0 exited with a non-zero status of 2."
    assert sum(reason in line for line in launcher.lines) == 2
