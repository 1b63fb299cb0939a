"""Whether a pod is being taken away."""

import signal
import subprocess
import sys
from typing import Any

import pytest

from qcnn.jobs.tfjob.termination import is_going
from tests.qcnn.jobs.apiserver import ApiServer


@pytest.mark.parametrize(
    ("metadata", "status", "expected"),
    [
        ({}, {"phase": "Running"}, False),
        ({}, {"conditions": [{"type": "Ready", "status": "True"}]}, False),
        # Terminating a run leaves its pods.
        ({}, {"phase": "Failed", "conditions": [{"type": "Ready", "status": "False"}]}, False),
        ({}, {"conditions": [{"type": "DisruptionTarget", "status": "False"}]}, False),
        ({}, {"conditions": [{"type": "DisruptionTarget", "status": "True"}]}, True),
        ({"deletionTimestamp": "2026-11-22T08:00:00Z"}, {"phase": "Running"}, True),
    ],
)
def test_a_pod_is_going_where_it_is_deleted_or_its_node_ends_it(
    metadata: dict[str, Any], status: dict[str, Any], expected: bool
) -> None:
    assert is_going({"metadata": metadata, "status": status}) is expected


_PROGRAM = """
import signal, sys
from qcnn.jobs.kubernetes.api import Api
from qcnn.jobs.tfjob.termination import Termination
api = Api("a")
with Termination(api, "mine", lambda: sys.argv[1] == "evicted").installed():
    print("up", flush=True)
    signal.pause()
"""


def _end(number: signal.Signals, why: str = "terminated") -> tuple[int, str]:
    """Tell a launcher to end; return its exit code and the line with which it ended."""
    command = [sys.executable, "-c", _PROGRAM, why]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as launcher:
        assert launcher.stdout
        assert launcher.stdout.readline() == "up\n"
        launcher.send_signal(number)
        output, _ = launcher.communicate(timeout=60)
    return launcher.returncode, output


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_launcher_that_is_told_to_end_deletes_its_job(api_server: ApiServer, number: signal.Signals) -> None:
    for name in ("mine", "another"):
        api_server.put("tfjobs", {"metadata": {"name": name}})
    code, said = _end(number)
    assert (code, said) == (128 + number, f"ended by {number.name}; its TFJob is deleted. Given: mine\n")
    assert [job["metadata"]["name"] for job in api_server.all("tfjobs")] == ["another"]


def test_a_launcher_that_has_created_nothing_says_so(api_server: ApiServer) -> None:
    code, said = _end(signal.SIGTERM)
    assert (code, said) == (143, "ended by SIGTERM; no TFJob of it was found. Given: mine\n")


def test_a_launcher_whose_pod_is_evicted_leaves_its_job_to_the_next(api_server: ApiServer) -> None:
    api_server.put("tfjobs", {"metadata": {"name": "mine"}})
    code, said = _end(signal.SIGTERM, "evicted")
    assert (code, said) == (143, "ended by SIGTERM, as its pod is; its TFJob stays. Given: mine\n")
    assert api_server.get("tfjobs", "mine")
