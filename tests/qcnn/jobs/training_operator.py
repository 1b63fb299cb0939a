"""Scripted controllers of training jobs for the API server in memory."""

import itertools
from typing import Any

from tests.qcnn.jobs.apiserver import ApiServer, Object

RUNNING: Object = {"running": {}}


def ended(code: int, reason: str = "Error") -> Object:
    """Return the state of a terminated container."""
    return {"terminated": {"exitCode": code, "reason": reason}}


# Successful training job with two workers.
DONE: list[Any] = [[RUNNING, RUNNING], [ended(0), RUNNING], "Succeeded"]


class Operator:
    """Controller of an engine that plays one script for each created job.

    A step of a script is a list of the states of all processes, or a condition of the job and its message.
    """

    def __init__(self, server: ApiServer, *scripts: list[Any]) -> None:
        self._server = server
        self._scripts = iter(scripts)
        self._watches = itertools.count(server.watches("pods") + 1)
        server.operator = self.run

    def run(self, job: Object) -> None:
        self._server.until_watched("pods", next(self._watches))
        for step in next(self._scripts):
            if isinstance(step, str):
                kind, _, message = step.partition(": ")
                self._server.set_condition(job, kind, message)
                continue
            for index, state in enumerate(step):
                self.show(job, index, state)

    def show(self, job: Object, index: int, state: Object | None) -> None:
        """Set the state of a pod. A terminated pod that shall run is replaced by a new one."""
        job_name = job["metadata"]["name"]
        name = f"{job_name}-worker-{index}"
        known = self._server.get("pods", name)
        if known and state == RUNNING and known["status"]["containerStatuses"][0]["state"] != RUNNING:
            self._server.remove("pods", name)
        if state is None:
            return
        labels = {
            "training.kubeflow.org/job-name": job_name,
            "training.kubeflow.org/replica-type": "worker",
            "training.kubeflow.org/replica-index": str(index),
        }
        owner = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": job_name, "uid": job["metadata"]["uid"]}
        owner |= {"controller": True, "blockOwnerDeletion": True}
        metadata = {"name": name, "labels": labels, "ownerReferences": [owner]}
        status = {"containerStatuses": [{"name": "tensorflow", "state": state}]}
        self._server.put("pods", {"metadata": metadata, "status": status})
