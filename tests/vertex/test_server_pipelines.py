"""Pipeline jobs of the server: compiled by KFP and run as local processes."""

from pathlib import Path

# KFP supports only these type names.
from typing import Any, Dict, List  # noqa: UP035

import pytest
import yaml
from google.api_core import exceptions
from google.cloud import aiplatform_v1 as v1
from kfp import compiler, dsl

from tests.vertex.clients import jobs, pipelines
from tests.vertex.fake_service.pipelines.jobs import CANCELLED, FAILED, SUCCEEDED
from tests.vertex.fake_service.vertex import Vertex

_STATES = v1.PipelineTaskDetail.State


@dsl.component(base_image="image", install_kfp_package=False)
def plan(count: int, factors: Dict[str, float], table: dsl.Output[dsl.Dataset]) -> List[str]:  # noqa: UP006
    from pathlib import Path

    Path(table.path).write_text(f"{count} {factors['a']}")
    table.metadata["rows"] = count
    return [f"trial-{index}" for index in range(count)]


@dsl.container_component
def trial(name: str, table: dsl.Input[dsl.Dataset], found: dsl.Output[dsl.Artifact]) -> dsl.ContainerSpec:
    program = 'mkdir -p "$2" && echo "$0 $(cat "$1")" > "$2/text"'
    return dsl.ContainerSpec(image="image", command=["sh", "-ec", program], args=[name, table.path, found.path])


@dsl.component(base_image="image", install_kfp_package=False)
def gather(found: dsl.Input[list[dsl.Artifact]], measured: dsl.Output[dsl.Metrics]) -> str:
    from pathlib import Path

    texts = sorted(Path(each.path, "text").read_text().strip() for each in found)
    measured.log_metric("trials", len(texts))
    return "; ".join(texts)


@dsl.container_component
def echo(text: str) -> dsl.ContainerSpec:
    return dsl.ContainerSpec(image="image", command=["echo", text])


@dsl.pipeline(name="study")
def study(count: int = 2, factors: Dict[str, float] = {"a": 0.5}) -> None:  # noqa: B006, UP006
    planned = plan(count=count, factors=factors)
    with dsl.ParallelFor(planned.outputs["Output"], parallelism=1) as name:
        each = trial(name=name, table=planned.outputs["table"])
    gathered = gather(found=dsl.Collected(each.outputs["found"]))
    with dsl.If(gathered.outputs["Output"] == "nothing"):
        echo(text="no")
    with dsl.Else():
        echo(text=f"{gathered.outputs['Output']} in {dsl.PIPELINE_JOB_NAME_PLACEHOLDER}")


@dsl.container_component
def run(program: str) -> dsl.ContainerSpec:
    return dsl.ContainerSpec(image="image", command=["sh", "-ec", program])


@dsl.pipeline(name="chain")
def chain(program: str) -> None:
    first = run(program=program)
    first.set_retry(num_retries=2, backoff_duration="10s")
    run(program="echo second").after(first)


@dsl.pipeline(name="branches")
def branches(waiting: str) -> None:
    run(program="exit 4")
    first = run(program=waiting)
    run(program="echo third").after(first)


def _job(server: Vertex, pipeline: Any, folder: Path, **parameters: Any) -> v1.PipelineJob:
    compiler.Compiler().compile(pipeline, str(folder / "pipeline.yaml"))
    return v1.PipelineJob(
        display_name="job",
        pipeline_spec=yaml.safe_load((folder / "pipeline.yaml").read_text()),
        runtime_config={"gcs_output_directory": f"gs://{server.bucket}/root", "parameter_values": parameters},
    )


def _run(server: Vertex, job: v1.PipelineJob, name: str = "one") -> v1.PipelineJob:
    made = pipelines(server).create_pipeline_job(parent=server.parent, pipeline_job=job, pipeline_job_id=name)
    return server.until_pipeline(made.name, SUCCEEDED, FAILED, CANCELLED)


def _states(job: v1.PipelineJob) -> dict[str, str]:
    return {detail.task_name: detail.state.name for detail in job.job_detail.task_details}


def _output_lines(server: Vertex, detail: v1.PipelineTaskDetail) -> list[str]:
    return server.logs.lines(detail.executor_detail.container_detail.main_job.split("/")[-1], "workerpool0-0")


def test_pipeline_with_loop_and_condition_succeeds(vertex: Vertex, tmp_path: Path) -> None:
    job = _run(vertex, _job(vertex, study, tmp_path, count=3))
    assert job.state == SUCCEEDED, job.error
    states = _states(job)
    assert states["condition-3"] == "NOT_TRIGGERED"
    assert {states["plan"], states["for-loop-1"], states["gather"], states["condition-4"]} == {"SUCCEEDED"}
    details = {detail.task_name: detail for detail in job.job_detail.task_details}
    assert dict(details["gather"].outputs["measured"].artifacts[0].metadata) == {"trials": 3.0}
    assert dict(details["plan"].outputs["table"].artifacts[0].metadata) == {"rows": 3.0}
    assert details["gather"].execution.metadata["output:Output"].startswith("trial-0 3 0.5; trial-1 3 0.5; trial-2")
    (echoed,) = (each for name, each in details.items() if name.startswith("echo") and each.state == _STATES.SUCCEEDED)
    assert _output_lines(vertex, echoed) == ["trial-0 3 0.5; trial-1 3 0.5; trial-2 3 0.5 in one"]
    assert job.job_detail.pipeline_run_context.name.endswith("metadataStores/default/contexts/one")


def test_repeated_pipeline_skips_cached_steps(vertex: Vertex, tmp_path: Path) -> None:
    job = _job(vertex, chain, tmp_path, program="echo first")
    assert set(_states(_run(vertex, job)).values()) == {"SUCCEEDED"}
    states = _states(_run(vertex, job, "two"))
    assert [states["run"], states["run-2"]] == ["SKIPPED", "SKIPPED"]


def test_step_that_fails_is_retried_then_fails_run(vertex: Vertex, tmp_path: Path) -> None:
    job = _run(vertex, _job(vertex, chain, tmp_path, program="echo tried; exit 4"))
    assert job.state == FAILED
    assert "some tasks failed. The failed tasks are: [run]" in job.error.message
    assert "non-zero status of 4" in job.error.message
    details = {detail.task_name: detail for detail in job.job_detail.task_details}
    assert len(details["run"].executor_detail.container_detail.failed_main_jobs) == 2
    assert details["run-2"].state == _STATES.NOT_TRIGGERED


@pytest.mark.parametrize(("policy", "third"), [("FAIL_SLOW", "SUCCEEDED"), ("FAIL_FAST", "NOT_TRIGGERED")])
def test_failure_policy_determines_whether_other_tasks_run(
    vertex: Vertex, tmp_path: Path, policy: str, third: str
) -> None:
    sign = tmp_path / "sign"
    job = _job(vertex, branches, tmp_path, waiting=f"until [ -e {sign} ]; do sleep 0.05; done")
    job.runtime_config.failure_policy = getattr(v1.PipelineFailurePolicy, f"PIPELINE_FAILURE_POLICY_{policy}")
    name = pipelines(vertex).create_pipeline_job(parent=vertex.parent, pipeline_job=job, pipeline_job_id="one").name
    vertex.state.until(lambda: _states(vertex.state.copy(v1.PipelineJob, name)).get("run") == "FAILED" or None)
    sign.touch()
    ended = vertex.until_pipeline(name, SUCCEEDED, FAILED, CANCELLED)
    assert ended.state == FAILED
    assert [_states(ended)[name] for name in ("run", "run-2", "run-3")] == ["FAILED", "SUCCEEDED", third]


def test_cancelled_pipeline_terminates_its_steps(vertex: Vertex, tmp_path: Path) -> None:
    program = "trap 'echo SIGTERM; exit 0' TERM; echo started; while true; do sleep 0.1; done"
    client = pipelines(vertex)
    job = client.create_pipeline_job(
        parent=vertex.parent, pipeline_job=_job(vertex, chain, tmp_path, program=program), pipeline_job_id="one"
    )
    step = vertex.state.until(lambda: next(iter(vertex.state.all(v1.CustomJob)), None))
    assert step
    vertex.until_line(step.name, "workerpool0-0", "started")
    client.cancel_pipeline_job(name=job.name)
    ended = vertex.until_pipeline(job.name, SUCCEEDED, FAILED, CANCELLED)
    assert ended.state == CANCELLED
    assert _states(ended)["run"] == "CANCELLED"
    assert vertex.logs.lines(step.name.split("/")[-1], "workerpool0-0") == ["started", "SIGTERM"]
    client.delete_pipeline_job(name=job.name).result()
    with pytest.raises(exceptions.NotFound):
        client.get_pipeline_job(name=job.name)
    assert jobs(vertex).get_custom_job(name=step.name)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"parameters": {"program": 1}}, "'program' must be of type STRING"),
        ({"parameters": {}}, "'program' is required"),
        ({"parameters": {"program": "", "more": 1}}, "not defined in the pipeline"),
        ({"root": "file:///tmp"}, "must be a path in a bucket"),
        ({"unknown": True}, "Invalid pipeline_spec"),
        ({"name": "With capitals"}, "Invalid pipeline_job_id"),
    ],
)
def test_create_pipeline_job_invalid_request_is_rejected(
    vertex: Vertex, tmp_path: Path, change: dict[str, Any], expected: str
) -> None:
    job = _job(vertex, chain, tmp_path, **change.get("parameters", {"program": ""}))
    if "root" in change:
        job.runtime_config.gcs_output_directory = change["root"]
    if "unknown" in change:
        job.pipeline_spec = {**yaml.safe_load((tmp_path / "pipeline.yaml").read_text()), "more": 1}
    with pytest.raises(exceptions.InvalidArgument, match=expected):
        _run(vertex, job, change.get("name", "one"))


def test_create_pipeline_job_existing_id_is_rejected(vertex: Vertex, tmp_path: Path) -> None:
    job = _job(vertex, chain, tmp_path, program="true")
    _run(vertex, job)
    with pytest.raises(exceptions.AlreadyExists):
        _run(vertex, job)
