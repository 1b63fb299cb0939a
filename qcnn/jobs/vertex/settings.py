"""The settings of a job that Vertex AI alone knows: what stands under `vertex` among those of its processes."""

import re
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from qcnn.errors import ConfigError, given
from qcnn.jobs.pod_settings import Pod, refusal

# The rules by which Vertex AI ends a trial early ("Overview of hyperparameter tuning").
NONE, MEDIAN, DECAY_CURVE = "none", "median", "decay_curve"
RULES = (NONE, MEDIAN, DECAY_CURVE)
DEFAULT = MEDIAN
# Words of a pod that mean nothing on Vertex AI, and what there is instead.
_MEANINGLESS = {
    "pull_secrets": "let the service account read the registry",
    "secrets": "let the process read Secret Manager by its service account",
    "volumes": "name buckets, which lie at /gcs/BUCKET",
    "node_selector": "name an accelerator or vertex.machine_type",
    "tolerations": "use spot",
    "queue": "use vertex.strategy FLEX_START, with which a job waits for machines",
    "priority_class": "its jobs have no priorities",
    "topology_spread": "it places the machines of a job itself",
    "metrics_port": "Vertex AI lets nobody reach its machines; leave it out",
}
_LABEL_KEY, _LABEL_VALUE = r"[a-z][a-z0-9_-]{0,62}", r"[a-z0-9_-]{0,63}"
_NAME = r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?"


# Each is text of this form, or empty where it is left out.
MachineType = Annotated[str, StringConstraints(pattern=r"^([a-z0-9-]+)?$")]
Account = Annotated[str, StringConstraints(pattern=r"^([^@\s]+@[^@\s]+)?$")]
Network = Annotated[str, StringConstraints(pattern=rf"^(projects/[0-9]+/global/networks/{_NAME})?$")]
Attachment = Annotated[
    str, StringConstraints(pattern=rf"^((projects/[^/]+/regions/[^/]+/networkAttachments/)?{_NAME})?$")
]
PersistentResource = Annotated[str, StringConstraints(pattern=rf"^({_NAME})?$")]
Key = Annotated[str, StringConstraints(pattern=r"^(projects/[^/]+/locations/[^/]+/keyRings/[^/]+/cryptoKeys/[^/]+)?$")]
Tensorboard = Annotated[str, StringConstraints(pattern=r"^(projects/[^/]+/locations/[^/]+/tensorboards/[^/]+)?$")]


class Settings(BaseModel):
    """What Vertex AI alone knows of a job (google.cloud.aiplatform_v1.CustomJobSpec of 1.165.1).

    `machine_type` is chosen where it is not given. `max_wait_seconds` is how long a job with strategy FLEX_START waits
    for machines, 0 for as long as it takes. `restart_job_on_worker_restart` starts all processes again with one.
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


def vertex_settings(pod: Pod) -> Settings:
    """Validate what Vertex AI is told of a job's processes.

    The neutral `service_account` counts where `vertex` has none, and is an email address.

    Raises:
        ConfigError: one line with the first that is wrong, its value and what is allowed.
    """
    for name, instead in _MEANINGLESS.items():
        if value := getattr(pod, name):
            raise ConfigError(f"pod.{name}: has no meaning on Vertex AI; {instead}. Given: {given(value)}")
    for key, value in pod.labels.items():
        if not re.fullmatch(_LABEL_KEY, key) or not re.fullmatch(_LABEL_VALUE, value):
            raise ConfigError(
                "pod.labels: on Vertex AI must be of at most 63 lower-case letters, digits, _ and -, keys begin with a "
                f"letter. Given: {key}: {value}"
            )
    account = {"service_account": pod.service_account} if "@" in pod.service_account else {}
    try:
        settings = Settings.model_validate({**account, **pod.vertex})
    except ValidationError as error:
        raise refusal(error, "pod.vertex", Settings) from None
    _check_together(pod, settings)
    return settings


def _check_together(pod: Pod, settings: Settings) -> None:
    """Refuse what Vertex AI refuses, or does not do, because of another setting."""
    if settings.strategy == "FLEX_START" and pod.spot:
        raise ConfigError("pod.spot: cannot be together with strategy FLEX_START. Given: True")
    if "max_wait_seconds" in pod.vertex and settings.strategy != "FLEX_START":
        raise ConfigError(f"pod.vertex.max_wait_seconds: needs strategy FLEX_START. Given: {settings.max_wait_seconds}")
    if settings.network and settings.network_attachment:
        raise ConfigError(
            f"pod.vertex.network_attachment: cannot be together with network. Given: {settings.network_attachment}"
        )
    if settings.tensorboard and not settings.service_account:
        raise ConfigError(f"pod.vertex.tensorboard: needs a service_account. Given: {settings.tensorboard}")
