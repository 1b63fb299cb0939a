"""Schedules of the server, and experiments of pipeline runs, with the unmodified SDK."""

import datetime
import subprocess
import sys
from pathlib import Path

import pytest
from google.cloud import aiplatform_v1 as v1
from kfp import compiler

from tests.vertex.fake_service.errors import StatusError
from tests.vertex.fake_service.pipelines.cron import next_time
from tests.vertex.fake_service.pipelines.jobs import SUCCEEDED
from tests.vertex.fake_service.vertex import Vertex
from tests.vertex.test_server_pipelines import study

_NOW = datetime.datetime(2026, 11, 22, 10, 30, tzinfo=datetime.UTC)
_SDK = """
import os, sys, warnings
warnings.simplefilter("ignore")
from google.cloud import aiplatform
project, location, bucket, template = sys.argv[1:]
aiplatform.init(
    project=project, location=location, staging_bucket=bucket,
    api_endpoint=os.environ["CLOUDSDK_API_ENDPOINT_OVERRIDES_AIPLATFORM"],
)
job = aiplatform.PipelineJob(
    display_name="study", template_path=template, pipeline_root=f"{bucket}/root", job_id="one",
    parameter_values={"count": 2},
)
job.submit(experiment="comparison")
job.wait()
print(">", job.state.name)
print(">", aiplatform.get_experiment_df("comparison").iloc[0].to_dict())
schedule = job.create_schedule(cron="TZ=Europe/Berlin 0 3 * * *", display_name="nightly", max_run_count=1)
schedule.pause()
schedule.resume(catch_up=False)
print(">", [each.display_name for each in aiplatform.PipelineJobSchedule.list()])
print(">", schedule.resource_name)
"""


@pytest.mark.parametrize(
    ("cron", "hours", "minutes"),
    [
        ("* * * * *", 0, 1),
        ("0 * * * *", 0, 30),
        ("*/20 12-14 * * *", 1, 30),
        ("TZ=Europe/Berlin 0 3 * * *", 15, 30),
        ("0 0 * * 1", 13, 30),
    ],
)
def test_next_time_returns_first_due_time(cron: str, hours: int, minutes: int) -> None:
    assert next_time(cron, _NOW) - _NOW == datetime.timedelta(hours=hours, minutes=minutes)


@pytest.mark.parametrize("cron", ["", "* * * *", "60 * * * *", "a * * * *", "TZ=Moon/Crater 0 0 * * *", "0 0 31 2 *"])
def test_next_time_invalid_schedule_is_rejected(cron: str) -> None:
    with pytest.raises(StatusError, match="Invalid cron schedule"):
        next_time(cron, _NOW)


def test_sdk_runs_compares_and_schedules_pipeline(vertex: Vertex, tmp_path: Path) -> None:
    template = tmp_path / "study.yaml"
    compiler.Compiler().compile(study, str(template))
    done = subprocess.run(
        [sys.executable, "-c", _SDK, vertex.project, vertex.location, f"gs://{vertex.bucket}", str(template)],
        env=vertex.process_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    state, row, schedules, name = (
        line.removeprefix("> ") for line in done.stdout.splitlines() if line.startswith("> ")
    )
    assert state == "PIPELINE_STATE_SUCCEEDED"
    assert "'param.count': 2" in row
    assert "'metric.trials': 2" in row
    assert schedules == "['nightly']"
    made = vertex.tick(name)
    assert vertex.until_pipeline(made, SUCCEEDED).schedule_name == vertex.state.get(v1.Schedule, name).name
    # max_run_count is 1.
    assert vertex.tick(name) == ""
