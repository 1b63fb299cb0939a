"""Settings of the pods of a job: image, resources, accelerators, scheduling, environment and volumes."""

import logging
import posixpath
import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, ValidationError

from qcnn.errors import ConfigError, format_value
from qcnn.jobs.accelerators import ACCELERATORS, check_name
from qcnn.jobs.references import IMAGE_FORM, gpu_image, is_image
from qcnn.monitoring.logs import FORMAT_VARIABLE, GPUS_VARIABLE
from qcnn.process.roles import ROLES, Role
from qcnn.provenance import IMAGE_VARIABLE

# Parts of a variable name, as in AWS_SECRET_ACCESS_KEY. KEY alone is too common.
_SECRET_PARTS = "SECRET|TOKEN|PASSWORD|PASSWD|PASS|PWD|CREDENTIALS?|APIKEY|API_KEY|ACCESS_KEY|PRIVATE_KEY"
_SECRET_NAME = re.compile(rf"(^|_)({_SECRET_PARTS})(_|$)")
# Suffixes of variables with public values or paths, as in AWS_ACCESS_KEY_ID.
_PUBLIC_NAME = re.compile(r"_(ID|FILE|PATH|DIR|URL|URI)$")
# A password in a URL, a PEM private key, AWS access keys, GitHub tokens.
_SECRET_VALUE = re.compile(
    r"://[^/\s:@]*:[^/\s@]+@|-----BEGIN [A-Z ]*PRIVATE KEY-----|\b(AKIA|ASIA)[A-Z0-9]{16}\b|\bgh[pousr]_\w{20,}"
)


def secrets_in(environment: Mapping[str, str]) -> list[str]:
    """Return the names of the variables that look like a secret, by name or by value."""
    return [name for name, value in environment.items() if _SECRET_VALUE.search(value) or _has_secret_name(name, value)]


def check_no_secrets(environment: Mapping[str, str]) -> None:
    """Raise ConfigError if --dry-run would print a secret, which could then be committed.

    Raises:
        ConfigError: If an environment variable looks like a secret.
    """
    if found := secrets_in(environment):
        raise ConfigError(
            f"pod.environment: {found[0]} looks like a secret, which --dry-run does not print; store it in a Secret "
            f"and set secrets: {{{found[0]}: SECRET/KEY}} in the pod settings. Given: {found[0]}"
        )


def _has_secret_name(name: str, value: str) -> bool:
    upper = name.upper()
    return bool(value and _SECRET_NAME.search(upper) and not _PUBLIC_NAME.search(upper) and not value.startswith("/"))


def settings_error(
    error: ValidationError,
    root: str,
    model: type[BaseModel],
    parts: Mapping[str, tuple[type[BaseModel], str | None]] | None = None,
) -> ConfigError:
    """Return a single-line error for the first invalid setting, with its value and the allowed values.

    Args:
        error: Error of the validation of `model`.
        root: Prefix of the names of settings in the message.
        model: Model of the settings. The descriptions of its fields are the allowed values.
        parts: Fields that map names to a nested model, with that model and the allowed values of the mapping.
    """
    first = error.errors(include_url=False)[0]
    # Pydantic appends "[key]" to the path of an invalid key of a mapping.
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
    # Pydantic reports a key that is not text as "invalid_key".
    if first["type"] in ("extra_forbidden", "invalid_key"):
        return ConfigError(
            f"{name}: unknown field; valid fields: {', '.join(fields)}. Given: {format_value(first['input'])}"
        )
    return ConfigError(f"{name}: must be {allowed}. Given: {format_value(first['input'])}")


logger = logging.getLogger("qcnn")

# apimachinery, pkg/api/resource/quantity.go.
_QUANTITY = r"^(\d+(?:\.\d+)?)([KMGTPE]i|[numkMGTPE]|[eE]\d+)?$"
_UNITS = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3}
_UNITS |= {letter: 1e3**power for power, letter in enumerate("MGTPE", 2)}
_UNITS |= {f"{letter}i": 1024.0**power for power, letter in enumerate("KMGTPE", 1)}
# apimachinery, pkg/util/validation: the name of an object, and the key of a label.
_PART = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?"
_POD_NAME = rf"{_PART}(\.{_PART})*"
_KEY = rf"({_POD_NAME}/)?[A-Za-z0-9]([A-Za-z0-9._-]{{0,61}}[A-Za-z0-9])?"
# Service account of training pods in deploy/rbac.yaml. In a cloud, it has access to the bucket.
WORKER_ACCOUNT = "qcnn-worker"
# Service account of model servers in deploy/rbac.yaml, without permissions in the cluster.
SERVER_ACCOUNT = "qcnn-server"
# Volume sources whose content is deleted with the pod. The training job reports volumes that are not writable.
_EPHEMERAL_VOLUMES = {"emptyDir", "ephemeral"}


def _number_as_text(value: object) -> object:
    """Convert a number to text, because YAML parses `cpu: 2` as a number."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _check_image(text: str) -> str:
    if not is_image(text):
        raise ValueError(text)
    return text


Image = Annotated[str, AfterValidator(_check_image)]
Quantity = Annotated[str, StringConstraints(pattern=_QUANTITY), BeforeValidator(_number_as_text)]
Accelerator = Annotated[str, AfterValidator(check_name)]
SecretKey = Annotated[str, StringConstraints(pattern=r"^[^/]+/[^/]+$")]
# Empty: not set.
Queue = Annotated[str, StringConstraints(pattern=rf"^({_POD_NAME})?$", max_length=63)]
# TrainingRuntime/NAME is in the namespace of the job, and NAME alone belongs to all namespaces.
Runtime = Annotated[str, StringConstraints(pattern=rf"^((TrainingRuntime/)?{_POD_NAME})?$", max_length=253)]
PriorityClass = Annotated[str, StringConstraints(pattern=rf"^({_POD_NAME})?$", max_length=253)]
TopologyKey = Annotated[str, StringConstraints(pattern=rf"^({_KEY})?$", max_length=317)]

_CPU, _MEMORY, _GPUS = "a quantity such as 2 or 500m", "a quantity such as 2Gi", "an integer, at least 0"


class RoleResources(BaseModel):
    """Resources of the processes of one role, where None selects the value of all roles."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cpu: Quantity | None = Field(None, description=_CPU)
    memory: Quantity | None = Field(None, description=_MEMORY)
    gpus: int | None = Field(None, ge=0, strict=True, description=_GPUS)


class PodSettings(BaseModel):
    """Pod settings of each process of a job.

    The description of a field states its allowed values. `cpu` and `memory` are Kubernetes quantities, and `roles`
    overrides them for a role. `secrets` maps environment variables to SECRET/KEY. `volumes` maps mount paths to
    volume sources, as in a pod's spec: {"persistentVolumeClaim": {"claimName": ...}}. On Kubernetes, `engine` runs
    the job, as a TrainJob in the `runtime` of the platform if one is given. The job waits in the Kueue LocalQueue
    `queue`. Its pods are spread over the values of the node label `topology_spread`, as far as capacity allows. The
    processes and their launcher serve metrics on `metrics_port`.
    `vertex` has settings that only Vertex AI supports. Other platforms ignore it, so one file is valid for every
    platform.
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
    engine: Literal["auto", "tfjob", "trainjob"] = Field("auto", description="one of auto, tfjob, trainjob")
    runtime: Runtime = Field("", description="the name of a ClusterTrainingRuntime, or TrainingRuntime/NAME")
    queue: Queue = Field("", description="the name of a Kueue LocalQueue, of lowercase letters, digits, - and .")
    priority_class: PriorityClass = Field("", description="the name of a priority class")
    topology_spread: TopologyKey = Field("", description="the key of a node label such as topology.kubernetes.io/zone")
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
    vertex: Mapping[str, Any] = Field({}, description="a mapping of Vertex AI settings")

    @property
    def variables(self) -> dict[str, str]:
        """Environment of every process: `environment`, and the variables for log format and image."""
        # Text is the default log format. The provenance of every artifact includes the image.
        log_format = {FORMAT_VARIABLE: self.log_format} if self.log_format != "text" else {}
        return {**self.environment, **log_format, IMAGE_VARIABLE: self.image}

    @property
    def process_image(self) -> str:
        """Image of a process of the job: `image`, and with GPUs the one with CUDA libraries."""
        return gpu_image("pod.image", self.image) if self.gpus else self.image

    @property
    def process_variables(self) -> dict[str, str]:
        """Environment of a process of the job, which may have GPUs: `variables`, its image and the number of GPUs."""
        of_gpus = {GPUS_VARIABLE: str(self.gpus)} if self.gpus else {}
        return {**self.variables, IMAGE_VARIABLE: self.process_image, **of_gpus}

    @property
    def has_gpus(self) -> bool:
        """Whether processes of any role request GPUs."""
        return any(self.for_role(role).gpus for role in ROLES)

    def for_role(self, role: str) -> "PodSettings":
        """Return the settings with the resources of a role, and without accelerator if the role has no GPUs."""
        overrides = next((resources for name, resources in self.roles.items() if name == role), RoleResources())
        settings = self.model_copy(update=overrides.model_dump(exclude_none=True))
        return settings if settings.gpus else settings.model_copy(update={"accelerator": ""})

    def is_persistent(self, path: str) -> bool:
        """Return whether an absolute path is in a volume that is retained after the pods are deleted."""
        normalized = PurePosixPath(_normalize(path))
        sources = {_normalize(mount): source for mount, source in self.volumes.items()}
        mounts = [mount for mount in sources if normalized.is_relative_to(mount)]
        # The innermost mount takes precedence.
        return bool(mounts) and _EPHEMERAL_VOLUMES.isdisjoint(sources[max(mounts, key=len)])


def pod_settings(values: Mapping[str, Any]) -> PodSettings:
    """Validate the pod settings of a job, and warn if an environment variable looks like a secret.

    Only `image` is required. With an accelerator, `gpus` is 1 by default, unless a role requests GPUs.

    Raises:
        ConfigError: If a setting is invalid.
    """
    try:
        pod = PodSettings.model_validate(dict(values))
    except ValidationError as error:
        roles = (RoleResources, PodSettings.model_fields["roles"].description)
        raise settings_error(error, "pod", PodSettings, {"roles": roles}) from None
    if pod.accelerator and "gpus" not in values and not pod.has_gpus:
        pod = pod.model_copy(update={"gpus": 1})
    if pod.accelerator and not pod.has_gpus:
        raise ConfigError(f"pod.gpus: must be at least 1 with accelerator {pod.accelerator}. Given: {pod.gpus}")
    if pod.has_gpus:
        # An error in the manifest of a single role would come late.
        gpu_image("pod.image", pod.image)
    for name in secrets_in(pod.environment):
        logger.warning(
            "warning: pod.environment: %s looks like a secret and is readable by anyone who can view the job; store it "
            "in a Secret, and refer to the Secret in the pod settings: secrets: {%s: SECRET/KEY}",
            *(name, name),
        )
    return pod


def parse_quantity(quantity: str) -> float:
    """Return the value of a valid Kubernetes quantity, in cores or bytes."""
    match = re.fullmatch(_QUANTITY, quantity)
    assert match, quantity
    number, unit = match.groups()
    if unit and unit not in _UNITS:
        return float(number + unit)
    return float(number) * (_UNITS[unit] if unit else 1.0)


def _normalize(path: str) -> str:
    """Return an absolute path without redundant parts. `normpath` alone would keep two leading slashes."""
    return posixpath.normpath(f"/{path.lstrip('/')}")
