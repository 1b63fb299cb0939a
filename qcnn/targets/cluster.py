"""What the targets on a Kubernetes cluster share: connection, clients, cost and TensorBoard."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from typing_extensions import override

from qcnn.errors import ConfigError
from qcnn.jobs.kubernetes import tensorboard
from qcnn.jobs.kubernetes.api import NamespaceClient
from qcnn.jobs.kubernetes.cluster_config import own_namespace
from qcnn.jobs.kubernetes.tensorboard import ACCOUNT, PORT, TensorBoardSpec, deployment, service
from qcnn.jobs.kubernetes.training_manifest import PROFILER_PORT
from qcnn.jobs.references import check_namespace
from qcnn.storage.store import SCHEMES, parse_bucket_uri
from qcnn.targets.artifacts import deduplicate, resolve_logs
from qcnn.targets.base import HostsTensorBoard, Prepares, Request, TargetSettings
from qcnn.targets.bound import BoundTarget
from qcnn.targets.errors import logs_to_stderr
from qcnn.targets.settings import PodFields, setting

if TYPE_CHECKING:
    from qcnn.costs.platforms import PricingPlatform
    from qcnn.jobs.pod_settings import PodSettings
    from qcnn.jobs.pricing import Prices


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClusterConnection(TargetSettings):
    """Namespace on the cluster of KUBECONFIG.

    Raises:
        ConfigError: If the namespace is not a valid Kubernetes name.
    """

    namespace: str | None = setting(
        "Namespace of the cluster.", None, shown="namespace of the kubeconfig context", metavar="NAME", short="n"
    )

    def __post_init__(self) -> None:
        if self.namespace is not None:
            check_namespace(self.namespace)


@contextlib.contextmanager
def cluster(namespace: str | None) -> Iterator[NamespaceClient]:
    """Context manager that yields a client for a namespace and logs to stderr.

    Args:
        namespace: Namespace, or None for that of the kubeconfig context.
    """
    with logs_to_stderr(), contextlib.closing(NamespaceClient(namespace or own_namespace())) as api:
        yield api


N = TypeVar("N", bound=ClusterConnection)
P_contra = TypeVar("P_contra", bound=PodFields, contravariant=True)


class ClusterTarget(BoundTarget[N], Prepares, HostsTensorBoard[P_contra]):
    """Base class of a target on a cluster, with TensorBoard settings of class `P_contra`."""

    @functools.cached_property
    def api(self) -> NamespaceClient:
        """Client of the namespace."""
        return self._open(cluster(self.connection.namespace))

    @override
    @classmethod
    def platform(cls, pod: PodSettings, prices: Prices, machine_type: str = "") -> PricingPlatform:
        from qcnn.costs.platforms import on_kubernetes

        return on_kubernetes(pod, prices, machine_type)

    @override
    def board_requests(self, name: str, logs: Sequence[str], settings: P_contra, *, public: bool) -> Sequence[Request]:
        board = _board(name, logs, settings, public=public)
        return [deployment(board), service(board)]

    @override
    def deploy_board(self, name: str, logs: Sequence[str], settings: P_contra, *, public: bool) -> Mapping[str, str]:
        board = _board(name, logs, settings, public=public)
        tensorboard.deploy(self.api, board)
        where = f"--namespace {self.api.namespace}"
        return {
            "namespace": self.api.namespace,
            "look at it": f"kubectl {where} port-forward service/{name} {PORT}",
            "and open": f"http://localhost:{PORT}",
            "capture profiles": f"of a worker by the name of its pod, such as JOB-worker-0:{PROFILER_PORT}",
            "delete it": f"qcnn tensorboard --undeploy --name {name} {where}",
        }

    @override
    def delete_board(self, name: str) -> str:
        tensorboard.undeploy(self.api, name)
        return self.api.namespace


def _board(name: str, logs: Sequence[str], settings: PodFields, *, public: bool) -> TensorBoardSpec:
    # The account in the pod settings file is for training and may write. TensorBoard only reads, and uses no GPU.
    of_tensorboard = {"service_account": settings.service_account or ACCOUNT, "gpus": 0, "accelerator": ""}
    pod = settings.pod_with().model_copy(update=of_tensorboard)
    for address in logs:
        if not parse_bucket_uri(address) and not pod.is_persistent(address):
            known = ", ".join(f"{scheme}://BUCKET/FOLDER" for scheme in SCHEMES)
            raise ConfigError(f"tensorboard: the logs must be at {known}, or on a volume of the pod. Given: {address}")
    # The pod derives display names from URIs, so check that they are unique.
    deduplicate(named for address in logs if (named := resolve_logs(address, Path())))
    return TensorBoardSpec(name, list(logs), pod, public)
