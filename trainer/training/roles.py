"""Which process of a training this is, by TF_CONFIG of a TFJob or TF_CONFIG and CLUSTER_SPEC of Vertex."""

import dataclasses
import json
import re
from collections.abc import Mapping
from typing import Any

from trainer.config import ExperimentConfig
from trainer.errors import ConfigError, given

ROLES = ("chief", "worker", "ps", "evaluator")
_ADDRESS = re.compile(r"\S+:\d{1,5}")
# Vertex' worker pools by position (its "Distributed training" page); CLUSTER_SPEC speaks of pools only.
_POOLS = {f"workerpool{position}": role for position, role in enumerate(ROLES)}


@dataclasses.dataclass(frozen=True)
class Cluster:
    """Role and index of one process, and the addresses of every process by role."""

    addresses: dict[str, tuple[str, ...]]
    role: str
    index: int

    @property
    def training_addresses(self) -> dict[str, tuple[str, ...]]:
        """The addresses that TensorFlow trains across: an evaluator is never part of them."""
        return {role: hosts for role, hosts in self.addresses.items() if role != "evaluator"}

    @property
    def training_workers(self) -> int:
        """Processes that hold a replica: the chief and the workers."""
        return sum(len(self.addresses.get(role, ())) for role in ("chief", "worker"))

    @property
    def is_chief(self) -> bool:
        """Whether this process writes: the chief, or worker 0 where there is none."""
        return self.role == "chief" or (self.role == "worker" and self.index == 0 and "chief" not in self.addresses)


def parse_cluster(environment: Mapping[str, str]) -> Cluster | None:
    """Read TF_CONFIG, or CLUSTER_SPEC where there is none; None for a process that trains alone.

    Shapes: training-operator v1.9 `genTFConfigJSONStr` (an evaluator is listed in `cluster`; nothing is
    set for a single replica), Vertex AI "Distributed training", or written by hand.

    Raises:
        ConfigError: one line with what is wrong.
    """
    for variable in ("TF_CONFIG", "CLUSTER_SPEC"):
        if text := environment.get(variable, "").strip():
            return _parse(variable, text)
    return None


def check_workers(config: ExperimentConfig, cluster: Cluster | None) -> None:
    """Refuse a cluster whose size is not the experiment's, and a role that has no part in training.

    Raises:
        ConfigError: `workers` and the number of processes differ, or this is neither chief nor worker.
    """
    if cluster and cluster.role not in ("chief", "worker"):
        raise ConfigError(f"role: strategy {config.strategy} trains on chief and workers only. Given: {cluster.role}")
    processes = cluster.training_workers if cluster else 1
    if config.workers != processes:
        source = (
            "TF_CONFIG or CLUSTER_SPEC lists" if cluster else "neither TF_CONFIG nor CLUSTER_SPEC is set, which makes"
        )
        raise ConfigError(f"workers: {source} {processes} training process(es). Given: {config.workers}")


def _parse(variable: str, text: str) -> Cluster | None:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{variable}: is not JSON ({error}). Given: {given(text)}") from None
    if not isinstance(content, dict):
        raise ConfigError(f"{variable}: must be an object with cluster and task. Given: {given(text)}")
    if not content.get("cluster") and not content.get("task"):
        return None
    addresses = _addresses(variable, content.get("cluster"))
    task = content.get("task")
    if not isinstance(task, dict) or "type" not in task or "index" not in task:
        raise ConfigError(f"{variable}: task must hold type and index. Given: task={json.dumps(task)}")
    role, index = _role(variable, task["type"]), task["index"]
    if type(index) is not int or index < 0:
        raise ConfigError(f"{variable}: task.index must be an integer, at least 0. Given: {json.dumps(index)}")
    hosts = addresses.get(role)
    if hosts is None and role == "evaluator":
        # Vertex and TensorFlow itself leave the evaluator out of the cluster.
        return Cluster(addresses, role, index)
    if hosts is None or index >= len(hosts):
        raise ConfigError(
            f"{variable}: task.index must be below the number of {role} addresses, {len(hosts or ())}. Given: {index}"
        )
    return Cluster(addresses, role, index)


def _addresses(variable: str, cluster: Any) -> dict[str, tuple[str, ...]]:
    if not isinstance(cluster, dict) or not cluster:
        raise ConfigError(f"{variable}: cluster must map roles to addresses. Given: cluster={json.dumps(cluster)}")
    addresses = {}
    for name, hosts in cluster.items():
        role = _role(variable, name)
        if not isinstance(hosts, list) or not all(isinstance(host, str) and _ADDRESS.fullmatch(host) for host in hosts):
            # The operator's enableDynamicWorker lists only this worker, as a mapping: no synchronous training.
            raise ConfigError(f"{variable}: cluster.{name} must be a list of host:port. Given: {json.dumps(hosts)}")
        if hosts:
            addresses[role] = tuple(hosts)
    if len(addresses.get("chief", ())) > 1:
        raise ConfigError(f"{variable}: there must be one chief. Given: {json.dumps(addresses['chief'])}")
    return addresses


def _role(variable: str, name: Any) -> str:
    role = _POOLS.get(name, name) if isinstance(name, str) else name
    if role not in ROLES:
        raise ConfigError(
            f"{variable}: roles are {', '.join(ROLES)} (on Vertex also workerpool0 to workerpool3). "
            f"Given: {json.dumps(name)}"
        )
    return str(role)
