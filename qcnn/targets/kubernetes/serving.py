"""Model servers on a cluster: `qcnn serve` as a Deployment."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Literal

from typing_extensions import override

from qcnn.errors import ConfigError
from qcnn.jobs.kubernetes.api import REPLICA_SETS, NamespaceClient
from qcnn.jobs.kubernetes.deployments import check_name
from qcnn.jobs.kubernetes.manifest import Manifest
from qcnn.jobs.kubernetes.model_server import (
    PROGRAM,
    ModelServer,
    Scaling,
    access,
    manifests,
    previous_revision,
    running_revisions,
)
from qcnn.jobs.kubernetes.service_accounts import check_account_exists
from qcnn.jobs.pod_settings import SERVER_ACCOUNT, check_no_secrets
from qcnn.storage.store import check_reachable
from qcnn.targets.base import Deployed, Deploys, ReportLine, Request
from qcnn.targets.bound import BoundTarget
from qcnn.targets.cluster import ClusterConnection, cluster
from qcnn.targets.settings import PodFields, setting

DEPLOY_HELP = """
Serve MODEL on the cluster with qcnn serve: Deployment, Service, autoscaler and disruption budget.

MODEL is a bucket URI, or a path on a volume of the pods, of a model or of the versions that `qcnn export` writes.
Existing pods answer until those of a new version are ready. --rollback restores the revision before the current one, as
`kubectl rollout undo` does.
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ServerFields(PodFields, ClusterConnection):
    """Settings of a model server on any kind of cluster.

    Raises:
        ConfigError: If settings conflict, or one is malformed.
    """

    model: str | None = setting("URI of a model or of its versions.", None, metavar="MODEL", is_argument=True)
    endpoint: str = setting("Name of the endpoint and of the model in requests.", metavar="NAME")
    version: int | None = setting(
        "Version to serve.", None, shown="the highest one, also if it is created later", metavar="N", minimum=1
    )
    rollback: bool = setting("Restore the revision before the current one.", False)
    min_replicas: int = setting("Minimum number of pods.", 2, minimum=1)
    max_replicas: int = setting("Maximum number of pods.", 4, minimum=1)
    trust: bool = setting("Import the Python module of a model that is a function.", False)
    timeout_seconds: int = setting(
        "Seconds within which new pods must become ready.", 600, metavar="SECONDS", minimum=10
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_name(self.endpoint, "endpoint")
        if self.rollback == bool(self.model):
            given = "both" if self.model else "none"
            raise ConfigError(f"deploy: must have either MODEL or --rollback. Given: {given}")
        if self.rollback and (self.version or self.has_pod_settings):
            given = f"--version {self.version}" if self.version else "pod settings"
            raise ConfigError(f"rollback: must have no other settings. Given: {given}")

    @functools.cached_property
    def spec(self) -> ModelServer:
        """Specification of the server.

        Raises:
            ConfigError: If pods cannot read the model, or a pod setting is invalid.
        """
        model = self.model or ""
        pod = self.pod_with(service_account=SERVER_ACCOUNT)
        if not check_reachable("model", model) and not pod.is_persistent(model):
            raise ConfigError(f"model: must be in a bucket, or on a volume of the pod settings. Given: {model}")
        return ModelServer(self.endpoint, model, self.version, pod, self.trust)


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeploySettings(ServerFields):
    """Settings of a model server.

    Raises:
        ConfigError: If settings conflict, or one is malformed.
    """

    cpu_utilization: int = setting(
        "CPU utilization, in percent of the requested CPUs, above which pods are added.", 70, minimum=1, maximum=100
    )

    @functools.cached_property
    def scaling(self) -> Scaling:
        """Number of pods."""
        return Scaling(self.min_replicas, self.max_replicas, self.cpu_utilization)


class ServesModels(BoundTarget[ClusterConnection]):
    """Base class of a target with model servers in a namespace."""

    requests_are: ClassVar[Literal["json", "yaml"]] = "yaml"

    @functools.cached_property
    def api(self) -> NamespaceClient:
        """Client of the namespace."""
        return self._open(cluster(self.connection.namespace))


def requests_to_print(settings: ServerFields, create: Callable[[], Sequence[Manifest]]) -> Sequence[Request]:
    """Return the manifests of a deployment with its namespace, if one is given.

    Args:
        settings: Settings of the deployment.
        create: Returns the manifests.

    Raises:
        ConfigError: If a rollback is requested, which depends on the cluster, or an environment variable is a secret.
    """
    if settings.rollback:
        raise ConfigError("dry_run: must be without --rollback. Given: --rollback")
    check_no_secrets(settings.environment)
    metadata = {"namespace": settings.namespace} if settings.namespace else {}
    return [{**each, "metadata": {**each["metadata"], **metadata}} for each in create()]


class KubernetesServing(ServesModels, Deploys[DeploySettings]):
    """Model servers of the target kubernetes."""

    deploy_settings: ClassVar[type[DeploySettings]] = DeploySettings
    deploy_help: ClassVar[str] = DEPLOY_HELP

    @override
    def deploy_requests(self, settings: DeploySettings) -> Sequence[Request]:
        return requests_to_print(settings, lambda: manifests(settings.spec, settings.scaling, settings.timeout_seconds))

    @override
    def deploy(
        self, settings: DeploySettings, report: ReportLine, warn: ReportLine
    ) -> tuple[Sequence[Deployed], Mapping[str, str]]:
        """Deploy a model, or the previous revision, and wait until its pods are ready."""
        name, api = settings.endpoint, self.api
        if settings.rollback:
            deployed = PROGRAM.find(api, name)
            PROGRAM.apply(
                api, [previous_revision(deployed, api.find(REPLICA_SETS, labelSelector=PROGRAM.selector(name)))]
            )
            replicas, seconds = 1, deployed["spec"]["progressDeadlineSeconds"]
        else:
            check_account_exists(api, settings.spec.pod.service_account)
            PROGRAM.apply(api, manifests(settings.spec, settings.scaling, settings.timeout_seconds))
            replicas, seconds = settings.min_replicas, settings.timeout_seconds
        report(f"waiting until the pods of {name} are ready, at most {seconds} s")
        PROGRAM.wait(api, name, seconds, replicas)
        return self.deployed(name), access(name, api.namespace)

    @override
    def deployed(self, endpoint: str) -> Sequence[Deployed]:
        """Return the revisions of a server that have pods, the newest last, with their shares of the ready pods."""
        deployed = PROGRAM.find(self.api, endpoint)
        sets = self.api.find(REPLICA_SETS, labelSelector=PROGRAM.selector(endpoint))
        found = running_revisions(deployed, sets)
        ready = sum(each.ready for each in found) or 1
        return [
            Deployed(each.name, f"{each.model}, version {each.version}", round(100 * each.ready / ready))
            for each in found
        ]

    @override
    def undeploy(self, endpoint: str) -> None:
        PROGRAM.delete(self.api, endpoint)
