"""Training jobs as TFJobs of the training operator (v1.9.4)."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import ClassVar

from qcnn.errors import ConfigError
from qcnn.jobs.job import JobIdentity, JobSpec
from qcnn.jobs.kubernetes.api import NamespaceClient, Resource
from qcnn.jobs.kubernetes.engine import Engine
from qcnn.jobs.kubernetes.manifest import Manifest, condition
from qcnn.jobs.kubernetes.training_manifest import (
    JobTimeouts,
    check_pod,
    counts_of,
    job_metadata,
    process_template,
    profiler_service,
)

TFJOBS = Resource("/apis/kubeflow.org/v1", "tfjobs", "TFJobs are not available; install the training operator")
# Set by the operator on every pod.
JOB_NAME_LABEL = "training.kubeflow.org/job-name"
_ROLE_LABEL = "training.kubeflow.org/replica-type"
_INDEX_LABEL = "training.kubeflow.org/replica-index"
REPLICA_TYPES = {"chief": "Chief", "worker": "Worker", "ps": "PS", "evaluator": "Evaluator"}
# Conditions of a TFJob. If several are true, its state is the first in this order.
_STATES = ("Failed", "Succeeded", "Suspended", "Restarting", "Running", "Created")
_DELETING, _NEW = "Deleting", "New"


@dataclasses.dataclass(frozen=True)
class TFJobEngine(Engine):
    """Training operator v1, whose TFJobs set TF_CONFIG and restart single processes by their exit code."""

    engine: ClassVar[str] = "tfjob"
    states: ClassVar[Sequence[str]] = (*_STATES, _DELETING, _NEW)

    def manifest(
        self, job: JobSpec, identity: JobIdentity, timeouts: JobTimeouts, owner: Mapping[str, str] | None = None
    ) -> Manifest:
        """Return the TFJob of a training job."""
        metadata = job_metadata(job, identity, timeouts, owner)
        if runtime := check_pod(job).runtime:
            raise ConfigError(f"pod.runtime: only a TrainJob has one. Given: {runtime}")
        name = metadata["name"]
        run_policy: Manifest = {
            # With restart policy ExitCode, the operator ignores all values except 0, which fails the job at the first
            # retryable error. The launcher enforces the limit.
            "backoffLimit": job.restarts,
            # Keeps completed pods for inspection.
            "cleanPodPolicy": "Running",
            "ttlSecondsAfterFinished": timeouts.ttl_seconds_after_finished,
        }
        if timeouts.active_deadline_seconds is not None:
            run_policy["activeDeadlineSeconds"] = timeouts.active_deadline_seconds
        return {
            "apiVersion": "kubeflow.org/v1",
            "kind": "TFJob",
            "metadata": metadata,
            "spec": {
                "runPolicy": run_policy,
                # The job succeeds with the chief (or worker 0), which writes all outputs. With AllWorkers, a worker
                # that fails later would be restarted, and would wait forever for a process that has exited.
                "successPolicy": "",
                "tfReplicaSpecs": {
                    REPLICA_TYPES[role]: {
                        "replicas": count,
                        "restartPolicy": "ExitCode",
                        "template": process_template(job, role, identity, timeouts, name, {JOB_NAME_LABEL: name}),
                    }
                    for role, count in counts_of(job).items()
                },
            },
        }

    def services(self, job: Manifest) -> Sequence[Manifest]:
        """Return the Service of the profiler. The operator's Services have only the cluster port."""
        # The operator sets this role for the chief, or for worker 0 if there is no chief.
        leader = {JOB_NAME_LABEL: job["metadata"]["name"], "training.kubeflow.org/job-role": "master"}
        return [profiler_service(job, leader)]

    def state(self, job: Manifest) -> str:
        """Return the condition of a TFJob, Deleting, or New if it has no condition yet."""
        if "deletionTimestamp" in job["metadata"]:
            return _DELETING
        return next((kind for kind in _STATES if condition(job, kind)), _NEW)

    def replicas(self, job: Manifest) -> list[tuple[str, int]]:
        """Return role and index of each process of a TFJob."""
        specs = job["spec"]["tfReplicaSpecs"]
        counts = {role: specs[kind].get("replicas", 1) for role, kind in REPLICA_TYPES.items() if kind in specs}
        return [(role, index) for role, count in counts.items() for index in range(count)]

    def leading_template(self, api: NamespaceClient, job: Manifest) -> Manifest:
        """Return the template in the TFJob itself."""
        specs = job["spec"]["tfReplicaSpecs"]
        return dict((specs.get("Chief") or specs["Worker"])["template"])

    def pod_name(self, job: Manifest, role: str, index: int) -> str:
        """Return the name of the pod of a process, as the operator creates it (pkg/core GenGeneralName)."""
        return f"{job['metadata']['name']}-{role}-{index}"


TFJOB = TFJobEngine(
    "TFJob",
    TFJOBS,
    "Succeeded",
    JOB_NAME_LABEL,
    _ROLE_LABEL,
    _INDEX_LABEL,
    many=True,
    pods_failed="replica(s) failed",
)
