"""Workflow and pods of a KFP run, as Argo Workflows 4.0 stores them with the configuration of KFP 2.17.

KFP configures a retry strategy for all templates, so that each task has a node of type Retry and one for each attempt.
"""

import zlib
from typing import Any

Object = dict[str, Any]

STARTED, ENDED = "2026-11-21T09:00:00Z", "2026-11-21T09:01:30Z"
_WORKFLOW = "qcnn-x7k2p"
# Argo's sidecars and the launcher of KFP, which the step container runs.
_INIT, _CONTAINERS = ("init", "kfp-launcher"), ("wait", "main")


class RunObjects:
    """Workflow and pods of one run."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._nodes: dict[str, Object] = {}
        self.status: Object = {"phase": "Running", "startedAt": STARTED, "nodes": self._nodes}
        self.pods: list[Object] = []
        for name, kind in (("", "Retry"), ("(0)", "DAG"), ("(0).root", "Retry"), ("(0).root(0)", "DAG")):
            self._add(name, kind, "Running")

    @property
    def workflow(self) -> Object:
        """The Workflow as the API returns it."""
        labels = {"pipeline/runid": self._run, "workflows.argoproj.io/phase": self.status["phase"]}
        return {
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "Workflow",
            "metadata": {"name": _WORKFLOW, "labels": labels},
            "spec": {},
            "status": self.status,
        }

    def step(
        self,
        name: str,
        phase: str,
        pod: Object | None = None,
        message: str = "",
        *,
        is_driver: bool = False,
        attempt: int = 0,
        in_loop: str = "",
        started: str = STARTED,
    ) -> str:
        """Add a step or a driver with the phase of its last pod, and return the name of the pod.

        Args:
            name: Name of the task.
            phase: Phase of the node of its pod.
            pod: Status of the pod. None: the pod does not exist.
            message: Message of the node of its pod.
            is_driver: Whether the task has no tasks within, such as a driver.
            attempt: Number of the attempt, after 0 to `attempt` - 1.
            in_loop: Path of the loop that contains the task.
            started: Start of the task.
        """
        ended = phase in ("Succeeded", "Failed", "Error")
        # The task itself is not pending while its pod is.
        of_task = phase if ended else "Running"
        path = f"(0).root(0){in_loop}.{name}"
        self._add(path, "Retry", of_task, started=started)
        if not is_driver:
            self._add(f"{path}(0)", "DAG", of_task, started=started)
            path = f"{path}(0).executor"
            self._add(path, "Retry", of_task, started=started)
        template = "system-container-driver" if is_driver else "retry-system-container-impl"
        node = self._add(f"{path}({attempt})", "Pod", phase, message, template, started)
        pod_name = f"{_WORKFLOW}-{template}-{node['id'].rpartition('-')[2]}"
        if pod is not None:
            self.pods.append(self._pod(pod_name, node, pod))
            for each in pod.get("containerStatuses", ()):
                if each["name"] == "main" and "terminated" in each["state"]:
                    node["outputs"] = {"exitCode": str(each["state"]["terminated"]["exitCode"])}
        return pod_name

    def omit(self, name: str) -> None:
        """Add a task that Argo omits because a task before it failed."""
        self._add(f"(0).root(0).{name}", "Skipped", "Omitted", "omitted: depends condition not met")

    def _add(
        self, path: str, kind: str, phase: str, message: str = "", template: str = "", started: str = STARTED
    ) -> Object:
        name = f"{_WORKFLOW}{path}"
        identity = f"{_WORKFLOW}-{zlib.crc32(name.encode())}"
        ended = {"finishedAt": ENDED} if phase in ("Succeeded", "Failed", "Error", "Omitted") else {"finishedAt": None}
        self._nodes[identity] = {
            **{"id": identity, "name": name, "displayName": name.rpartition(".")[2], "type": kind, "phase": phase},
            **{"templateName": template, "startedAt": started, **ended, **({"message": message} if message else {})},
        }
        return self._nodes[identity]

    def _pod(self, name: str, node: Object, status: Object) -> Object:
        return {
            "metadata": {
                "name": name,
                "labels": {"pipeline/runid": self._run, "workflows.argoproj.io/workflow": _WORKFLOW},
                "annotations": {
                    "workflows.argoproj.io/node-id": node["id"],
                    "workflows.argoproj.io/node-name": node["name"],
                },
                # The API server of the tests assigns another one.
                "uid": f"uid-{name}",
            },
            "spec": {
                "initContainers": [{"name": container} for container in _INIT],
                "containers": [{"name": container} for container in _CONTAINERS],
            },
            "status": {"startTime": node["startedAt"], **status},
        }


def pod_status(phase: str, main: Object, **others: Any) -> Object:
    """Return the status of a pod with the state of its step container; its init containers have ended."""
    ended = {"terminated": {"exitCode": 0, "reason": "Completed"}}
    return {
        "phase": phase,
        "initContainerStatuses": [{"name": name, "state": ended} for name in _INIT],
        "containerStatuses": [{"name": "main", "state": main}, {"name": "wait", "state": {"running": {}}}],
        **others,
    }


def pulling(message: str = 'Back-off pulling image "none:1": ErrImagePull: not found') -> Object:
    """Return the status of a pod whose image cannot be pulled."""
    return pod_status("Pending", {"waiting": {"reason": "ImagePullBackOff", "message": message}})


def failed(code: int = 1, reason: str = "Error") -> Object:
    """Return the status of a pod whose step container has failed."""
    return pod_status("Failed", {"terminated": {"exitCode": code, "reason": reason}})


# Log of a step that exits with status 2, as KFP 2.17 and Argo Workflows 4.0 print it.
FAILED_STEP = [
    'time=2026-11-21T09:00:00.100Z level=INFO msg="capturing logs" argo=true',
    "I1121 09:00:00.200000      19 main.go:57] Setting log level to: '1'",
    "[KFP Executor 2026-11-21 09:00:01,000 INFO]: --component_module_path is not specified. Looking for component "
    "`generate_data` in config file `kfp_config.ini` instead",
    "[KFP Executor 2026-11-21 09:00:02,000 INFO]: Got executor_input:",
    "{",
    '    "inputs": {',
    '        "parameterValues": {',
    '            "qubits": 3',
    "        }",
    "    }",
    "}",
    "reading the experiment",
    "error: qubits: must be at least 4 with hybrid. Given: 3",
    "E1121 09:00:03.000000      19 launcher_v2.go:449] Component failed to execute successfully: exit status 2",
    "I1121 09:00:03.100000      19 launcher_v2.go:867] Executing uploadOutputArtifacts attempt: 1",
    'W1121 09:00:03.200000      19 launcher_v2.go:827] Local filepath "/minio/mlpipeline/dataset" does not exist',
    "I1121 09:00:03.300000      19 launcher_v2.go:206] publish success.",
    "F1121 09:00:03.400000      19 main.go:51] failed to execute component: exit status 2",
    'time=2026-11-21T09:00:03.500Z level=INFO msg="sub-process exited" argo=true error="exit status 1"',
    "Error: exit status 1",
]
