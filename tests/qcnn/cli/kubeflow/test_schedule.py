"""Tests of qcnn schedule with a stub of KFP that checks the published types."""

import re
from pathlib import Path

import pytest

from qcnn.experiment.parsing import from_mapping
from qcnn.pipelines.compiler import compile_qcnn, compile_study
from qcnn.pipelines.kubeflow import KUBEFLOW
from tests.kfp_backend import IMAGE, FakeBackend, Object, spec_of
from tests.qcnn.cli.conftest import Typed


def _created(backend: FakeBackend, typed: Typed, *arguments: str) -> Object:
    image = () if "--package" in arguments else ("--image", IMAGE)
    code, out, err = typed("schedule", "create", "--host", backend.host, *image, *arguments)
    assert (code, err) == (0, "")
    made = list(backend.objects["recurringruns"].values())[-1]
    assert f"{backend.host}/#/recurringrun/details/{made['recurring_run_id']}" in out
    return made


def test_create_sends_all_fields_and_default_policy(backend: FakeBackend, typed: Typed) -> None:
    made = _created(backend, typed, "--cron", "0 9 * * MON-FRI", "--qubits", "10", "--max-restarts", "1")
    expected = from_mapping({"qubits": 10, "options": {"max_restarts": 1}}).model_dump()
    assert made["runtime_config"]["parameters"] == {**expected, "data_sha256": ""}
    assert made["trigger"] == {"cron_schedule": {"cron": "0 0 9 * * MON-FRI"}}
    assert (made["mode"], made["no_catchup"], made["max_concurrency"]) == ("ENABLE", True, "1")
    (experiment,) = backend.objects["experiments"].values()
    assert made["experiment_id"] == experiment["experiment_id"]


def test_create_derives_seed_from_run_id(backend: FakeBackend, typed: Typed) -> None:
    made = _created(backend, typed, "--interval", "10m")
    task = spec_of(made)["root"]["dag"]["tasks"]["generate-data"]
    assert task["inputs"]["parameters"]["run"] == {"runtimeValue": {"constant": "{{$.pipeline_job_uuid}}"}}
    assert task["inputs"]["parameters"]["seed"] == {"componentInputParameter": "seed"}
    assert made["trigger"] == {"periodic_schedule": {"interval_second": "600"}}


def test_create_with_package_derives_seed_from_run_id(backend: FakeBackend, typed: Typed, tmp_path: Path) -> None:
    package = tmp_path / "mine.yaml"
    compile_qcnn(KUBEFLOW, package, IMAGE)
    made = _created(backend, typed, "--interval", "10m", "--package", str(package))
    spec = spec_of(made)
    assert spec["root"]["dag"]["tasks"]["generate-data"]["inputs"]["parameters"]["run"]
    assert {each["container"]["image"] for each in spec["deploymentSpec"]["executors"].values()} == {IMAGE}
    compile_study(KUBEFLOW, package)
    code, out, err = typed("schedule", "create", "--host", backend.host, "--interval", "10m", "--package", str(package))
    assert (code, out) == (2, "")
    assert err == f"error: package: must be the main pipeline, as compiled by compile.py. Given: {package}\n"


def test_create_with_data_file_sends_no_digest(backend: FakeBackend, typed: Typed, tmp_path: Path) -> None:
    # The command does not access the bucket.
    data = ("--data", "gs://bucket/rows.csv", "--encoding", "ry")
    package = tmp_path / "mine.yaml"
    compile_qcnn(KUBEFLOW, package, IMAGE, defaults={"data": data[1], "data_sha256": 64 * "0"})
    for flags in ((), ("--package", str(package))):
        made = _created(backend, typed, "--interval", "1d", *data, *flags)
        given = made["runtime_config"]["parameters"]
        assert (given["data"], given["data_sha256"]) == ("gs://bucket/rows.csv", "")
        assert spec_of(made)["root"]["dag"]["tasks"]["generate-data"]["inputs"]["parameters"]["run"]
    create = ("schedule", "create", "--host", backend.host, "--image", IMAGE, "--interval", "1d")
    code, _, err = typed(*create, "--data", "rows.csv")
    assert (code, err.splitlines()[-1].rpartition(". Given: ")[2]) == (2, "rows.csv")


def test_create_sends_schedule_settings(backend: FakeBackend, typed: Typed) -> None:
    arguments = ("--interval", "1d", "--disabled", "--catch-up", "--max-concurrency", "3", "--run-name", "nightly")
    made = _created(backend, typed, *arguments, "--service-account", "trainer", "--pipeline-root", "gs://bucket")
    assert (made["mode"], made["no_catchup"], made["max_concurrency"]) == ("DISABLE", False, "3")
    assert (made["display_name"], made["service_account"]) == ("nightly", "trainer")
    assert made["runtime_config"]["pipeline_root"] == "gs://bucket"


def test_schedules_are_listed_and_switched_by_name_or_id(backend: FakeBackend, typed: Typed) -> None:
    assert typed("schedule", "list", "--host", backend.host)[1] == "no schedules\n"
    first = _created(backend, typed, "--cron", "@daily", "--run-name", "first")
    second = _created(backend, typed, "--interval", "90", "--run-name", "second", "--disabled", "--catch-up")
    _, out, _ = typed("schedule", "list", "--host", backend.host)
    assert [re.split(r"  +", line.strip()) for line in out.splitlines()[2:]] == [
        ["first", first["recurring_run_id"], "@daily", "enabled", "1", "no"],
        ["second", second["recurring_run_id"], "every 90 s", "disabled", "1", "yes"],
    ]
    assert typed("schedule", "enable", "second", "--host", backend.host, "--dry-run")[:2] == (
        0,
        "schedule second would be enabled\n",
    )
    assert second["status"] == "DISABLED"
    assert typed("schedule", "enable", "second", "--host", backend.host)[0] == 0
    assert second["status"] == "ENABLED"
    assert typed("schedule", "disable", first["recurring_run_id"], "--host", backend.host)[0] == 0
    assert first["status"] == "DISABLED"
    assert typed("schedule", "delete", "first", "--host", backend.host)[0] == 0
    assert list(backend.objects["recurringruns"].values()) == [second]
    code, out, err = typed("schedule", "delete", "first", "--host", backend.host)
    assert (code, out) == (2, "")
    assert re.fullmatch(r"error: schedule: must be one of second \(.*\)\. Given: first\n", err)


def test_delete_terminates_runs_of_schedule_first(backend: FakeBackend, typed: Typed) -> None:
    made = _created(backend, typed, "--interval", "90", "--run-name", "mine")
    for name, schedule, state in (
        ("running", made["recurring_run_id"], "RUNNING"),
        ("ended", made["recurring_run_id"], "SUCCEEDED"),
        ("without-schedule", None, "RUNNING"),
    ):
        where = ("--target", "kubeflow", "--host", backend.host, "--image", IMAGE)
        assert typed("submit", *where, "--run-name", name)[0] == 0
        run = list(backend.objects["runs"].values())[-1]
        run.update(state=state, **({"recurring_run_id": schedule} if schedule else {}))
    runs = {run["display_name"]: run for run in backend.objects["runs"].values()}

    def terminate(run: Object) -> None:
        run["state"] = {"CANCELING": "FAILED"}.get(run["state"], run["state"])

    backend.on_get = terminate  # type: ignore[method-assign]
    before = len(backend.calls)
    code, out, _ = typed("schedule", "delete", "mine", "--host", backend.host, "--dry-run")
    assert (code, out) == (0, "schedule mine would be deleted, its run running terminated\n")
    assert all(call.startswith("GET") for call in backend.calls[before:])
    code, out, _ = typed("schedule", "delete", "mine", "--host", backend.host)
    assert code == 0
    assert {name: run["state"] for name, run in runs.items()} == {
        "running": "FAILED",
        "ended": "SUCCEEDED",
        "without-schedule": "RUNNING",
    }
    assert out.startswith("terminating running\n")
    assert out.endswith("schedule mine is deleted\n")
    changes = [call for call in backend.calls if not call.startswith("GET")][-3:]
    assert [call.rpartition("/")[2].partition(":")[2] or call.split()[0] for call in changes] == [
        "disable",
        "terminate",
        "DELETE",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "must have either --cron or --interval"),
        (("--cron", "@daily", "--interval", "1h"), "must have either --cron or --interval"),
        (("--cron", "60 * * * *"), "minute must be in 0..59"),
        (("--interval", "1.5h"), "interval: must be"),
    ],
)
def test_create_with_impossible_times_is_an_error(
    backend: FakeBackend, typed: Typed, arguments: tuple[str, ...], message: str
) -> None:
    image = () if "--package" in arguments else ("--image", IMAGE)
    code, out, err = typed("schedule", "create", "--host", backend.host, *image, *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert re.fullmatch(r"error: [^\n]+Given: [^\n]+\n", err)
    assert backend.calls == []
