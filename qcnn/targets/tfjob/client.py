"""Access to a namespace, a TFJob by its name, its logs, and following it; a TensorBoard on the cluster."""

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
from qcnn.jobs.references import check_namespace
from qcnn.jobs.tfjob.manifest import PROFILER_PORT, TFJOB, TFJOBS
from qcnn.jobs.tfjob.status import replicas
from qcnn.storage.store import SCHEMES, parse_bucket_uri
from qcnn.targets.artifacts import LogSource, deduplicate, resolve_logs
from qcnn.targets.errors import StepError, logs_to_stderr
from qcnn.targets.settings import PodFields, setting

# For how long a failed job's namespace is asked for, which only makes the message more precise.
_SECONDS = 10.0
# What an object of Kubernetes can be called; a run may have any name.
_IS_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Connection:
    """Which namespace of the cluster of KUBECONFIG.

    Raises:
        ConfigError: the namespace is none that Kubernetes takes.
    """

    namespace: str | None = setting(
        "Namespace of the cluster.", None, shown="that of the kubeconfig's context", metavar="NAME", short="n"
    )

    def __post_init__(self) -> None:
        if self.namespace is not None:
            check_namespace(self.namespace)


def place_of(namespace: str | None) -> str:
    """Return how sentences call a namespace; None is that of the kubeconfig's context.

    Raises:
        ConfigError: there is no cluster.
    """
    return f"namespace {namespace or own_namespace()}"


def can_be_name(text: str) -> bool:
    """Whether an object of Kubernetes can have this name."""
    return _IS_NAME.fullmatch(text) is not None


@contextlib.contextmanager
def cluster(namespace: str | None) -> Iterator[NamespaceClient]:
    """Give access to a namespace; messages go to stderr."""
    with logs_to_stderr(), contextlib.closing(NamespaceClient(namespace or own_namespace())) as api:
        yield api


def find_job(api: NamespaceClient, name: str) -> dict[str, Any]:
    """Return a TFJob of ours, by its own name or that of its run, of whose TFJobs it is the last.

    Raises:
        ArtifactError: there is none of this name.
    """
    found = api.get(TFJOBS, name) if can_be_name(name) else None
    if found is not None and found["metadata"].get("labels", {}).items() >= OWN.items():
        return found
    selector = ",".join(f"{key}={value}" for key, value in {**OWN, RUN_LABEL: run_label(name)}.items())
    of_run = [job for job in api.find(TFJOBS, labelSelector=selector) if run_of(job["metadata"]) == name]
    if not of_run:
        raise ArtifactError(f"TFJob: qcnn made none of this name in namespace {api.namespace}. Given: {name}")
    return max(of_run, key=lambda job: str(job["metadata"]["creationTimestamp"]))


def _is_ending(api: NamespaceClient) -> bool:
    """Return whether the namespace is being deleted, False where that cannot be found out soon."""
    try:
        return api.limited_to(_SECONDS).namespace_is_ending()
    except QcnnError:
        return False


def follow(api: NamespaceClient, job: dict[str, Any], restarts: int | None) -> None:
    """Show what the processes of a TFJob print until it has ended.

    With `restarts`, a job is given up whose processes are lost more often.

    Raises:
        StepError: it failed.
    """
    following = JobWatcher(api, TFJOB, job, replicas(job), restarts, pending_seconds=float("inf"))
    try:
        following.run()
    except (TrainingError, RetryableError) as error:
        # The pods of a namespace that is being deleted may go before the TFJob does, which then looks lost.
        if _is_ending(api):
            raise StepError(f"namespace: is being deleted, with the TFJob. Given: {api.namespace}") from None
        if isinstance(error, LostError):
            name = job["metadata"]["name"]
            raise StepError(
                f"{error.reason}; submit it again to continue from its last checkpoint. Given: {name}"
            ) from None
        raise StepError(str(error)) from None


def logs_of_jobs(names: Sequence[str], namespace: str | None, *, in_a_pod: bool = False) -> list[LogSource]:
    """Return the logs of TFJobs, which are to be looked at here or `in_a_pod`, which may have the same volumes.

    Raises:
        ArtifactError: there is none of a name, or its pods alone reach its logs.
    """
    if not names:
        return []
    # The cluster's client takes longer to load than everything else here.
    from qcnn.jobs.tfjob.status import outputs

    with cluster(namespace) as api:
        addresses = {name: outputs(find_job(api, name)).get("logs", "") for name in names}
    for name, address in addresses.items():
        if not parse_bucket_uri(address) and not (in_a_pod and address):
            raise ArtifactError(
                f"TFJob: its logs are on a volume of its pods, at {address or 'no place'}. Given: {name}"
            )
    return [LogSource(name, address) for name, address in addresses.items()]


@dataclasses.dataclass(frozen=True, kw_only=True)
class BoardSettings(PodFields, Connection):
    """The pod of a TensorBoard, and in which namespace it is."""


def board_of(name: str, logs: Sequence[str], settings: PodFields, *, public: bool) -> TensorBoardSpec:
    """Return a TensorBoard on logs at these addresses, in a pod with these settings.

    Raises:
        ConfigError: logs are where the pod does not reach them, or a setting is wrong.
        ArtifactError: two of them would have one name.
    """
    # A file is that of the trainings, whose account writes.
    pod = settings.pod_with().model_copy(update={"service_account": settings.service_account or ACCOUNT})
    for address in logs:
        if not parse_bucket_uri(address) and not pod.keeps(address):
            known = ", ".join(f"{scheme}://BUCKET/FOLDER" for scheme in SCHEMES)
            raise ConfigError(f"tensorboard: the logs must be at {known}, or on a volume of the pod. Given: {address}")
    # The pod names them by their addresses.
    deduplicate(named for address in logs if (named := resolve_logs(address, Path())))
    return TensorBoardSpec(name, list(logs), pod, public)


def tensorboard_objects(name: str, logs: Sequence[str], settings: PodFields, *, public: bool) -> Sequence[Any]:
    """Return what `deploy_tensorboard` would create."""
    board = board_of(name, logs, settings, public=public)
    return [deployment(board), service(board)]


def deploy_tensorboard(
    name: str, logs: Sequence[str], settings: PodFields, namespace: str | None, *, public: bool
) -> Mapping[str, str]:
    """Let a TensorBoard run, and return how it is reached; "namespace" is the one that it is in.

    Raises:
        ConfigError: as `board_of`, or the cluster refuses it.
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
    """Delete a TensorBoard, and return the namespace that it was in.

    Raises:
        ArtifactError: there is none of this name.
    """
    with cluster(namespace) as api:
        tensorboard.undeploy(api, name)
        return api.namespace
