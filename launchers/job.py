"""One description of a training job, whatever runs it."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import pydantic

# apimachinery, pkg/api/resource/quantity.go.
_QUANTITY = r"^\d+(\.\d+)?([KMGTPE]i|[numkMGTPE]|[eE]\d+)?$"


def _number_as_text(value: object) -> object:
    """In YAML, two CPUs are a number."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


Quantity = Annotated[str, pydantic.StringConstraints(pattern=_QUANTITY), pydantic.BeforeValidator(_number_as_text)]
SecretKey = Annotated[str, pydantic.StringConstraints(pattern=r"^[^/]+/[^/]+$")]


@dataclasses.dataclass(frozen=True)
class Pod:
    """What each process of a job is given on a cluster; quantities (`cpu`, `memory`) are Kubernetes' own, as "2Gi".

    `secrets` maps environment variables to the secrets and keys that they are taken from, as "SECRET/KEY".
    `volumes` maps the path a volume is mounted at to its source, as in a pod's spec: {"hostPath": {"path": ...}}.
    """

    # Read by launchers.pod_settings.
    __pydantic_config__ = pydantic.ConfigDict(extra="forbid")

    image: str
    pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    pull_secrets: tuple[str, ...] = ()
    service_account: str = "default"
    cpu: Quantity = "1"
    memory: Quantity = "2Gi"
    gpus: Annotated[int, pydantic.Field(ge=0, strict=True)] = 0
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)
    secrets: Mapping[str, SecretKey] = dataclasses.field(default_factory=dict)
    volumes: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    node_selector: Mapping[str, str] = dataclasses.field(default_factory=dict)
    tolerations: tuple[Mapping[str, Any], ...] = ()
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Job:
    """What every process runs, and how many processes each role (chief, worker, ps, evaluator) has.

    All are started again up to `restarts` times when one is lost; one that gives no sign of life for
    `hang_seconds` counts as lost.
    """

    argv: tuple[str, ...]
    replicas: Mapping[str, int]
    restarts: int
    hang_seconds: float
    # Flags that take the port of a further server, one of the process' own; its default is for a host of its own.
    port_flags: tuple[str, ...] = ()
    # Where and how the processes run on a cluster; on one machine nothing of it counts.
    pod: Pod | None = None

    def processes(self) -> list[tuple[str, int]]:
        """Return role and index of every process."""
        return [(role, index) for role, count in self.replicas.items() for index in range(count)]


def tf_config(addresses: Mapping[str, list[str]], role: str, index: int) -> str:
    """Return TF_CONFIG for one process, in the form the training operator writes."""
    task = {"type": role, "index": index}
    return json.dumps({"cluster": dict(addresses), "task": task, "environment": "cloud"})
