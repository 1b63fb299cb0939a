"""Training jobs as TrainJobs of Kubeflow Trainer (v2.3), which runs each as a JobSet (v0.12).

A TrainJob has processes of one kind. Therefore each job owns a TrainingRuntime with a replicated job for each role.
Trainer makes no TF_CONFIG: each pod derives it from its completion index. With a runtime of the platform, the TrainJob
sets image, command, number, resources and environment of its processes, which are all workers.
"""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import ClassVar

from qcnn.errors import ConfigError
from qcnn.jobs.job import JobIdentity, JobSpec
from qcnn.jobs.kubernetes.api import NamespaceClient, Resource
from qcnn.jobs.kubernetes.engine import Engine
from qcnn.jobs.kubernetes.manifest import HASH_ANNOTATION, Manifest, annotation, condition
from qcnn.jobs.kubernetes.training_manifest import (
    CLUSTER_PORT,
    JobTimeouts,
    check_pod,
    counts_of,
    job_metadata,
    owned_metadata,
    process_template,
    profiler_service,
)
from qcnn.jobs.pod_settings import PodSettings
from qcnn.process.exit_codes import LAST_PERMANENT
from qcnn.process.roles import CHIEF, EVALUATOR, ROLES, WORKER

_GROUP, _VERSION = "trainer.kubeflow.org", "v1alpha1"
_MISSING = "TrainJobs are not available; install Kubeflow Trainer"
TRAINJOBS = Resource(f"/apis/{_GROUP}/{_VERSION}", "trainjobs", _MISSING)
RUNTIMES = Resource(f"/apis/{_GROUP}/{_VERSION}", "trainingruntimes", _MISSING)
JOBSETS = Resource("/apis/jobset.x-k8s.io/v1alpha2", "jobsets", "JobSets are not available; install JobSet")
# Set by JobSet on every pod. The name of a JobSet is that of its TrainJob.
NAME_LABEL = "jobset.sigs.k8s.io/jobset-name"
_ROLE_LABEL = "jobset.sigs.k8s.io/replicatedjob-name"
_ATTEMPT_LABEL = "jobset.sigs.k8s.io/restart-attempt"
# Set by Kubernetes on every pod of an indexed Job.
_INDEX_LABEL = "batch.kubernetes.io/job-completion-index"
# Trainer sets the number of nodes in the replicated job with this label.
_STEP_LABEL = f"{_GROUP}/trainjob-ancestor-step"
_FRAMEWORK_LABEL = f"{_GROUP}/framework"
# Trainer requires this name of the container. Runtimes of a platform also have it for the replicated job of processes.
_CONTAINER = _NODE = "node"
# Pod settings that a TrainJob can set with a runtime of the platform. `vertex` has no effect on Kubernetes.
_WITH_RUNTIME = {
    *("runtime", "engine", "image", "cpu", "memory", "gpus", "roles", "environment", "secrets", "log_format"),
    *("service_account", "queue", "labels", "metrics_port", "vertex"),
}
# Number of processes of each role as JSON, because a TrainJob only has the number of workers.
_REPLICAS_ANNOTATION = "qcnn/replicas"
_INDEX_VARIABLE = "QCNN_INDEX"
_DELETING, _NEW = "Deleting", "New"
# States by condition. If several are true, the state is the first in this order.
_STATES = {"Failed": "Failed", "Complete": "Succeeded", "Suspended": "Suspended"}


@dataclasses.dataclass(frozen=True)
class TrainJobEngine(Engine):
    """Kubeflow Trainer v2, whose TrainJobs restart all processes after the loss of one."""

    engine: ClassVar[str] = "trainjob"
    has_runtimes: ClassVar[bool] = True
    states: ClassVar[Sequence[str]] = (*_STATES.values(), "Running", "Created", _DELETING, _NEW)

    def manifest(
        self, job: JobSpec, identity: JobIdentity, timeouts: JobTimeouts, owner: Mapping[str, str] | None = None
    ) -> Manifest:
        """Return the TrainJob of a training job."""
        counts, metadata = counts_of(job), job_metadata(job, identity, timeouts, owner)
        metadata["annotations"][_REPLICAS_ANNOTATION] = json.dumps(counts)
        name, pod = metadata["name"], check_pod(job)
        # A digest of the settings, because a job with other settings needs another runtime.
        kind, runtime = "TrainingRuntime", f"{name}-{metadata['annotations'][HASH_ANNOTATION][:8]}"
        trainer: Manifest = {"numNodes": counts[_leader(counts)]}
        if pod.runtime:
            _check_runtime(pod, counts)
            namespaced, _, runtime = pod.runtime.rpartition("/")
            kind = namespaced or "ClusterTrainingRuntime"
            trainer |= _trainer(process_template(job, WORKER, identity, timeouts, name, {}), counts, name)
        spec: Manifest = {
            "runtimeRef": {"apiGroup": _GROUP, "kind": kind, "name": runtime},
            "trainer": trainer,
        }
        if timeouts.active_deadline_seconds is not None:
            spec["activeDeadlineSeconds"] = timeouts.active_deadline_seconds
        return {"apiVersion": f"{_GROUP}/{_VERSION}", "kind": "TrainJob", "metadata": metadata, "spec": spec}

    def prerequisites(
        self, job: JobSpec, identity: JobIdentity, timeouts: JobTimeouts, manifest: Manifest
    ) -> Sequence[tuple[Resource, Manifest]]:
        """Return the TrainingRuntime of a training job, unless the platform has prepared one."""
        if check_pod(job).runtime:
            return ()
        counts = counts_of(job)
        name = manifest["metadata"]["name"]
        metadata = owned_metadata(manifest, manifest["spec"]["runtimeRef"]["name"])
        metadata["labels"] |= {_FRAMEWORK_LABEL: "tensorflow"}
        spec: Manifest = {
            "failurePolicy": {
                "maxRestarts": job.restarts,
                "rules": [
                    {"name": "permanent", "action": "FailJobSet", "onJobFailureReasons": ["PodFailurePolicy"]},
                ],
            },
            # The job succeeds with the process that writes all outputs.
            "successPolicy": {"operator": "All", "targetReplicatedJobs": [_leader(counts)]},
            # Only the processes are deleted then. The TrainJob remains.
            "ttlSecondsAfterFinished": timeouts.ttl_seconds_after_finished,
            "replicatedJobs": [_replicated_job(job, role, counts, identity, timeouts, name) for role in sorted(counts)],
        }
        runtime = {
            "apiVersion": f"{_GROUP}/{_VERSION}",
            "kind": "TrainingRuntime",
            "metadata": metadata,
            "spec": {"mlPolicy": {"numNodes": 1}, "template": {"spec": spec}},
        }
        return [(RUNTIMES, runtime)]

    def services(self, job: Manifest) -> Sequence[Manifest]:
        """Return the Service of the profiler."""
        role, index = self.replicas(job)[0]
        leader = {
            NAME_LABEL: job["metadata"]["name"],
            _ROLE_LABEL: _replicated_job_name(job, role),
            _INDEX_LABEL: str(index),
        }
        return [profiler_service(job, leader)]

    def state(self, job: Manifest) -> str:
        """Return the state of a TrainJob, which has no condition while it runs."""
        if "deletionTimestamp" in job["metadata"]:
            return _DELETING
        for kind, state in _STATES.items():
            if condition(job, kind):
                return state
        status = job.get("status", {})
        is_running = any(each.get("active") or each.get("ready") for each in status.get("jobsStatus", ()))
        return "Running" if is_running else "Created" if status else _NEW

    def began(self, job: Manifest) -> str | None:
        """Return when a TrainJob was created, because its status has no times."""
        return str(job["metadata"]["creationTimestamp"]) if job.get("status") else None

    def replicas(self, job: Manifest) -> list[tuple[str, int]]:
        """Return role and index of each process of a TrainJob, first those of the role that writes the model."""
        counts = json.loads(annotation(job["metadata"], _REPLICAS_ANNOTATION) or "{}")
        return [(role, index) for role, count in counts.items() for index in range(count)]

    def role_of(self, labels: Mapping[str, str]) -> str:
        """Return the role of the process in a pod. A runtime of the platform may have pods without a process."""
        name = labels.get(_ROLE_LABEL, "")
        return WORKER if name == _NODE else name if name in ROLES else ""

    def leading_template(self, api: NamespaceClient, job: Manifest) -> Manifest:
        """Return the template in the TrainingRuntime of the TrainJob."""
        if _has_platform_runtime(job):
            raise ConfigError(
                "TrainJob: its pods are those of a runtime of the platform; give --model and pod settings. "
                f"Given: {job['metadata']['name']}"
            )
        name = job["spec"]["runtimeRef"]["name"]
        runtime = api.get(RUNTIMES, name)
        if runtime is None:
            raise ConfigError(f"TrainJob: its TrainingRuntime no longer exists; give --model. Given: {name}")
        role, _ = self.replicas(job)[0]
        jobs = {each["name"]: each for each in runtime["spec"]["template"]["spec"]["replicatedJobs"]}
        return dict(jobs[role]["template"]["spec"]["template"])

    def pod_name(self, job: Manifest, role: str, index: int) -> str:
        """Return the beginning of the name of the pod of a process."""
        return f"{job['metadata']['name']}-{_replicated_job_name(job, role)}-0-{index}-"


def _leader(counts: Mapping[str, int]) -> str:
    """Return the role that writes the model. Trainer gives it a token for the status of the TrainJob."""
    return CHIEF if CHIEF in counts else WORKER


def _has_platform_runtime(job: Manifest) -> bool:
    return "image" in job["spec"]["trainer"]


def _replicated_job_name(job: Manifest, role: str) -> str:
    return _NODE if _has_platform_runtime(job) else role


def _check_runtime(pod: PodSettings, counts: Mapping[str, int]) -> None:
    """Raise ConfigError if a TrainJob with a runtime of the platform cannot have these settings or processes."""
    if others := sorted(set(counts) - {WORKER}):
        raise ConfigError(f"pod.runtime: has only workers, and no {' or '.join(others)}. Given: {pod.runtime}")
    # A pipeline passes all settings to its train step, also those that are defaults.
    if others := sorted(pod.model_dump(exclude_defaults=True).keys() - _WITH_RUNTIME):
        raise ConfigError(f"pod.runtime: determines {', '.join(others)}, which must be omitted. Given: {pod.runtime}")


def _trainer(template: Manifest, counts: Mapping[str, int], name: str) -> Manifest:
    """Return the fields of a TrainJob with which it changes the processes of a runtime of the platform."""
    (container,) = template["spec"]["containers"]
    return {
        "image": container["image"],
        "command": container["command"],
        "resourcesPerNode": container["resources"],
        "env": container["env"] + _cluster_variables(WORKER, counts, name, {WORKER: _NODE}),
    }


def _replicated_job(
    job: JobSpec, role: str, counts: Mapping[str, int], identity: JobIdentity, timeouts: JobTimeouts, name: str
) -> Manifest:
    template = process_template(job, role, identity, timeouts, name, {NAME_LABEL: name})
    template["spec"]["restartPolicy"] = "Never"
    (container,) = template["spec"]["containers"]
    container["name"] = _CONTAINER
    container["env"] += _cluster_variables(role, counts, name)
    permanent = {"containerName": _CONTAINER, "operator": "In", "values": list(range(1, LAST_PERMANENT + 1))}
    labels = {_STEP_LABEL: "trainer"} if role == _leader(counts) else {}
    return {
        "name": role,
        "template": {
            "metadata": {"labels": labels},
            "spec": {
                "parallelism": counts[role],
                "completions": counts[role],
                "backoffLimit": 0,
                "podFailurePolicy": {"rules": [{"action": "FailJob", "onExitCodes": permanent}]},
                # After a suspension, a new process must not start before the old one of its index has ended.
                "podReplacementPolicy": "Failed",
                "template": template,
            },
        },
    }


def _cluster_variables(
    role: str, counts: Mapping[str, int], name: str, names: Mapping[str, str] | None = None
) -> list[Manifest]:
    """Return the variables with TF_CONFIG, as in a TFJob: without evaluators among the processes of the cluster.

    Args:
        role: Role of the process.
        counts: Number of processes by role.
        name: Name of the job.
        names: Names of replicated jobs by role, where they differ from the role.
    """
    if sum(counts.values()) == 1:
        return []
    cluster = {
        each: [f"{name}-{(names or {}).get(each, each)}-0-{index}.{name}:{CLUSTER_PORT}" for index in range(count)]
        for each, count in counts.items()
        if each != EVALUATOR
    }
    # Kubernetes inserts the index.
    task = f'{{"type": "{role}", "index": $({_INDEX_VARIABLE})}}'
    config = f'{{"cluster": {json.dumps(cluster)}, "task": {task}, "environment": "cloud"}}'
    index = {"fieldRef": {"fieldPath": f"metadata.annotations['{_INDEX_LABEL}']"}}
    return [{"name": _INDEX_VARIABLE, "valueFrom": index}, {"name": "TF_CONFIG", "value": config}]


TRAINJOB = TrainJobEngine(
    "TrainJob",
    TRAINJOBS,
    "Complete",
    NAME_LABEL,
    _ROLE_LABEL,
    _INDEX_LABEL,
    many=True,
    container=_CONTAINER,
    owns_pods=False,
    dependents={"JobSet": JOBSETS, "TrainingRuntime": RUNTIMES},
    # The webhook rejects all changes of a TrainJob without its TrainingRuntime, also that of its finalizers.
    foreground=False,
    attempt_label=_ATTEMPT_LABEL,
)
