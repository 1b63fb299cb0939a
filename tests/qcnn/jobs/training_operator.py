"""A training operator that does what a test says, on an API server that keeps objects in memory."""

import itertools
from typing import Any

from tests.qcnn.jobs.apiserver import ApiServer, Object

RUNNING: Object = {"running": {}}


def ended(code: int, reason: str = "Error") -> Object:
    """Return the state of a container that has ended."""
    return {"terminated": {"exitCode": code, "reason": reason}}


# A training of two workers that succeeds.
DONE: list[Any] = [[RUNNING, RUNNING], [ended(0), RUNNING], "Succeeded"]


class Operator:
    """Starts and ends the processes of TFJobs: for each TFJob that is created, what happens from then on.

    That is a list of the states of all processes, or a condition of the TFJob and its message.
    """

    def __init__(self, server: ApiServer, *lives: list[Any]) -> None:
        self._server = server
        self._lives = iter(lives)
        self._watches = itertools.count(server.watches("pods") + 1)
        server.operator = self.run

    def run(self, job: Object) -> None:
        self._server.until_watched("pods", next(self._watches))
        for moment in next(self._lives):
            if isinstance(moment, str):
                kind, _, message = moment.partition(": ")
                self._server.set_condition(job, kind, message)
                continue
            for index, state in enumerate(moment):
                self.show(job, index, state)

    def show(self, job: Object, index: int, state: Object | None) -> None:
        """Bring a pod to a state; where it has ended and is to run, another one takes its place."""
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
