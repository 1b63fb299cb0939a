"""Lines of a step among those of KFP's and Argo's executors."""

import json

import pytest

from qcnn.targets.kubeflow.executor_lines import StepLines, exit_status, failure_reason
from tests.workflow_objects import FAILED_STEP

GLOG = "1121 09:00:03.000000      19 "
DOWNLOAD = f"F{GLOG}main.go:51] failed to execute component: failed to download input artifact: access denied"
DRIVER = (
    f"F{GLOG}main.go:127] KFP driver: driver.Container(pipelineName=qcnn, runID=1, task={{}}, component=()) failed: "
    "failed to resolve inputs: parameter qubits is missing"
)


def _own(lines: list[str]) -> list[str]:
    step = StepLines()
    return [line for line in lines if step.includes(line)]


def test_lines_of_executors_are_omitted() -> None:
    assert _own(FAILED_STEP) == [
        "reading the experiment",
        "error: qubits: must be at least 4 with hybrid. Given: 3",
    ]
    # Within the JSON of the executor, as in the last lines of a log.
    assert _own(FAILED_STEP[6:]) == _own(FAILED_STEP)


@pytest.mark.parametrize(
    "line",
    [
        "[worker 0] epoch 1/3",
        "  File 'a.py', line 1, in f",
        "{'a': 1}",
        "Error: no file",
        "[KFP Executor 2026-11-21 09:00:02,000 WARNING]: deprecated",
        "time=1 level=high",
        "I1121 09:00:03.000000      19 cuda_dnn.cc:8310] loaded",
        # Errors of the executors themselves.
        DOWNLOAD,
        DRIVER,
        f"E{GLOG}launcher_v2.go:449] Component failed to execute successfully: signal: killed",
    ],
)
def test_lines_of_step_are_included(line: str) -> None:
    assert _own(["first", line, "last"]) == ["first", line, "last"]


@pytest.mark.parametrize(
    "line",
    [
        f"I{GLOG}launcher_v2.go:206] publish success.",
        f"W{GLOG}launcher_v2.go:827] Local filepath does not exist",
        f"E{GLOG}launcher_v2.go:449] Component failed to execute successfully: exit status 1",
        "[KFP Executor 2026-11-21 09:00:02,000 INFO]: Wrote executor output file to /tmp/a.",
        json.dumps({"time": "2026-11-21T09:00:00Z", "level": "INFO", "argo": True}, separators=(",", ":")),
        "Error: signal: killed",
    ],
)
def test_line_of_executor_is_omitted(line: str) -> None:
    assert _own(["first", line, "last"]) == ["first", "last"]


def test_output_json_of_launcher_is_omitted() -> None:
    output = [f"I{GLOG}launcher_v2.go:1230] ExecutorOutput: {{", '  "artifacts": {}', "}"]
    assert _own(["first", *output, "  indented"]) == ["first", "  indented"]


@pytest.mark.parametrize(
    ("lines", "reason", "code"),
    [
        (FAILED_STEP, "qubits: must be at least 4 with hybrid (given: 3)", 2),
        (["Traceback", "ValueError: no", FAILED_STEP[-3]], "ValueError: no", 2),
        ([DOWNLOAD], "failed to execute component: failed to download input artifact: access denied", None),
        ([DRIVER], "failed to resolve inputs: parameter qubits is missing", None),
        (FAILED_STEP[:2], "", None),
        ([], "", None),
    ],
)
def test_failure_is_last_error_of_step(lines: list[str], reason: str, code: int | None) -> None:
    assert (failure_reason(lines), exit_status(lines)) == (reason, code)
