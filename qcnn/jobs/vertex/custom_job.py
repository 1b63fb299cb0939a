"""Conversion of a training job to a CustomJob message of Vertex AI.

Sources: google.cloud.aiplatform_v1.types.CustomJob of google-cloud-aiplatform 1.165.1, and "Distributed training"
(cloud.google.com/vertex-ai/docs/training/distributed-training). The worker pools are, in order: one chief, workers,
parameter servers, evaluators. Unused pools are omitted at the end, and empty before a used pool.
"""

import datetime
import posixpath
from collections.abc import Mapping

from qcnn.errors import ConfigError
from qcnn.jobs.job import (
    LABEL_LENGTH,
    OUTPUTS,
    JobIdentity,
    JobSpec,
    name,
    run_label,
    settings_digest,
    slug,
    training_digest,
)
from qcnn.jobs.pod_settings import PodSettings
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
from qcnn.process.roles import CHIEF, ROLES, WORKER

# Labels that select the jobs of a training job (several after retryable errors), of a run and of a task. SPEC_LABEL
# contains a hash of the whole job.
JOB_LABEL = "qcnn_job"
RUN_LABEL = "qcnn_run"
TASK_LABEL = "qcnn_task"
SPEC_LABEL = "qcnn_spec"
# Environment variable with the full name of the run.
RUN_VARIABLE = "QCNN_RUN"

_BUCKET, _MOUNTED = "gs://", "/gcs/"


def custom_job(job: JobSpec, identity: JobIdentity, place: VertexLocation) -> aiplatform.CustomJob:
    """Return the CustomJob of a training job.

    The label JOB_LABEL names the job and its output folder. Like the name of a TFJob, it is derived from run, task,
    iteration, training values and number of processes. Without a chief, the first worker is in the chief's pool.

    Args:
        job: Training job.
        identity: Run, task and iteration of the job.
        place: Project and location of the job.

    Raises:
        ConfigError: If the job has no pod settings, an unknown role, neither chief nor worker, settings that Vertex AI
            does not support, or outputs outside of Cloud Storage.
    """
    pod = _validated_pod(job)
    settings = vertex_settings(pod)
    _check_location(settings, place)
    label = name(identity, training_digest(identity, job))
    vertex_job = aiplatform.CustomJob(
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
            base_output_directory={"output_uri_prefix": _output_folder(job, label)},
            service_account=settings.service_account,
            network=settings.network,
            persistent_resource_id=settings.persistent_resource,
            tensorboard=settings.tensorboard,
        ),
    )
    if settings.network_attachment:
        vertex_job.job_spec.psc_interface_config.network_attachment = settings.network_attachment
    if settings.encryption_key:
        vertex_job.encryption_spec.kms_key_name = settings.encryption_key
    vertex_job.labels[SPEC_LABEL] = settings_digest(job, {})[:LABEL_LENGTH]
    return vertex_job


def outputs(job: JobSpec, vertex_job: aiplatform.CustomJob) -> dict[str, str]:
    """Return the URI of each output of a training job, as its processes write them."""
    return {output: _insert_label(uri, vertex_job.labels[JOB_LABEL]) for output, uri in job.outputs.items()}


def outputs_of(job: aiplatform.CustomJob) -> dict[str, str]:
    """Return the URI of each output of a standalone training job, from the output folder of its CustomJob."""
    folder = job.job_spec.base_output_directory.output_uri_prefix
    return {output: posixpath.join(folder, output) for output in OUTPUTS} if folder else {}


def _insert_label(text: str, label: str) -> str:
    return text.replace(f"$({JOB_VARIABLE})", label)


def _validated_pod(job: JobSpec) -> PodSettings:
    """Return the pod settings of a job.

    Raises:
        ConfigError: If the job cannot be a CustomJob.
    """
    if job.pod is None:
        raise ConfigError("pod: a job on Vertex AI needs an image. Given: none")
    counts = {role for role, count in job.replicas.items() if count}
    if counts - set(ROLES) or not counts & {CHIEF, WORKER} or job.replicas.get(CHIEF, 0) > 1:
        raise ConfigError(
            f"replicas: must be of {', '.join(ROLES)}, with a worker or one chief. Given: {dict(job.replicas)}"
        )
    return job.pod


def _check_location(settings: CustomJobMachines, place: VertexLocation) -> None:
    for field in ("encryption_key", "tensorboard"):
        value = getattr(settings, field)
        if value and f"/locations/{place.location}/" not in value:
            raise ConfigError(f"pod.vertex.{field}: must be in the job's location, {place.location}. Given: {value}")


def _output_folder(job: JobSpec, label: str) -> str:
    """Return the gs:// URI of the output folder.

    All Vertex AI jobs of a training job share the folder, so that a replacement finds the checkpoints.
    """
    folder = posixpath.dirname(_insert_label(job.outputs["training"], label))
    if folder.startswith(_MOUNTED):
        folder = _BUCKET + folder.removeprefix(_MOUNTED)
    if not folder.startswith(_BUCKET):
        raise ConfigError(f"output: must be in a bucket of Cloud Storage, gs://BUCKET/FOLDER. Given: {folder}")
    return folder


def _pools(
    job: JobSpec, pod: PodSettings, settings: CustomJobMachines, identity: JobIdentity, label: str
) -> list[aiplatform.WorkerPoolSpec]:
    counts = _pool_sizes(job.replicas)
    used = max(position for position, count in enumerate(counts) if count) + 1
    # Without a chief, the first worker is in the first pool.
    roles = (CHIEF if job.replicas.get(CHIEF) else WORKER, *ROLES[1:])
    return [
        _pool(job, pod.for_role(role), settings, identity, label, count) if count else aiplatform.WorkerPoolSpec()
        for role, count in zip(roles[:used], counts[:used], strict=True)
    ]


def _pool_sizes(replicas: Mapping[str, int]) -> list[int]:
    """Return the number of processes of each pool, which is 1 for the first pool."""
    workers = replicas.get(WORKER, 0) - (0 if replicas.get(CHIEF) else 1)
    return [1, workers, *(replicas.get(role, 0) for role in ROLES[2:])]


def _pool(
    job: JobSpec, pod: PodSettings, settings: CustomJobMachines, identity: JobIdentity, label: str, count: int
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
            "image_uri": pod.process_image,
            "command": [_insert_label(argument, label) for argument in job.argv],
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


def _scheduling(job: JobSpec, pod: PodSettings, settings: CustomJobMachines) -> aiplatform.Scheduling:
    strategy = "SPOT" if pod.spot else settings.strategy
    scheduling = aiplatform.Scheduling(
        strategy=strategy,
        restart_job_on_worker_restart=settings.restart_job_on_worker_restart,
        # By default, Vertex AI restarts a job up to three times.
        disable_retries=job.restarts == 0,
    )
    if settings.timeout_seconds:
        scheduling.timeout = datetime.timedelta(seconds=settings.timeout_seconds)
    if strategy == "FLEX_START":
        scheduling.max_wait_duration = datetime.timedelta(seconds=settings.max_wait_seconds)
    return scheduling
