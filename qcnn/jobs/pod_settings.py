"""The accelerators that a job may ask for, in one word for every platform.

The words are Compute Engine's own names of GPU models, as GKE's node label has them
(cloud.google.com/kubernetes-engine/docs/how-to/gpus, 2026-11); Vertex AI writes the same words in capitals, with
underscores (google.cloud.aiplatform_v1.AcceleratorType of google-cloud-aiplatform 1.165.1).
"""

import logging
import posixpath
import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, ValidationError

from qcnn.errors import ConfigError, format_value
from qcnn.jobs.references import IMAGE_FORM, is_image
from qcnn.monitoring.logs import FORMAT_VARIABLE, GPUS_VARIABLE
from qcnn.provenance import IMAGE_VARIABLE

ACCELERATORS = (
    "nvidia-l4",
    "nvidia-tesla-t4",
    "nvidia-tesla-v100",
    "nvidia-tesla-p4",
    "nvidia-tesla-p100",
    "nvidia-tesla-a100",
    "nvidia-a100-80gb",
    "nvidia-h100-80gb",
    "nvidia-h100-mega-80gb",
    "nvidia-h200-141gb",
    "nvidia-b200",
)


def on_vertex(accelerator: str) -> str:
    """Return the name that Vertex AI has for an accelerator."""
    return accelerator.upper().replace("-", "_")


# Words of a name, as in AWS_SECRET_ACCESS_KEY; KEY alone is too common.
_SECRET_PARTS = "SECRET|TOKEN|PASSWORD|PASSWD|PASS|PWD|CREDENTIALS?|APIKEY|API_KEY|ACCESS_KEY|PRIVATE_KEY"
_SECRET_NAME = re.compile(rf"(^|_)({_SECRET_PARTS})(_|$)")
# Endings of names of public values, or of files: AWS_ACCESS_KEY_ID, GOOGLE_APPLICATION_CREDENTIALS=/a/b.
_PUBLIC_NAME = re.compile(r"_(ID|FILE|PATH|DIR|URL|URI)$")
# A password in an address, a key as files hold it, keys of Amazon, tokens of GitHub.
_SECRET_VALUE = re.compile(
    r"://[^/\s:@]*:[^/\s@]+@|-----BEGIN [A-Z ]*PRIVATE KEY-----|\b(AKIA|ASIA)[A-Z0-9]{16}\b|\bgh[pousr]_\w{20,}"
)


def secrets_in(environment: Mapping[str, str]) -> list[str]:
    """Return the names of the variables that look like a secret, by name or by value."""
    return [name for name, value in environment.items() if _SECRET_VALUE.search(value) or _has_secret_name(name, value)]


def _has_secret_name(name: str, value: str) -> bool:
    upper = name.upper()
    return bool(value and _SECRET_NAME.search(upper) and not _PUBLIC_NAME.search(upper) and not value.startswith("/"))


def refusal(
    error: ValidationError,
    root: str,
    model: type[BaseModel],
    parts: Mapping[str, tuple[type[BaseModel], str | None]] | None = None,
) -> ConfigError:
    """Return one line with the first setting of a model that is wrong, its value, and what its description allows.

    The setting's name begins with `root`. `parts` are the settings that map names to models of their own, and what each
    of these must be.
    """
    first = error.errors(include_url=False)[0]
    # Pydantic says "[key]" where it is the key of a mapping that is wrong.
    path = [str(part) for part in first["loc"] if part != "[key]"]
    name, field, fields = ".".join((root, *path)), path[0], model.model_fields
    allowed = fields[field].description if field in fields else None
    if parts and field in parts and len(path) > 1:
        part, allowed = parts[field]
        if len(path) > 2:
            fields = part.model_fields
            allowed = fields[path[2]].description if path[2] in fields else None
    if first["type"] == "missing":
        return ConfigError(f"{name}: must be given. Given: none")
    # A key that is no text is none of them either.
    if first["type"] in ("extra_forbidden", "invalid_key"):
        return ConfigError(
            f"{name}: unknown key; the keys are {', '.join(fields)}. Given: {format_value(first['input'])}"
        )
    return ConfigError(f"{name}: must be {allowed}. Given: {format_value(first['input'])}")


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
_POD_NAME = rf"{_PART}(\.{_PART})*"
_KEY = rf"({_POD_NAME}/)?[A-Za-z0-9]([A-Za-z0-9._-]{{0,61}}[A-Za-z0-9])?"
# The account of deploy/rbac.yaml for the pods of trainings; in a cloud it is the one that reaches the bucket.
WORKER_ACCOUNT = "qcnn-worker"
# What of a volume is gone with its pod. One that cannot be written is the training's own to say.
_EPHEMERAL_VOLUMES = {"emptyDir", "ephemeral"}


def _number_as_text(value: object) -> object:
    """In YAML, two CPUs are a number."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _check_accelerator(name: str) -> str:
    if name and name not in ACCELERATORS:
        raise ValueError(name)
    return name


def _check_image(text: str) -> str:
    if not is_image(text):
        raise ValueError(text)
    return text


Image = Annotated[str, AfterValidator(_check_image)]
Quantity = Annotated[str, StringConstraints(pattern=_QUANTITY), BeforeValidator(_number_as_text)]
Accelerator = Annotated[str, AfterValidator(_check_accelerator)]
SecretKey = Annotated[str, StringConstraints(pattern=r"^[^/]+/[^/]+$")]
# Each is text of this form, or empty where it is left out.
Queue = Annotated[str, StringConstraints(pattern=rf"^({_POD_NAME})?$", max_length=63)]
PriorityClass = Annotated[str, StringConstraints(pattern=rf"^({_POD_NAME})?$", max_length=253)]
TopologyKey = Annotated[str, StringConstraints(pattern=rf"^({_KEY})?$", max_length=317)]

_CPU, _MEMORY, _GPUS = "a quantity such as 2 or 500m", "a quantity such as 2Gi", "an integer, at least 0"


class RoleResources(BaseModel):
    """What the processes of one role are given; None for what all roles have in common."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cpu: Quantity | None = Field(None, description=_CPU)
    memory: Quantity | None = Field(None, description=_MEMORY)
    gpus: int | None = Field(None, ge=0, strict=True, description=_GPUS)


class PodSettings(BaseModel):
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
        return any(self.for_role(role).gpus for role in ROLES)

    def for_role(self, role: str) -> "PodSettings":
        """Return the same with the resources of a role; where that leaves no GPU, no accelerator is asked for."""
        own = next((resources for name, resources in self.roles.items() if name == role), RoleResources())
        found = self.model_copy(update=own.model_dump(exclude_none=True))
        return found if found.gpus else found.model_copy(update={"accelerator": ""})

    def keeps(self, path: str) -> bool:
        """Whether what is written at an absolute path outlives the pods: it lies in a volume that does."""
        place = PurePosixPath(_normalize(path))
        sources = {_normalize(mount): source for mount, source in self.volumes.items()}
        mounts = [mount for mount in sources if place.is_relative_to(mount)]
        # The innermost one counts.
        return bool(mounts) and _EPHEMERAL_VOLUMES.isdisjoint(sources[max(mounts, key=len)])


def pod_settings(values: Mapping[str, Any]) -> PodSettings:
    """Validate the settings of a job's pods; `image` is the only one without a default. Warn of secrets among them.

    Raises:
        ConfigError: one line with the first that is wrong, its value and what is allowed.
    """
    try:
        pod = PodSettings.model_validate(dict(values))
    except ValidationError as error:
        roles = (RoleResources, PodSettings.model_fields["roles"].description)
        raise refusal(error, "pod", PodSettings, {"roles": roles}) from None
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


def _normalize(path: str) -> str:
    """Return an absolute path without parts that mean nothing; two slashes at its beginning are one."""
    return posixpath.normpath(f"/{path.lstrip('/')}")
