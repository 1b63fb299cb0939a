"""What the processes of a job are given on a cluster: validated when it is read, before any cluster is asked."""

import logging
import posixpath
import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, ValidationError

from qcnn.jobs.accelerators import ACCELERATORS
from qcnn.jobs.references import IMAGE_FORM, is_image
from qcnn.jobs.secrecy import secrets_in
from qcnn.jobs.validation import refusal
from qcnn.trainer.errors import ConfigError
from qcnn.trainer.monitoring.variables import FORMAT_VARIABLE, GPUS_VARIABLE
from qcnn.trainer.provenance import IMAGE_VARIABLE

logger = logging.getLogger("qcnn")

# TensorFlow's, in the order of Vertex AI's worker pools.
Role = Literal["chief", "worker", "ps", "evaluator"]
ROLES: tuple[Role, ...] = get_args(Role)

# apimachinery, pkg/api/resource/quantity.go.
_QUANTITY = r"^(\d+(?:\.\d+)?)([KMGTPE]i|[numkMGTPE]|[eE]\d+)?$"
_UNITS = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3}
_UNITS |= {letter: 1e3**power for power, letter in enumerate("MGTPE", 2)}
_UNITS |= {f"{letter}i": 1024.0**power for power, letter in enumerate("KMGTPE", 1)}
# apimachinery, pkg/util/validation: the name of an object, and the key of a label.
_PART = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?"
_NAME = rf"{_PART}(\.{_PART})*"
_KEY = rf"({_NAME}/)?[A-Za-z0-9]([A-Za-z0-9._-]{{0,61}}[A-Za-z0-9])?"
# The account of deploy/rbac.yaml for the pods of trainings; in a cloud it is the one that reaches the bucket.
WORKER_ACCOUNT = "qcnn-worker"
# What of a volume is gone with its pod. One that cannot be written is the training's own to say.
_PASSING = {"emptyDir", "ephemeral"}


def _number_as_text(value: object) -> object:
    """In YAML, two CPUs are a number."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _known_accelerator(name: str) -> str:
    if name and name not in ACCELERATORS:
        raise ValueError(name)
    return name


def _image(text: str) -> str:
    if not is_image(text):
        raise ValueError(text)
    return text


Image = Annotated[str, AfterValidator(_image)]
Quantity = Annotated[str, StringConstraints(pattern=_QUANTITY), BeforeValidator(_number_as_text)]
Accelerator = Annotated[str, AfterValidator(_known_accelerator)]
SecretKey = Annotated[str, StringConstraints(pattern=r"^[^/]+/[^/]+$")]
# Each is text of this form, or empty where it is left out.
Queue = Annotated[str, StringConstraints(pattern=rf"^({_NAME})?$", max_length=63)]
PriorityClass = Annotated[str, StringConstraints(pattern=rf"^({_NAME})?$", max_length=253)]
TopologyKey = Annotated[str, StringConstraints(pattern=rf"^({_KEY})?$", max_length=317)]

_CPU, _MEMORY, _GPUS = "a quantity such as 2 or 500m", "a quantity such as 2Gi", "an integer, at least 0"


class RoleResources(BaseModel):
    """What the processes of one role are given; None for what all roles have in common."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cpu: Quantity | None = Field(None, description=_CPU)
    memory: Quantity | None = Field(None, description=_MEMORY)
    gpus: int | None = Field(None, ge=0, strict=True, description=_GPUS)


class Pod(BaseModel):
    """What each process of a job is given on a cluster; each field's description says what it accepts.

    Quantities (`cpu`, `memory`) are Kubernetes' own; a role has those of `roles` where it has its own. `secrets` maps
    environment variables to the secrets and keys that they are taken from. `volumes` maps the path a volume is mounted
    at to its source, as in a pod's spec: {"persistentVolumeClaim": {"claimName": ...}}. The job waits in the `queue` of
    Kueue. Its processes are spread over the values of the label of nodes `topology_spread`, as far as there is room.
    They and their launcher serve metrics on `metrics_port`. What Vertex AI alone knows is in `vertex`, which is read
    where a job is made for it; so one file serves every platform.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    image: Image = Field(description=IMAGE_FORM)
    pull_policy: Literal["Always", "IfNotPresent", "Never"] = Field(
        "IfNotPresent", description="one of Always, IfNotPresent, Never"
    )
    pull_secrets: tuple[str, ...] = Field((), description="a list of the names of secrets")
    service_account: str = Field("default", description="text")
    cpu: Quantity = Field("1", description=_CPU)
    memory: Quantity = Field("2Gi", description=_MEMORY)
    gpus: int = Field(0, ge=0, strict=True, description=_GPUS)
    roles: Mapping[Role, RoleResources] = Field(
        {}, description=f"a mapping of {', '.join(ROLES)} to any of {', '.join(RoleResources.model_fields)}"
    )
    accelerator: Accelerator = Field("", description=f"one of {', '.join(ACCELERATORS)}")
    spot: bool = Field(False, strict=True, description="true or false")
    queue: Queue = Field("", description="the name of a LocalQueue of Kueue, of small letters, digits, - and .")
    priority_class: PriorityClass = Field("", description="the name of a priority class")
    topology_spread: TopologyKey = Field(
        "", description="the key of a label of nodes such as topology.kubernetes.io/zone"
    )
    environment: Mapping[str, str] = Field({}, description="a mapping of names to text (numbers in quotation marks)")
    secrets: Mapping[str, SecretKey] = Field({}, description="a mapping of variables to SECRET/KEY")
    volumes: Mapping[str, Mapping[str, Any]] = Field(
        {}, description="a mapping of paths to the sources of volumes, as in a pod's spec"
    )
    node_selector: Mapping[str, str] = Field({}, description="a mapping of labels to text")
    tolerations: tuple[Mapping[str, Any], ...] = Field((), description="a list of tolerations, as in a pod's spec")
    labels: Mapping[str, str] = Field({}, description="a mapping of labels to text")
    metrics_port: int | None = Field(
        None, ge=1024, le=65535, strict=True, description="an integer, 1024 to 65535, or left out"
    )
    log_format: Literal["text", "json"] = Field("text", description="one of text, json")
    vertex: Mapping[str, Any] = Field({}, description="a mapping of settings of Vertex AI's own")

    @property
    def variables(self) -> dict[str, str]:
        """The environment of every process: what is given, and what it is told of other settings."""
        # Text is what a process prints by itself. Provenance in every artifact names the image.
        told = {FORMAT_VARIABLE: self.log_format} if self.log_format != "text" else {}
        return {**self.environment, **told, IMAGE_VARIABLE: self.image}

    @property
    def process_variables(self) -> dict[str, str]:
        """Environment of a process of the job itself, which has the GPUs: `variables`, and the number of GPUs."""
        return self.variables | ({GPUS_VARIABLE: str(self.gpus)} if self.gpus else {})

    @property
    def has_gpus(self) -> bool:
        """Whether processes of any role request GPUs."""
        return any(self.of_role(role).gpus for role in ROLES)

    def of_role(self, role: str) -> "Pod":
        """Return the same with the resources of a role; where that leaves no GPU, no accelerator is asked for."""
        own = next((resources for name, resources in self.roles.items() if name == role), RoleResources())
        found = self.model_copy(update=own.model_dump(exclude_none=True))
        return found if found.gpus else found.model_copy(update={"accelerator": ""})

    def keeps(self, path: str) -> bool:
        """Whether what is written at an absolute path outlives the pods: it lies in a volume that does."""
        place = PurePosixPath(_plain(path))
        sources = {_plain(mount): source for mount, source in self.volumes.items()}
        mounts = [mount for mount in sources if place.is_relative_to(mount)]
        # The innermost one counts.
        return bool(mounts) and _PASSING.isdisjoint(sources[max(mounts, key=len)])


def pod_settings(values: Mapping[str, Any]) -> Pod:
    """Validate the settings of a job's pods; `image` is the only one without a default. Warn of secrets among them.

    Raises:
        ConfigError: one line with the first that is wrong, its value and what is allowed.
    """
    try:
        pod = Pod.model_validate(dict(values))
    except ValidationError as error:
        roles = (RoleResources, Pod.model_fields["roles"].description)
        raise refusal(error, "pod", Pod, {"roles": roles}) from None
    if pod.accelerator and not pod.has_gpus:
        raise ConfigError(f"pod.gpus: must be at least 1 with accelerator {pod.accelerator}. Given: {pod.gpus}")
    for name in secrets_in(pod.environment):
        logger.warning(
            "warning: pod.environment: %s looks like a secret, which everybody who may look at the job can read there; "
            "keep it in a Secret, and name that in the pod's settings: secrets: {%s: SECRET/KEY}",
            *(name, name),
        )
    return pod


def amount(quantity: str) -> float:
    """Return the value of a quantity, which has been validated."""
    found = re.fullmatch(_QUANTITY, quantity)
    assert found, quantity
    number, unit = found.groups()
    if unit and unit not in _UNITS:
        return float(number + unit)
    return float(number) * (_UNITS[unit] if unit else 1.0)


def _plain(path: str) -> str:
    """Return an absolute path without parts that mean nothing; two slashes at its beginning are one."""
    return posixpath.normpath(f"/{path.lstrip('/')}")
