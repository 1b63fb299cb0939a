"""Launchers as separate processes, and their objects on the cluster."""

import base64
import contextlib
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client import CoreV1Api, CustomObjectsApi

from qcnn.components.resources import IMAGE
from qcnn.jobs.engines import ENGINES
from qcnn.jobs.job import JobIdentity, JobSpec, run_label
from qcnn.jobs.kubernetes.api import LEASES, PODS, SERVICES, NamespaceClient, Resource
from qcnn.jobs.kubernetes.create_or_adopt import create_or_adopt
from qcnn.jobs.kubernetes.engine import Engine, TrainingJob
from qcnn.jobs.kubernetes.manifest import RUN_LABEL, Manifest
from qcnn.jobs.kubernetes.retry import NOT_FOUND, RequestRejectedError
from qcnn.jobs.kubernetes.training_manifest import JobTimeouts
from qcnn.jobs.pod_settings import PodSettings
from qcnn.jobs.tfjob.engine import TFJOB
from tests.cluster.programs import Program

every_engine = pytest.mark.parametrize("engine", ENGINES.values(), ids=list(ENGINES), indirect=True)


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

    def __init__(self, namespace: str, kubeconfig: Path, run: str, engine: Engine = TFJOB) -> None:
        self.namespace = namespace
        self.engine = engine
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
        launcher = Program(self._kubeconfig, "tests.cluster.launch_process", arguments)
        self._started.append(launcher)
        return launcher

    def create(self, job: JobSpec, policy: JobTimeouts | None = None) -> dict[str, Any]:
        """Create a job without a launcher, and return it."""
        training = self.training(job, policy or JobTimeouts(lease_seconds=None))
        self._names.add(training.name)
        created, _ = create_or_adopt(self.api, self.engine, training.manifest, prerequisites=training.prerequisites)
        return created

    def training(self, job: JobSpec, policy: JobTimeouts | None = None) -> TrainingJob:
        """Return a training job."""
        return self.engine.training(job, self.identity, policy or JobTimeouts())

    def manifest(self, job: JobSpec, policy: JobTimeouts | None = None) -> Manifest:
        """Return the object of a job."""
        return self.training(job, policy).manifest

    def name(self, job: JobSpec, policy: JobTimeouts | None = None) -> str:
        """Return the name of a job."""
        return str(self.manifest(job, policy)["metadata"]["name"])

    def suspend(self, job: JobSpec, suspended: bool) -> None:
        """Suspend or resume a job, as a queue does."""
        policy = {"suspend": suspended}
        patch = {"spec": {"runPolicy": policy} if self.engine is TFJOB else policy}
        _, _, group, version = self.engine.resource.prefix.split("/")
        where = (group, version, self.namespace, self.engine.resource.plural, self.name(job))
        CustomObjectsApi().patch_namespaced_custom_object(*where, patch)

    def delete_pod(self, job: JobSpec, process: str) -> None:
        """Delete the pod of a process of a job."""
        CoreV1Api().delete_namespaced_pod(self._pod(job, process), self.namespace)

    def evict_pod(self, job: JobSpec, process: str) -> None:
        """Evict the pod of a process of a job, as the drain of a node does."""
        name = self._pod(job, process)
        CoreV1Api().create_namespaced_pod_eviction(name, self.namespace, {"metadata": {"name": name}})

    def _pod(self, job: JobSpec, process: str) -> str:
        role, index = process.split("-")
        beginning = self.engine.pod_name(self.manifest(job), role, int(index))
        (name,) = (
            pod["metadata"]["name"]
            for pod in self.wait_until(PODS, bool)
            if pod["metadata"]["name"].startswith(beginning)
        )
        return str(name)

    def kept_logs(self) -> list[list[str]]:
        """Return the log lines of the pods of an ended job, except of pods that the operator has deleted."""
        logs = []
        for pod in self.wait_until(PODS, lambda pods: any(pod["status"]["phase"] == "Failed" for pod in pods)):
            try:
                logs.append(
                    [text for _, text in self.api.log(pod["metadata"]["name"], self.engine.container, "", follow=False)]
                )
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
        for resource in (self.engine.resource, *self.engine.dependents.values(), PODS, SERVICES, LEASES):
            self.wait_until(resource, lambda objects: not objects)

    def close(self) -> None:
        """Kill the launchers and delete the jobs."""
        for launcher in self._started:
            launcher.close()
        of_run = self.api.find(self.engine.resource, labelSelector=f"{RUN_LABEL}={run_label(self.identity.run)}")
        # The jobs of a failed test would use the CPUs that the next ones request.
        for name in self._names | {each["metadata"]["name"] for each in of_run}:
            self.api.delete(self.engine.resource, name)
        self.api.close()
