"""Machine types of Vertex AI training, and settings of custom jobs.

Source of machine types and GPU counts: "Configure compute resources for custom training"
(cloud.google.com/vertex-ai/docs/training/configure-compute), with sizes of Compute Engine's machine families; 2026-11.
"""

import dataclasses
import re
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from qcnn.errors import ConfigError, format_value
from qcnn.jobs.accelerators import on_vertex
from qcnn.jobs.pod_settings import PodSettings, parse_quantity, settings_error
from qcnn.jobs.pricing import CostEstimate, Prices, allocatable_memory, estimate_cost


@dataclasses.dataclass(frozen=True)
class VertexMachineType:
    """Machine type with vCPUs, memory in GiB and built-in accelerators."""

    name: str
    cpus: int
    memory: float
    accelerator: str = ""
    gpus: int = 0

    @property
    def family(self) -> str:
        """The part of the name before the first hyphen."""
        return self.name.partition("-")[0]


def _series(prefix: str, cpus: tuple[int, ...], memory_per_cpu: float) -> list[VertexMachineType]:
    return [VertexMachineType(f"{prefix}-{count}", count, count * memory_per_cpu) for count in cpus]


_A100, _A100_80, _L4 = "nvidia-tesla-a100", "nvidia-a100-80gb", "nvidia-l4"
_H100, _H100_MEGA, _H200, _B200 = "nvidia-h100-80gb", "nvidia-h100-mega-80gb", "nvidia-h200-141gb", "nvidia-b200"
_N1, _N2 = (4, 8, 16, 32, 64, 96), (4, 8, 16, 32, 48, 64, 80)
MACHINES = (
    *_series("e2-standard", (4, 8, 16, 32), 4),
    *_series("e2-highmem", (2, 4, 8, 16), 8),
    *_series("e2-highcpu", (16, 32), 1),
    *_series("n2-standard", _N2, 4),
    *_series("n2-highmem", (2, *_N2), 8),
    *_series("n2-highcpu", _N2[2:], 1),
    *_series("n1-standard", _N1, 3.75),
    *_series("n1-highmem", (2, *_N1), 6.5),
    *_series("n1-highcpu", _N1[2:], 0.9),
    *_series("c2-standard", (4, 8, 16, 30, 60), 4),
    VertexMachineType("m1-megamem-96", 96, 1433.6),
    VertexMachineType("m1-ultramem-40", 40, 961),
    VertexMachineType("m1-ultramem-80", 80, 1922),
    VertexMachineType("m1-ultramem-160", 160, 3844),
    *(VertexMachineType(f"g2-standard-{cpus}", cpus, 4 * cpus, _L4, 1) for cpus in (4, 8, 12, 16, 32)),
    *(
        VertexMachineType(f"g2-standard-{cpus}", cpus, 4 * cpus, _L4, gpus)
        for cpus, gpus in ((24, 2), (48, 4), (96, 8))
    ),
    *(VertexMachineType(f"a2-highgpu-{gpus}g", 12 * gpus, 85 * gpus, _A100, gpus) for gpus in (1, 2, 4, 8)),
    VertexMachineType("a2-megagpu-16g", 96, 1360, _A100, 16),
    *(VertexMachineType(f"a2-ultragpu-{gpus}g", 12 * gpus, 170 * gpus, _A100_80, gpus) for gpus in (1, 2, 4, 8)),
    *(VertexMachineType(f"a3-highgpu-{gpus}g", 26 * gpus, 234 * gpus, _H100, gpus) for gpus in (1, 2, 4, 8)),
    VertexMachineType("a3-megagpu-8g", 208, 1872, _H100_MEGA, 8),
    VertexMachineType("a3-ultragpu-8g", 224, 2952, _H200, 8),
    VertexMachineType("a4-highgpu-8g", 224, 3968, _B200, 8),
)
# Accelerators that can be attached to an n1 machine: allowed counts, and maximum vCPUs per accelerator.
_ATTACHED = {
    "nvidia-tesla-t4": ((1, 2, 4), 24),
    "nvidia-tesla-p4": ((1, 2, 4), 24),
    "nvidia-tesla-p100": ((1, 2, 4), 16),
    "nvidia-tesla-v100": ((1, 2, 4, 8), 12),
}
_GIB = 1024.0**3
# Memory of Vertex AI's agents on a node, in GiB. Together with GKE they use 40 % of an n1-standard-4, as stated in
# "Understand the custom training service".
_AGENT_MEMORY = 3.5


def machine_for(pod: PodSettings, machine_type: str = "") -> VertexMachineType:
    """Return the smallest machine type that fits a pod's resources, or the given type if it fits.

    Machine types are ordered by vCPUs, then by memory.

    Args:
        pod: Requested resources.
        machine_type: Name of the machine type. Empty: any.

    Raises:
        ConfigError: If no machine type fits, or the given one is unknown.
    """
    if pod.gpus and not pod.accelerator:
        raise ConfigError(f"pod.accelerator: must be set on Vertex AI if pod.gpus is set. Given: {pod.gpus} gpus")
    if machine_type and machine_type not in {machine.name for machine in MACHINES}:
        families = ", ".join(dict.fromkeys(machine.family for machine in MACHINES))
        raise ConfigError(
            f"pod.vertex.machine_type: must be a Vertex AI training machine type (families {families}). "
            f"Given: {machine_type}"
        )
    fitting = [machine for machine in MACHINES if _fits(pod, machine) and machine_type in ("", machine.name)]
    if not fitting:
        request = f"cpu {pod.cpu}, memory {pod.memory}" + (f", {pod.gpus} {pod.accelerator}" if pod.gpus else "")
        if machine_type:
            raise ConfigError(f"pod.vertex.machine_type: must fit the requested {request}. Given: {machine_type}")
        raise ConfigError(f"pod: must fit a Vertex AI training machine type. Given: {request}")
    smallest = min(fitting, key=lambda machine: (machine.cpus, machine.memory))
    return dataclasses.replace(smallest, accelerator=pod.accelerator, gpus=pod.gpus)


def check_machines(pod: PodSettings, machine_type: str = "") -> None:
    """Check that machine types exist for workers and for all roles with separate resources.

    Raises:
        ConfigError: If no machine type fits (see `machine_for`).
    """
    for role in dict.fromkeys(("worker", *pod.roles)):
        machine_for(pod.for_role(role), machine_type)


def accelerator_type(machine: VertexMachineType) -> str:
    """Return Vertex AI's name of a machine's accelerator."""
    return on_vertex(machine.accelerator)


def _fits(pod: PodSettings, machine: VertexMachineType) -> bool:
    if pod.accelerator in _ATTACHED:
        counts, max_cpus = _ATTACHED[pod.accelerator]
        fits = machine.family == "n1" and pod.gpus in counts and machine.cpus <= max_cpus * pod.gpus
    else:
        fits = (machine.accelerator, machine.gpus) == (pod.accelerator, pod.gpus)
    return (
        fits and machine.cpus >= parse_quantity(pod.cpu) and _free_memory(machine) >= parse_quantity(pod.memory) / _GIB
    )


def _free_memory(machine: VertexMachineType) -> float:
    """Return the memory of a machine that is available to a process, in GiB."""
    return allocatable_memory(machine.memory) - _AGENT_MEMORY


def estimate_vm_cost(processes: int, pod: PodSettings, seconds: float, prices: Prices) -> CostEstimate:
    """Estimate the cost of the VMs of a custom job.

    Disk storage is not included. Jobs on a persistent resource cause no additional cost.

    Args:
        processes: Number of processes, with one VM each.
        pod: Requested resources of each process.
        seconds: Duration in seconds.
        prices: Price list.

    Raises:
        ConfigError: If no machine type fits, or its price is unknown.
    """
    machine = machine_for(pod, vertex_settings(pod).machine_type)
    priced = prices.machines.get(machine.name)
    if priced is None or (priced.accelerator, priced.gpus) != (machine.accelerator, machine.gpus):
        gpus = f" with {machine.gpus} {machine.accelerator}" if machine.gpus else ""
        raise ConfigError(f"prices: must contain the machine type of the job. Given: no {machine.name}{gpus}")
    return estimate_cost(machine.name, priced, processes, seconds, prices.vertex_factor)


# Early stopping rules of Vertex AI ("Overview of hyperparameter tuning").
NONE, MEDIAN, DECAY_CURVE = "none", "median", "decay_curve"
RULES = (NONE, MEDIAN, DECAY_CURVE)
DEFAULT = MEDIAN
# Pod fields without a meaning on Vertex AI, and their alternatives.
_UNSUPPORTED = {
    "pull_secrets": "grant the service account read access to the registry",
    "secrets": "read Secret Manager with the service account of the process",
    "volumes": "use buckets, which are mounted at /gcs/BUCKET",
    "node_selector": "set an accelerator or vertex.machine_type",
    "tolerations": "use spot",
    "queue": "use vertex.strategy FLEX_START, which waits for machines",
    "runtime": "remove it, because only TrainJobs have one",
    "priority_class": "remove it, because jobs have no priorities",
    "topology_spread": "remove it, because Vertex AI places the machines of a job",
    "metrics_port": "remove it, because machines accept no connections",
}
_LABEL_KEY, _LABEL_VALUE = r"[a-z][a-z0-9_-]{0,62}", r"[a-z0-9_-]{0,63}"
_NAME = r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?"


# Text of the given form, or empty if the field is not set.
MachineType = Annotated[str, StringConstraints(pattern=r"^([a-z0-9-]+)?$")]
Account = Annotated[str, StringConstraints(pattern=r"^([^@\s]+@[^@\s]+)?$")]
Network = Annotated[str, StringConstraints(pattern=rf"^(projects/[0-9]+/global/networks/{_NAME})?$")]
Attachment = Annotated[
    str, StringConstraints(pattern=rf"^((projects/[^/]+/regions/[^/]+/networkAttachments/)?{_NAME})?$")
]
PersistentResource = Annotated[str, StringConstraints(pattern=rf"^({_NAME})?$")]
Key = Annotated[str, StringConstraints(pattern=r"^(projects/[^/]+/locations/[^/]+/keyRings/[^/]+/cryptoKeys/[^/]+)?$")]
Tensorboard = Annotated[str, StringConstraints(pattern=r"^(projects/[^/]+/locations/[^/]+/tensorboards/[^/]+)?$")]


class CustomJobMachines(BaseModel):
    """Vertex AI settings of a job (google.cloud.aiplatform_v1.CustomJobSpec of 1.165.1).

    Without `machine_type`, the smallest one that fits is used. `max_wait_seconds` is the time that a job with strategy
    FLEX_START waits for machines, 0 without limit. With `restart_job_on_worker_restart`, all processes restart if one
    restarts.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    machine_type: MachineType = Field("", description="the name of a machine type such as n2-standard-8")
    service_account: Account = Field("", description="the email address of a service account")
    strategy: Literal["STANDARD", "FLEX_START"] = Field("STANDARD", description="one of STANDARD, FLEX_START")
    max_wait_seconds: int = Field(86400, ge=0, strict=True, description="an integer, at least 0")
    timeout_seconds: int | None = Field(None, ge=1, strict=True, description="an integer, at least 1")
    boot_disk_type: Literal["", "pd-ssd", "pd-standard", "hyperdisk-balanced"] = Field(
        "", description="one of pd-ssd, pd-standard, hyperdisk-balanced"
    )
    boot_disk_gb: int | None = Field(None, ge=100, le=64000, strict=True, description="an integer, 100 to 64000")
    network: Network = Field("", description="projects/NUMBER/global/networks/NAME")
    network_attachment: Attachment = Field("", description="the name of a network attachment")
    persistent_resource: PersistentResource = Field("", description="the id of a persistent resource")
    restart_job_on_worker_restart: bool = Field(False, strict=True, description="true or false")
    encryption_key: Key = Field("", description="projects/PROJECT/locations/LOCATION/keyRings/RING/cryptoKeys/KEY")
    tensorboard: Tensorboard = Field("", description="projects/PROJECT/locations/LOCATION/tensorboards/ID")


def vertex_settings(pod: PodSettings) -> CustomJobMachines:
    """Validate the Vertex AI settings of a pod.

    `pod.service_account` is used if it is an email address and `pod.vertex` has no service account.

    Raises:
        ConfigError: If a setting is invalid or unsupported. The message contains the first one, its value and the
            allowed values.
    """
    for name, alternative in _UNSUPPORTED.items():
        if value := getattr(pod, name):
            raise ConfigError(f"pod.{name}: has no meaning on Vertex AI; {alternative}. Given: {format_value(value)}")
    for key, value in pod.labels.items():
        if not re.fullmatch(_LABEL_KEY, key) or not re.fullmatch(_LABEL_VALUE, value):
            raise ConfigError(
                "pod.labels: must have at most 63 lowercase letters, digits, _ and - on Vertex AI, and keys that "
                f"begin with a letter. Given: {key}: {value}"
            )
    account = {"service_account": pod.service_account} if "@" in pod.service_account else {}
    try:
        settings = CustomJobMachines.model_validate({**account, **pod.vertex})
    except ValidationError as error:
        raise settings_error(error, "pod.vertex", CustomJobMachines) from None
    _check_combinations(pod, settings)
    return settings


def _check_combinations(pod: PodSettings, settings: CustomJobMachines) -> None:
    """Check for combinations of settings that Vertex AI rejects or ignores.

    Raises:
        ConfigError: If two settings exclude each other, or a setting requires another one.
    """
    if settings.strategy == "FLEX_START" and pod.spot:
        raise ConfigError("pod.spot: cannot be combined with strategy FLEX_START. Given: True")
    if "max_wait_seconds" in pod.vertex and settings.strategy != "FLEX_START":
        raise ConfigError(f"pod.vertex.max_wait_seconds: needs strategy FLEX_START. Given: {settings.max_wait_seconds}")
    if settings.network and settings.network_attachment:
        raise ConfigError(
            f"pod.vertex.network_attachment: cannot be combined with network. Given: {settings.network_attachment}"
        )
    if settings.tensorboard and not settings.service_account:
        raise ConfigError(f"pod.vertex.tensorboard: needs a service_account. Given: {settings.tensorboard}")
