"""qcnn schedule --target vertex as a user types it; the local Vertex AI runs what is due."""

from pathlib import Path

from google.cloud import aiplatform_v1 as v1

from tests.qcnn.cli.conftest import Typed
from tests.qcnn.cli.vertex.packages import endless_main_pipeline
from tests.vertex.server.pipelines.jobs import CANCELLED, RUNNING
from tests.vertex.server.vertex import Vertex

_TARGET = ("--target", "vertex")


def test_a_schedule_is_made_once_changed_and_deleted_with_its_runs(
    vertex: Vertex, on_vertex: Typed, tmp_path: Path
) -> None:
    # Its answer is lost; Vertex AI gives schedules ids of its own, so a second request would make another one.
    vertex.fail("ScheduleService/CreateSchedule", 503, answered=False)
    words = (
        "--pipeline-root",
        f"gs://{vertex.bucket}/runs",
        "--package",
        endless_main_pipeline(tmp_path),
        "--run-name",
        "nightly",
    )
    code, out, err = on_vertex("schedule", "create", *_TARGET, "--cron", "0 3 * * *", "--disabled", *words)
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
