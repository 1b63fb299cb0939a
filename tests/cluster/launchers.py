"""Launchers as separate processes, and their objects on the cluster."""

import base64
import contextlib
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kubernetes.client import CoreV1Api, CustomObjectsApi

from qcnn.components.resources import IMAGE
from qcnn.jobs.job import JobIdentity, JobSpec, run_label
from qcnn.jobs.kubernetes.api import LEASES, PODS, SERVICES, NamespaceClient, Resource
from qcnn.jobs.kubernetes.engine import TrainingJob
from qcnn.jobs.kubernetes.manifest import CONTAINER, RUN_LABEL, Manifest
from qcnn.jobs.kubernetes.retry import NOT_FOUND, RequestRejectedError
from qcnn.jobs.kubernetes.training_manifest import JobTimeouts
from qcnn.jobs.pod_settings import PodSettings
from qcnn.jobs.tfjob.engine import TFJOB, TFJOBS
from tests.cluster.programs import Program

_PROGRAM = """
import base64, pickle, sys
from qcnn.jobs.kubernetes.launch import launch
from qcnn.process.error_lines import one_line_errors

training, namespace, pending_seconds = pickle.loads(base64.b64decode(sys.argv[1]))
with one_line_errors():
    launch(training, namespace, pending_seconds=pending_seconds)
"""


def job(program: str, *, restarts: int = 0, replicas: dict[str, int] | None = None, **pod: Any) -> JobSpec:
    """Return a job whose processes run a Python program."""
    settings = {"image": IMAGE, "service_account": "qcnn-worker", "cpu": "100m", "memory": "128Mi", **pod}
    return JobSpec(
        argv=("python", "-c", program),
        replicas=replicas or {"worker": 2},
        restarts=restarts,
        heartbeat_timeout_seconds=60,
        pod=PodSettings(**settings),
    )


class Launchers:
    """Launchers of one run with role qcnn-launcher, and an API client with the permissions of KUBECONFIG."""

    def __init__(self, namespace: str, kubeconfig: Path, run: str) -> None:
        self.namespace = namespace
        self.identity = JobIdentity(run, "train")
        self.api = NamespaceClient(namespace)
        self._kubeconfig = kubeconfig
        self._started: list[Program] = []
        self._names: set[str] = set()

    def start(
        self, job: JobSpec, policy: JobTimeouts | None = None, *, pending_seconds: float = 600, namespace: str = ""
    ) -> Program:
        """Start a launcher for a job, by default in the namespace of this object."""
        training = self.training(job, policy)
        self._names.add(training.name)
        arguments = base64.b64encode(pickle.dumps((training, namespace or self.namespace, pending_seconds))).decode()
        launcher = Program(self._kubeconfig, [sys.executable, "-c", _PROGRAM, arguments])
        self._started.append(launcher)
        return launcher

    def create(self, job: JobSpec, policy: JobTimeouts | None = None) -> dict[str, Any]:
        """Create the TFJob of a job without a launcher, and return it."""
        manifest = TFJOB.manifest(job, self.identity, policy or JobTimeouts(lease_seconds=None))
        self._names.add(manifest["metadata"]["name"])
        created = self.api.create(TFJOBS, manifest)
        assert created
        return created

    def training(self, job: JobSpec, policy: JobTimeouts | None = None) -> TrainingJob:
        """Return a training job."""
        return TFJOB.training(job, self.identity, policy or JobTimeouts())

    def manifest(self, job: JobSpec, policy: JobTimeouts | None = None) -> Manifest:
        """Return the TFJob of a job."""
        return self.training(job, policy).manifest

    def name(self, job: JobSpec, policy: JobTimeouts | None = None) -> str:
        """Return the name of the TFJob of a job."""
        return str(self.manifest(job, policy)["metadata"]["name"])

    def suspend(self, job: JobSpec, suspended: bool) -> None:
        """Suspend or resume a job, as a queue does."""
        patch = {"spec": {"runPolicy": {"suspend": suspended}}}
        where = ("kubeflow.org", "v1", self.namespace, "tfjobs", self.name(job))
        CustomObjectsApi().patch_namespaced_custom_object(*where, patch)

    def delete_pod(self, job: JobSpec, process: str) -> None:
        """Delete the pod of a process of a job."""
        CoreV1Api().delete_namespaced_pod(f"{self.name(job)}-{process}", self.namespace)

    def kept_logs(self) -> list[list[str]]:
        """Return the log lines of the pods of an ended job, except of pods that the operator has deleted."""
        logs = []
        for pod in self.wait_until(PODS, lambda pods: any(pod["status"]["phase"] == "Failed" for pod in pods)):
            try:
                logs.append([text for _, text in self.api.log(pod["metadata"]["name"], CONTAINER, "", follow=False)])
            except RequestRejectedError as error:
                if error.status != NOT_FOUND:
                    raise
        return logs

    def wait_until(self, resource: Resource, condition: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
        """Wait until the objects of a kind meet a condition, and return them."""
        selector = f"{RUN_LABEL}={run_label(self.identity.run)}"
        with contextlib.closing(self.api.watch(resource, labelSelector=selector)) as watch:
            return next(list(objects.values()) for objects in watch if condition(list(objects.values())))

    def wait_until_deleted(self) -> None:
        """Wait until no object of the run exists."""
        for resource in (TFJOBS, PODS, SERVICES, LEASES):
            self.wait_until(resource, lambda objects: not objects)

    def close(self) -> None:
        """Kill the launchers and delete the TFJobs."""
        for launcher in self._started:
            launcher.close()
        for name in self._names:
            self.api.delete(TFJOBS, name)
        self.api.close()
