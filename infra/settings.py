"""Settings of the cloud resources, read from a YAML file."""

from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from ruamel.yaml import YAML

from qcnn.errors import ConfigError, describe_yaml_error, format_value
from qcnn.input_files import read_input
from qcnn.jobs.accelerators import ACCELERATORS, check_name

# https://cloud.google.com/resource-manager/docs/creating-managing-projects
Project = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{4,28}[a-z0-9]$")]
# https://cloud.google.com/iam/docs/service-accounts-create
Account = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{4,28}[a-z0-9]$")]
Cluster = Annotated[str, StringConstraints(pattern=r"^[a-z]([a-z0-9-]{0,38}[a-z0-9])?$")]
# https://cloud.google.com/storage/docs/buckets#naming; a name with dots must be a verified domain.
Bucket = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{1,61}[a-z0-9]$")]
Repository = Annotated[str, StringConstraints(pattern=r"^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$")]
Region = Annotated[str, StringConstraints(pattern=r"^[a-z]+-[a-z]+[0-9]+$")]
Zone = Annotated[str, StringConstraints(pattern=r"^[a-z]+-[a-z]+[0-9]+-[a-z]$")]
MachineType = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9]*(-[a-z0-9]+)+$")]
Accelerator = Annotated[str, AfterValidator(check_name)]

_ACCOUNT = "6 to 30 lowercase letters, digits and -, beginning with a letter, no - at the end"
_MACHINE_TYPE = "the name of a machine type such as n2-standard-8"
_ACCOUNTS = ("service_account_name", "launcher_account_name", "viewer_account_name", "node_account_name")
_SHORTEST_SOFT_DELETE = 7
_MAX_BYTES = 1_000_000


class InfraSettings(BaseModel):
    """Names, locations and sizes of the cloud resources.

    Fields without a default are required. The description of a field lists its allowed values; infra/settings.yaml
    describes its use.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    project: Project = Field(description=f"a project ID: {_ACCOUNT}")
    cluster_name: Cluster = Field(description="1 to 40 lowercase letters, digits and -, beginning with a letter")
    zone: Zone = Field(description="a zone such as us-central1-a")
    bucket_name: Bucket = Field(description="3 to 63 lowercase letters, digits, - and _, without gs://")
    bucket_region: Region = Field(description="a region such as us-central1")
    num_nodes: int = Field(ge=1, le=1000, strict=True, description="an integer, 1 to 1000")
    machine_type: MachineType = Field(description=_MACHINE_TYPE)
    accelerator: Accelerator = Field("", description=f"one of {', '.join(ACCELERATORS)}, or empty for no GPU nodes")
    gpus_per_node: int = Field(1, ge=1, le=16, strict=True, description="an integer, 1 to 16")
    gpu_machine_type: MachineType = Field(
        "g2-standard-8", description="the name of a machine type with GPUs such as g2-standard-8"
    )
    num_gpu_nodes: int = Field(2, ge=1, le=1000, strict=True, description="an integer, 1 to 1000")
    service_account_name: Account = Field(description=f"{_ACCOUNT}, without the part from @ on")
    launcher_account_name: Account = Field(description=f"{_ACCOUNT}, without the part from @ on")
    viewer_account_name: Account = Field(description=f"{_ACCOUNT}, without the part from @ on")
    node_account_name: Account = Field(description=f"{_ACCOUNT}, without the part from @ on")
    repository_name: Repository = Field(description="1 to 63 lowercase letters, digits and -, beginning with a letter")
    system_machine_type: MachineType = Field(description=_MACHINE_TYPE)
    soft_delete_days: int = Field(ge=0, le=90, strict=True, description="0, or an integer from 7 to 90")


def read_settings(path: Path) -> InfraSettings:
    """Read and validate a settings file.

    Raises:
        ConfigError: If the file cannot be read or a setting is invalid.
    """
    text = read_input("settings", path, _MAX_BYTES)
    try:
        content = YAML(typ="safe", pure=True).load(text)
    except Exception as error:  # The parser has no common base class; constructors of YAML tags raise others.
        raise ConfigError(
            f"settings: the file is not valid YAML ({describe_yaml_error(error)}). Given: {path}"
        ) from None
    if not isinstance(content, dict):
        raise ConfigError(f"settings: the file must be a mapping of keys to values. Given: {path}")
    return parse_settings(content)


def parse_settings(values: dict[str, Any]) -> InfraSettings:
    """Validate settings.

    Raises:
        ConfigError: If a setting is missing, unknown or invalid. The message is about the first of them.
    """
    try:
        settings = InfraSettings.model_validate(values)
    except ValidationError as error:
        raise _config_error(error) from None
    if 0 < settings.soft_delete_days < _SHORTEST_SOFT_DELETE:
        allowed = InfraSettings.model_fields["soft_delete_days"].description
        raise ConfigError(f"settings.soft_delete_days: must be {allowed}. Given: {settings.soft_delete_days}")
    accounts = [getattr(settings, name) for name in _ACCOUNTS]
    if len({*accounts}) < len(accounts):
        raise ConfigError(f"settings: {', '.join(_ACCOUNTS)} must be different names. Given: {', '.join(accounts)}")
    return settings


def _config_error(error: ValidationError) -> ConfigError:
    """Return the error of the first invalid setting."""
    first = error.errors(include_url=False)[0]
    field = str(first["loc"][0])
    if first["type"] == "missing":
        return ConfigError(f"settings.{field}: must be given. Given: none")
    if first["type"] in ("extra_forbidden", "invalid_key"):
        fields = ", ".join(InfraSettings.model_fields)
        return ConfigError(
            f"settings.{field}: unknown field; valid fields: {fields}. Given: {format_value(first['input'])}"
        )
    description = InfraSettings.model_fields[field].description
    return ConfigError(f"settings.{field}: must be {description}. Given: {format_value(first['input'])}")
