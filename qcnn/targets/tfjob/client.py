"""Access to the cluster: TFJobs by name, their logs, and TensorBoard deployments."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from qcnn.errors import ArtifactError, ConfigError, QcnnError, RetryableError, TrainingError
from qcnn.jobs.job import run_label
from qcnn.jobs.kubernetes import tensorboard
from qcnn.jobs.kubernetes.api import NamespaceClient, own_namespace
from qcnn.jobs.kubernetes.job_watcher import JobWatcher, LostError
from qcnn.jobs.kubernetes.manifest import OWN, RUN_LABEL, run_of
from qcnn.jobs.kubernetes.tensorboard import ACCOUNT, PORT, TensorBoardSpec, deployment, service
from qcnn.jobs.kubernetes.training_manifest import PROFILER_PORT
from qcnn.jobs.references import check_namespace
from qcnn.jobs.tfjob.engine import TFJOB, TFJOBS
from qcnn.storage.store import SCHEMES, parse_bucket_uri
from qcnn.targets.artifacts import LogSource, deduplicate, resolve_logs
from qcnn.targets.errors import StepError, logs_to_stderr
from qcnn.targets.settings import PodFields, setting

# Timeout of a request that only makes an error message more precise.
_SECONDS = 10.0
# Allowed names of Kubernetes objects. Run names are arbitrary.
_IS_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Connection:
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


def place_of(namespace: str | None) -> str:
    """Return a namespace as a phrase for messages. None: the namespace of the kubeconfig context.

    Raises:
        ConfigError: If no cluster is configured.
    """
    return f"namespace {namespace or own_namespace()}"


def can_be_name(text: str) -> bool:
    """Return whether a text is a valid name of a Kubernetes object."""
    return _IS_NAME.fullmatch(text) is not None


@contextlib.contextmanager
def cluster(namespace: str | None) -> Iterator[NamespaceClient]:
    """Context manager that yields a client for a namespace and logs to stderr."""
    with logs_to_stderr(), contextlib.closing(NamespaceClient(namespace or own_namespace())) as api:
        yield api


def find_job(api: NamespaceClient, name: str) -> dict[str, Any]:
    """Return a TFJob of qcnn by its name, or the newest TFJob of a run by the run name.

    Raises:
        ArtifactError: If no TFJob has this name.
    """
    found = api.get(TFJOBS, name) if can_be_name(name) else None
    if found is not None and found["metadata"].get("labels", {}).items() >= OWN.items():
        return found
    selector = ",".join(f"{key}={value}" for key, value in {**OWN, RUN_LABEL: run_label(name)}.items())
    of_run = [job for job in api.find(TFJOBS, labelSelector=selector) if run_of(job["metadata"]) == name]
    if not of_run:
        raise ArtifactError(f"TFJob: qcnn created none of this name in namespace {api.namespace}. Given: {name}")
    return max(of_run, key=lambda job: str(job["metadata"]["creationTimestamp"]))


def _is_ending(api: NamespaceClient) -> bool:
    """Return whether the namespace is being deleted, or False if there is no quick response."""
    try:
        return api.limited_to(_SECONDS).namespace_is_ending()
    except QcnnError:
        return False


def follow(api: NamespaceClient, job: dict[str, Any], restarts: int | None) -> None:
    """Print the process logs of a TFJob until it ends.

    Args:
        api: Client for the namespace.
        job: The TFJob.
        restarts: Maximum number of process restarts, after which the TFJob is deleted. None: no limit.

    Raises:
        StepError: If the TFJob failed.
    """
    following = JobWatcher(api, TFJOB, job, TFJOB.replicas(job), restarts, pending_seconds=float("inf"))
    try:
        following.run()
    except (TrainingError, RetryableError) as error:
        # In a namespace that is being deleted, pods may disappear before the TFJob, which then looks failed.
        if _is_ending(api):
            raise StepError(f"namespace: is being deleted, with the TFJob. Given: {api.namespace}") from None
        if isinstance(error, LostError):
            name = job["metadata"]["name"]
            raise StepError(
                f"{error.reason}; submit it again to continue from its last checkpoint. Given: {name}"
            ) from None
        raise StepError(str(error)) from None


def logs_of_jobs(names: Sequence[str], namespace: str | None, *, in_a_pod: bool = False) -> list[LogSource]:
    """Return the logs of TFJobs.

    Args:
        names: Names of TFJobs or runs.
        namespace: Namespace, or None for the namespace of the kubeconfig context.
        in_a_pod: Whether TensorBoard runs in a pod, which may have the same volumes.

    Raises:
        ArtifactError: If a TFJob does not exist, or only its pods can read its logs.
    """
    if not names:
        return []
    # Importing the Kubernetes client takes longer than all other imports here.
    from qcnn.jobs.kubernetes.training_manifest import outputs

    with cluster(namespace) as api:
        addresses = {name: outputs(find_job(api, name)).get("logs", "") for name in names}
    for name, address in addresses.items():
        if not parse_bucket_uri(address) and not (in_a_pod and address):
            raise ArtifactError(
                f"TFJob: its logs are on a volume of its pods, at {address or 'an unknown path'}. Given: {name}"
            )
    return [LogSource(name, address) for name, address in addresses.items()]


@dataclasses.dataclass(frozen=True, kw_only=True)
class BoardSettings(PodFields, Connection):
    """Pod settings and namespace of a TensorBoard."""


def board_of(name: str, logs: Sequence[str], settings: PodFields, *, public: bool) -> TensorBoardSpec:
    """Return the specification of a TensorBoard.

    Args:
        name: Name of the Deployment.
        logs: URIs or volume paths of log folders.
        settings: Settings of the pod.
        public: Whether to expose it with a LoadBalancer.

    Raises:
        ConfigError: If the pod cannot read the logs, or a setting is invalid.
        ArtifactError: If different logs have the same display name.
    """
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


def tensorboard_objects(name: str, logs: Sequence[str], settings: PodFields, *, public: bool) -> Sequence[Any]:
    """Return the manifests that `deploy_tensorboard` would create.

    Args:
        name: Name of the Deployment.
        logs: URIs or volume paths of log folders.
        settings: Settings of the pod.
        public: Whether to expose it with a LoadBalancer.
    """
    board = board_of(name, logs, settings, public=public)
    return [deployment(board), service(board)]


def deploy_tensorboard(
    name: str, logs: Sequence[str], settings: PodFields, namespace: str | None, *, public: bool
) -> Mapping[str, str]:
    """Deploy TensorBoard and return its access commands and "namespace".

    Args:
        name: Name of the Deployment.
        logs: URIs or volume paths of log folders.
        settings: Settings of the pod.
        namespace: Namespace, or None for the namespace of the kubeconfig context.
        public: Whether to expose it with a LoadBalancer.

    Raises:
        ConfigError: If the pod cannot read the logs, a setting is invalid, or the API server rejects it.
    """
    board = board_of(name, logs, settings, public=public)
    with cluster(namespace) as api:
        tensorboard.deploy(api, board)
        where = f"--namespace {api.namespace}"
        return {
            "namespace": api.namespace,
            "look at it": f"kubectl {where} port-forward service/{name} {PORT}",
            "and open": f"http://localhost:{PORT}",
            "capture profiles": f"of a worker by the name of its pod, such as JOB-worker-0:{PROFILER_PORT}",
            "delete it": f"qcnn tensorboard --undeploy --name {name} {where}",
        }


def delete_tensorboard(name: str, namespace: str | None) -> str:
    """Delete a TensorBoard and return its namespace.

    Raises:
        ArtifactError: If no TensorBoard has this name.
    """
    with cluster(namespace) as api:
        tensorboard.undeploy(api, name)
        return api.namespace
