"""A training job as a CustomJob of Vertex AI: messages, by pure functions.

The contract is google.cloud.aiplatform_v1.types.CustomJob of google-cloud-aiplatform 1.165.1, and "Distributed
training" (cloud.google.com/vertex-ai/docs/training/distributed-training): the first worker pool is one chief, the next
ones are workers, parameter servers and evaluators; one that is not used is left out at the end, and empty before.
"""

import dataclasses
import datetime
import posixpath
from collections.abc import Mapping

from qcnn.errors import ConfigError
from qcnn.jobs.job import LABEL_LENGTH, OUTPUTS, Job, JobIdentity, digest, name, run_label, slug
from qcnn.jobs.pod_settings import ROLES, PodSettings
from qcnn.jobs.vertex.client import aiplatform
from qcnn.jobs.vertex.location import VertexLocation
from qcnn.jobs.vertex.machines import (
    CustomJobMachines,
    VertexMachineType,
    accelerator_type,
    machine_for,
    vertex_settings,
)
from qcnn.monitoring.logs import JOB_VARIABLE

# By these labels qcnn finds its own jobs: all of one training, which has a job after the other where one is lost, those
# of a run, and those of a task. The last is a hash of all that the job is given.
JOB_LABEL = "qcnn_job"
RUN_LABEL = "qcnn_run"
TASK_LABEL = "qcnn_task"
SPEC_LABEL = "qcnn_spec"
# The run's full name, in every process.
RUN_VARIABLE = "QCNN_RUN"
# The role of each worker pool, by its position.
POOLS = ROLES

_BUCKET, _MOUNTED = "gs://", "/gcs/"


def custom_job(job: Job, identity: JobIdentity, place: VertexLocation) -> aiplatform.CustomJob:
    """Return the CustomJob of a training job.

    Its label JOB_LABEL, by which its outputs lie in a folder, follows from what is trained, as the name of a TFJob
    does: the run, task and iteration, the command, and how many processes run it. The first worker is the chief where
    the job has none, as Vertex AI calls it.

    Raises:
        ConfigError: the job has no pod, an unknown role, no process that could lead it, settings that Vertex AI does
            not take, or outputs that are in no bucket of Cloud Storage.
    """
    pod = _checked_pod(job)
    settings = vertex_settings(pod)
    _check_location(settings, place)
    counts = {role: count for role, count in job.replicas.items() if count}
    label = name(identity, digest([dataclasses.asdict(identity), job.argv, counts]))
    made = aiplatform.CustomJob(
        display_name=label,
        labels={
            **pod.labels,
            JOB_LABEL: label,
            RUN_LABEL: run_label(identity.run),
            TASK_LABEL: slug(identity.task)[:LABEL_LENGTH].strip("-"),
        },
        job_spec=aiplatform.CustomJobSpec(
            worker_pool_specs=_pools(job, pod, settings, identity, label),
            scheduling=_scheduling(job, pod, settings),
            base_output_directory={"output_uri_prefix": _base(job, label)},
            service_account=settings.service_account,
            network=settings.network,
            persistent_resource_id=settings.persistent_resource,
            tensorboard=settings.tensorboard,
        ),
    )
    if settings.network_attachment:
        made.job_spec.psc_interface_config.network_attachment = settings.network_attachment
    if settings.encryption_key:
        made.encryption_spec.kms_key_name = settings.encryption_key
    made.labels[SPEC_LABEL] = digest(aiplatform.CustomJob.to_dict(made))[:LABEL_LENGTH]
    return made


def outputs(job: Job, made: aiplatform.CustomJob) -> dict[str, str]:
    """Return the address of each output of a job, as its processes write them."""
    return {output: _named(address, made.labels[JOB_LABEL]) for output, address in job.outputs.items()}


def outputs_of(job: aiplatform.CustomJob) -> dict[str, str]:
    """Return the address of each output of a job that trains alone, by the folder that Vertex AI knows of it."""
    folder = job.job_spec.base_output_directory.output_uri_prefix
    return {output: posixpath.join(folder, output) for output in OUTPUTS} if folder else {}


def _named(text: str, label: str) -> str:
    return text.replace(f"$({JOB_VARIABLE})", label)


def _checked_pod(job: Job) -> PodSettings:
    """Return the pod of a job that can be a CustomJob; refuse any other job."""
    if job.pod is None:
        raise ConfigError("pod: a job on Vertex AI needs an image. Given: none")
    counts = {role for role, count in job.replicas.items() if count}
    if counts - set(POOLS) or not counts & {"chief", "worker"} or job.replicas.get("chief", 0) > 1:
        raise ConfigError(
            f"replicas: must be of {', '.join(POOLS)}, with a worker or one chief. Given: {dict(job.replicas)}"
        )
    return job.pod


def _check_location(settings: CustomJobMachines, place: VertexLocation) -> None:
    for field in ("encryption_key", "tensorboard"):
        value = getattr(settings, field)
        if value and f"/locations/{place.location}/" not in value:
            raise ConfigError(f"pod.vertex.{field}: must be in the job's location, {place.location}. Given: {value}")


def _base(job: Job, label: str) -> str:
    """Return the folder of a job's outputs as Vertex AI takes it.

    It is the same for every job of a training, or one that replaces another would find no checkpoint.
    """
    folder = posixpath.dirname(_named(job.outputs["training"], label))
    if folder.startswith(_MOUNTED):
        folder = _BUCKET + folder.removeprefix(_MOUNTED)
    if not folder.startswith(_BUCKET):
        raise ConfigError(f"output: must be in a bucket of Cloud Storage, gs://BUCKET/FOLDER. Given: {folder}")
    return folder


def _pools(
    job: Job, pod: PodSettings, settings: CustomJobMachines, identity: JobIdentity, label: str
) -> list[aiplatform.WorkerPoolSpec]:
    counts = _by_pool(job.replicas)
    used = max(position for position, count in enumerate(counts) if count) + 1
    # The first pool is that of the first worker where the job has no chief.
    roles = (POOLS[0] if job.replicas.get(POOLS[0]) else POOLS[1], *POOLS[1:])
    return [
        _pool(job, pod.for_role(role), settings, identity, label, count) if count else aiplatform.WorkerPoolSpec()
        for role, count in zip(roles[:used], counts[:used], strict=True)
    ]


def _by_pool(replicas: Mapping[str, int]) -> list[int]:
    """Return how many processes each pool has, the first of which has exactly one."""
    workers = replicas.get("worker", 0) - (0 if replicas.get("chief") else 1)
    return [1, workers, *(replicas.get(role, 0) for role in POOLS[2:])]


def _pool(
    job: Job, pod: PodSettings, settings: CustomJobMachines, identity: JobIdentity, label: str, count: int
) -> aiplatform.WorkerPoolSpec:
    machine = machine_for(pod, settings.machine_type)
    environment = {
        **pod.process_variables,
        JOB_VARIABLE: label,
        RUN_VARIABLE: identity.run,
    }
    spec = aiplatform.WorkerPoolSpec(
        machine_spec={"machine_type": machine.name, **_accelerators(machine)},
        replica_count=count,
        container_spec={
            "image_uri": pod.image,
            "command": [_named(word, label) for word in job.argv],
            "env": [{"name": variable, "value": value} for variable, value in environment.items()],
        },
    )
    if settings.boot_disk_type:
        spec.disk_spec.boot_disk_type = settings.boot_disk_type
    if settings.boot_disk_gb:
        spec.disk_spec.boot_disk_size_gb = settings.boot_disk_gb
    return spec


def _accelerators(machine: VertexMachineType) -> dict[str, str | int]:
    if not machine.gpus:
        return {}
    return {"accelerator_type": accelerator_type(machine), "accelerator_count": machine.gpus}


def _scheduling(job: Job, pod: PodSettings, settings: CustomJobMachines) -> aiplatform.Scheduling:
    strategy = "SPOT" if pod.spot else settings.strategy
    scheduling = aiplatform.Scheduling(
        strategy=strategy,
        restart_job_on_worker_restart=settings.restart_job_on_worker_restart,
        # Otherwise Vertex AI itself starts a job again up to three times.
        disable_retries=job.restarts == 0,
    )
    if settings.timeout_seconds:
        scheduling.timeout = datetime.timedelta(seconds=settings.timeout_seconds)
    if strategy == "FLEX_START":
        scheduling.max_wait_duration = datetime.timedelta(seconds=settings.max_wait_seconds)
    return scheduling
