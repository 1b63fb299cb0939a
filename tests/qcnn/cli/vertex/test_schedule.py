"""Tests of qcnn schedule --target vertex; the local Vertex AI starts due runs."""

from pathlib import Path

from google.cloud import aiplatform_v1 as v1

from tests.qcnn.cli.conftest import Typed
from tests.qcnn.cli.vertex.packages import endless_main_pipeline
from tests.vertex.fake_service.pipelines.jobs import CANCELLED, RUNNING
from tests.vertex.fake_service.vertex import Vertex

_TARGET = ("--target", "vertex")


def test_schedule_is_created_once_switched_and_deleted(vertex: Vertex, on_vertex: Typed, tmp_path: Path) -> None:
    # The response is lost. Vertex AI assigns the IDs of schedules, so a second request would create another schedule.
    vertex.fail("ScheduleService/CreateSchedule", 503, answered=False)
    arguments = (
        "--pipeline-root",
        f"gs://{vertex.bucket}/runs",
        "--package",
        endless_main_pipeline(tmp_path),
        "--run-name",
        "nightly",
    )
    code, out, err = on_vertex("schedule", "create", *_TARGET, "--cron", "0 3 * * *", "--disabled", *arguments)
    assert (code, err) == (0, "")
    (schedule,) = vertex.state.all(v1.Schedule)
    identity = schedule.name.rpartition("/")[2]
    page = f"https://console.cloud.google.com/vertex-ai/locations/us-central1/pipelines/schedules/{identity}"
    assert f"{page}?project=qcnn-tests" in out
    listed = on_vertex("schedule", "list", *_TARGET)[1].splitlines()[-1].split()
    assert listed == ["nightly", identity, "0", "3", "*", "*", "*", "disabled", "1", "no"]
    dry = on_vertex("schedule", "enable", "nightly", "--dry-run", *_TARGET)
    assert dry[:2] == (0, "schedule nightly would be enabled\n")
    assert on_vertex("schedule", "list", *_TARGET)[1].splitlines()[-1].split()[-3] == "disabled"
    assert on_vertex("schedule", "enable", "nightly", *_TARGET)[:2] == (0, "schedule nightly is enabled\n")
    run = vertex.tick(schedule.name)
    vertex.until_pipeline(run, RUNNING)
    code, out, err = on_vertex("schedule", "delete", identity, *_TARGET)
    assert (code, err) == (0, "")
    assert out.startswith(f"terminating {run.rpartition('/')[2]}\n")
    assert out.endswith("schedule nightly is deleted\n")
    assert vertex.until_pipeline(run, CANCELLED).state == CANCELLED
    assert not vertex.state.all(v1.Schedule)
    code, out, err = on_vertex("schedule", "delete", identity, *_TARGET)
    assert (code, out, err) == (2, "", f"error: schedule: must be one of none. Given: {identity}\n")
