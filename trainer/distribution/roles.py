"""Role of a training process, from TF_CONFIG of a TFJob, or TF_CONFIG or CLUSTER_SPEC of Vertex AI."""

import dataclasses
import ipaddress
import json
import re
from collections.abc import Mapping
from typing import Any

from qcnn.errors import ConfigError, format_value
from qcnn.experiment.config import ExperimentConfig
from qcnn.experiment.requirements import STRATEGIES, Chief
from qcnn.process.roles import CHIEF, EVALUATOR, ROLES, WORKER

# A host, or an IPv6 address in brackets, and a port.
_ADDRESS = re.compile(r"(?:[^\s:/]+|\[[^\s/]+\]):(\d{1,5})", re.ASCII)
_LAST_PORT = 65535
# Worker pools of Vertex AI by index (its page "Distributed training"). CLUSTER_SPEC has only names of pools.
_POOLS = {f"workerpool{position}": role for position, role in enumerate(ROLES)}


@dataclasses.dataclass(frozen=True)
class ClusterConfig:
    """Role and index of one process, and the addresses of every process by role."""

    addresses: dict[str, tuple[str, ...]]
    role: str
    index: int

    @property
    def training_addresses(self) -> dict[str, tuple[str, ...]]:
        """Addresses of the training processes by role, without the evaluator."""
        return {role: hosts for role, hosts in self.addresses.items() if role != EVALUATOR}

    @property
    def counts(self) -> dict[str, int]:
        """Number of training processes by role."""
        return {role: len(hosts) for role, hosts in self.training_addresses.items()}

    @property
    def is_local(self) -> bool:
        """Whether all processes are on the local machine, by loopback addresses."""
        return all(_is_loopback(address) for hosts in self.addresses.values() for address in hosts)

    @property
    def is_chief(self) -> bool:
        """Whether this process writes outputs: the chief, or worker 0 if there is no chief."""
        return self.role == CHIEF or (self.role == WORKER and self.index == 0 and CHIEF not in self.addresses)


def parse_cluster(environment: Mapping[str, str]) -> ClusterConfig | None:
    """Parse TF_CONFIG or else CLUSTER_SPEC, or return None for a single process.

    The formats are those of training-operator v1.9 `genTFConfigJSONStr` (`cluster` includes an evaluator, and a single
    replica has no variable), of Vertex AI "Distributed training", and hand-written ones.

    Raises:
        ConfigError: If a value is invalid.
    """
    for variable in ("TF_CONFIG", "CLUSTER_SPEC"):
        if text := environment.get(variable, "").strip():
            return _parse(variable, text)
    return None


def check_roles(config: ExperimentConfig, cluster: ClusterConfig | None) -> None:
    """Raise ConfigError if the processes of a cluster are not those of the experiment.

    On Vertex AI one of the training processes always has the role chief.
    """
    expected = {role: count for role, count in config.replicas.items() if role != EVALUATOR}
    if cluster is None:
        if sum(expected.values()) != 1:
            raise ConfigError(
                "workers: must be 1 training process without TF_CONFIG and CLUSTER_SPEC. "
                f"Given: {_format_counts(expected)}"
            )
        return
    counts = cluster.counts
    if STRATEGIES[config.strategy].chief is not Chief.COORDINATES:
        expected, counts = _with_chief_as_worker(expected), _with_chief_as_worker(counts)
    if counts != expected:
        raise ConfigError(
            f"workers: TF_CONFIG or CLUSTER_SPEC lists {_format_counts(cluster.counts)}, but strategy "
            f"{config.strategy} with these fields requires {_format_counts(config.replicas)}. "
            f"Given: workers {config.workers}"
        )


def _with_chief_as_worker(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the number of processes by role, with the chief counted as a worker."""
    others = {role: count for role, count in counts.items() if role not in (CHIEF, WORKER)}
    return {WORKER: counts.get(CHIEF, 0) + counts.get(WORKER, 0), **others}


def _format_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {role}" for role, count in counts.items())


def _is_loopback(address: str) -> bool:
    host = address.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _parse(variable: str, text: str) -> ClusterConfig | None:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{variable}: must be JSON ({error}). Given: {format_value(text)}") from None
    if not isinstance(content, dict):
        raise ConfigError(f"{variable}: must be an object with cluster and task. Given: {format_value(text)}")
    if not content.get("cluster") and not content.get("task"):
        return None
    addresses = _addresses(variable, content.get("cluster"))
    task = content.get("task")
    if not isinstance(task, dict) or "type" not in task or "index" not in task:
        raise ConfigError(f"{variable}: task must have type and index. Given: task={json.dumps(task)}")
    role, index = _role(variable, task["type"]), task["index"]
    if type(index) is not int or index < 0:
        raise ConfigError(f"{variable}: task.index must be an integer, at least 0. Given: {json.dumps(index)}")
    hosts = addresses.get(role)
    if hosts is None and role == EVALUATOR:
        # Vertex AI and TensorFlow do not list the evaluator in the cluster.
        return ClusterConfig(addresses, role, index)
    if hosts is None or index >= len(hosts):
        raise ConfigError(
            f"{variable}: task.index must be below the number of {role} addresses, {len(hosts or ())}. Given: {index}"
        )
    return ClusterConfig(addresses, role, index)


def _addresses(variable: str, cluster: Any) -> dict[str, tuple[str, ...]]:
    if not isinstance(cluster, dict) or not cluster:
        raise ConfigError(f"{variable}: cluster must map roles to addresses. Given: cluster={json.dumps(cluster)}")
    addresses = {}
    seen: set[str] = set()
    for name, hosts in cluster.items():
        role = _role(variable, name)
        if not isinstance(hosts, list):
            # With enableDynamicWorker, the operator lists only this worker, as a mapping. Synchronous training cannot
            # use that.
            raise ConfigError(f"{variable}: cluster.{name} must be a list of host:port. Given: {json.dumps(hosts)}")
        for host in hosts:
            _check_address(variable, name, host)
            if host in seen:
                raise ConfigError(
                    f"{variable}: cluster.{name} must have a different address for each process. Given: {host}"
                )
            seen.add(host)
        if hosts:
            addresses[role] = tuple(hosts)
    if len(addresses.get(CHIEF, ())) > 1:
        raise ConfigError(f"{variable}: must have at most one chief. Given: {json.dumps(addresses[CHIEF])}")
    return addresses


def _check_address(variable: str, name: str, address: Any) -> None:
    """Raise ConfigError if a value is not host:port."""
    match = _ADDRESS.fullmatch(address) if isinstance(address, str) else None
    if match is None:
        raise ConfigError(
            f"{variable}: cluster.{name} must be a list of host:port, without a scheme. Given: {json.dumps(address)}"
        )
    if not 1 <= int(match[1]) <= _LAST_PORT:
        raise ConfigError(f"{variable}: cluster.{name} must have ports from 1 to {_LAST_PORT}. Given: {address}")


def _role(variable: str, name: Any) -> str:
    role = _POOLS.get(name, name) if isinstance(name, str) else name
    if role not in ROLES:
        raise ConfigError(
            f"{variable}: roles are {', '.join(ROLES)} (on Vertex AI also workerpool0 to workerpool3). "
            f"Given: {json.dumps(name)}"
        )
    return str(role)
