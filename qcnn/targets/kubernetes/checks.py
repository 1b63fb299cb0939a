"""Checks of a cluster before a training job."""

from __future__ import annotations

import collections
import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from qcnn.components.training_job import cluster_job
from qcnn.errors import MAX_MESSAGE_LENGTH, ConfigError
from qcnn.experiment.config import ExperimentConfig
from qcnn.jobs.engines import possible_engines, required_engines
from qcnn.jobs.job import JobIdentity
from qcnn.jobs.kubernetes.access import is_allowed
from qcnn.jobs.kubernetes.api import NODES, QUOTAS, SECRETS, NamespaceClient, Object, Resource
from qcnn.jobs.kubernetes.cluster_config import describe_context
from qcnn.jobs.kubernetes.create_or_adopt import lacks_prerequisite
from qcnn.jobs.kubernetes.engine import Engine, TrainingJob
from qcnn.jobs.kubernetes.manifest import pod_template
from qcnn.jobs.kubernetes.retry import FORBIDDEN, RequestRejectedError
from qcnn.jobs.kubernetes.service_accounts import check_account_exists
from qcnn.jobs.kubernetes.training_manifest import JobTimeouts
from qcnn.jobs.pod_settings import PodSettings, parse_quantity
from qcnn.targets.checks import Check, DrawbackError, UnknownError
from qcnn.targets.registries import find_image
from qcnn.yaml_files import read_documents

_RBAC = Path(__file__).parents[2] / "deploy" / "rbac.yaml"
# Roles in it.
USER, WORKER, LAUNCHER = "qcnn-user", "qcnn-worker", "qcnn-launcher"
# Limit for the retries of a request, in seconds.
SECONDS = 5.0
_IDENTITY = JobIdentity("qcnn-doctor", "train")
# Output and image of the job that is only sent as a dry run, without others.
_ANY_OUTPUT, ANY_IMAGE = "gs://qcnn-doctor/none", "qcnn"


class Right(NamedTuple):
    """Right to a resource of an API group. A subresource follows the resource, as in pods/log."""

    group: str
    resource: str
    verb: str

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}{'.' * bool(self.group)}{self.group}"


def cluster_checks(
    connect: Callable[[], NamespaceClient], engines: Sequence[Engine], pod: PodSettings, output: str
) -> Sequence[Check]:
    """Return the checks of a cluster.

    Args:
        connect: Returns the client of the namespace.
        engines: Engines of which the cluster needs one.
        pod: Settings of the training pods, with `ANY_IMAGE` if no image is given.
        output: Output folder of a training, or empty.
    """

    @functools.cache
    def api() -> NamespaceClient:
        return connect().limited_to(SECONDS)

    def job() -> TrainingJob:
        spec = cluster_job(ExperimentConfig(), output or _ANY_OUTPUT, pod)
        possible = [each for each in possible_engines(spec) if each in engines]
        timeouts = JobTimeouts(active_deadline_seconds=None, ttl_seconds_after_finished=0, lease_seconds=None)
        return required_engines(api(), possible)[0].training(spec, _IDENTITY, timeouts)

    def quota() -> str:
        training = job()
        roles = [role for role, _ in training.engine.replicas(training.manifest)]
        return enough_quota(_list(api(), QUOTAS), demand_of([pod.for_role(role) for role in roles]))

    return (
        Check("kubeconfig", lambda: f"{describe_context()}, namespace {api().namespace}"),
        Check("API server", lambda: api_server(api()), "kubeconfig"),
        Check("namespace", lambda: namespace(api()), "API server"),
        Check("engine", lambda: engine(api(), engines), "API server"),
        Check("operator", lambda: operator(api(), job()), "engine"),
        Check("rights", lambda: rights(api(), USER), "namespace"),
        Check("account of pods", lambda: account(api(), pod.service_account, WORKER), "namespace"),
        Check("quota", quota, "engine"),
        *([Check("image", lambda: image(api(), pod), "API server")] if pod.image != ANY_IMAGE else ()),
        Check("nodes", lambda: suitable_nodes(_list(api(), NODES), _template(pod)), "API server"),
        *([Check("queue", lambda: queue(api(), pod.queue), "namespace")] if pod.queue else ()),
    )


@contextlib.contextmanager
def unknown_if_forbidden(action: str) -> Iterator[None]:
    """Context manager of a request for which this client may have no right.

    Raises:
        UnknownError: If it has none.
    """
    try:
        yield
    except RequestRejectedError as error:
        if error.status != FORBIDDEN:
            raise
        raise UnknownError(f"no right to {action}") from None


def _list(api: NamespaceClient, resource: Resource) -> list[Object]:
    with unknown_if_forbidden(f"list {resource.plural}"):
        return api.find(resource)


def api_server(api: NamespaceClient) -> str:
    """Return the version and the address of the API server.

    Raises:
        ConfigError: If it rejects the credentials.
        RetryableError: If there is no response.
    """
    try:
        return f"Kubernetes {api.version()} at {api.host}"
    except RequestRejectedError as error:
        if error.status != 401:
            raise
        raise ConfigError(
            "credentials: must be valid; log in again, for example with `gcloud container clusters get-credentials`. "
            f"Given: those of the kubeconfig, rejected by {api.host}"
        ) from None


def namespace(api: NamespaceClient) -> str:
    """Return the namespace, which exists.

    Raises:
        ConfigError: If it does not exist or is being deleted.
    """
    if api.namespace_is_ending():
        raise ConfigError(
            f"namespace: must exist; create it with `kubectl create namespace {api.namespace}`. Given: {api.namespace}"
        )
    return api.namespace


def engine(api: NamespaceClient, engines: Sequence[Engine]) -> str:
    """Return the engines of the cluster, and the version of their API.

    Raises:
        ConfigError: If the cluster has none of those that are required.
    """
    found = required_engines(api, engines)
    return ", ".join(f"{each.name} ({each.resource.prefix.removeprefix('/apis/')})" for each in found)


def operator(api: NamespaceClient, training: TrainingJob) -> str:
    """Return that the engine accepts a training job, which is sent as a dry run to its webhook.

    Raises:
        QcnnError: If the job is rejected, or no operator answers.
    """
    try:
        for resource, manifest in (*training.prerequisites, (training.engine.resource, training.manifest)):
            api.create(resource, manifest, dry_run=True)
    except RequestRejectedError as error:
        # A dry run does not create the runtime, for which the webhook of Trainer asks.
        if not lacks_prerequisite(error, training.prerequisites):
            raise
    return f"accepts a {training.engine.name}"


@functools.cache
def rules_of(role: str) -> tuple[Right, ...]:
    """Return the rights of a role in deploy/rbac.yaml."""
    (rules,) = (
        each["rules"] for each in read_documents(_RBAC) if (each["kind"], each["metadata"]["name"]) == ("Role", role)
    )
    return tuple(
        Right(group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    )


def rights(api: NamespaceClient, role: str, account: str = "") -> str:
    """Return that this client, or a service account, has the rights of a role.

    Rights to resources that the cluster does not have are not required.

    Args:
        api: Client of the namespace.
        role: Role in deploy/rbac.yaml.
        account: Service account. Empty: this client.

    Raises:
        ConfigError: If a right is missing.
        UnknownError: If this client may not ask for the rights of the account.
    """
    groups = {"", *api.groups()}
    with unknown_if_forbidden(f"ask for those of service account {account}"):
        missing = [
            str(right)
            for right in rules_of(role)
            if right.group in groups and not is_allowed(api, right.verb, right.group, right.resource, account=account)
        ]
    if missing:
        subject = f"--serviceaccount {api.namespace}:{account}" if account else "--user USER"
        raise ConfigError(
            f"rights: must include those of role {role}: `kubectl -n {api.namespace} apply -f {_RBAC}`, then "
            f"`kubectl -n {api.namespace} create rolebinding {role}-binding --role {role} {subject}`. Given: without "
            f"{', '.join(missing)}",
            MAX_MESSAGE_LENGTH,
        )
    return f"all of role {role}"


def account(api: NamespaceClient, name: str, role: str) -> str:
    """Return a service account, which has the rights of a role.

    Args:
        api: Client of the namespace.
        name: Name of the account.
        role: Role in deploy/rbac.yaml.

    Raises:
        ConfigError: If it does not exist or has not.
        UnknownError: If this client may not ask.
    """
    check_account_exists(api, name)
    return f"{name} has {rights(api, role, name)}"


def demand_of(pods: Sequence[PodSettings]) -> Mapping[str, float]:
    """Return what the pods of processes count against a ResourceQuota (Kubernetes, "Resource Quotas")."""
    demand = collections.Counter[str]()
    for pod in pods:
        demand.update({"pods": 1, "count/pods": 1})
        resources = _template(pod)["spec"]["containers"][0]["resources"]
        for prefix, part in (("", "requests"), ("requests.", "requests"), ("limits.", "limits")):
            for name, amount in resources[part].items():
                demand[f"{prefix}{name}"] += parse_quantity(amount)  # type: ignore[assignment]
    return demand


def _template(pod: PodSettings) -> dict[str, Any]:
    return pod_template(pod, "", _IDENTITY, (), mounts_token=False)


def enough_quota(quotas: Sequence[Object], demand: Mapping[str, float]) -> str:
    """Return the names of the quotas that leave enough for a training run.

    Args:
        quotas: ResourceQuotas of the namespace.
        demand: What the pods of the training count.

    Raises:
        ConfigError: If a quota leaves less.
    """
    for quota in quotas:
        hard, used = (quota.get("status", {}).get(part, {}) for part in ("hard", "used"))
        for name, limit in hard.items():
            left = parse_quantity(limit) - parse_quantity(used.get(name, "0"))
            if demand.get(name, 0.0) > left:
                raise ConfigError(
                    f"quota: {quota['metadata']['name']} must leave {demand[name]:g} of {name} for two workers; raise "
                    f"it, or lower workers, --cpu or --memory. Given: {used.get(name, '0')} of {limit} used"
                )
    return ", ".join(quota["metadata"]["name"] for quota in quotas) or "none"


def suitable_nodes(nodes: Sequence[Object], template: Mapping[str, Any]) -> str:
    """Return how many nodes could hold a pod, without regard to other pods.

    Args:
        nodes: Nodes of the cluster.
        template: Template of the pod.

    Raises:
        ConfigError: If none could.
    """
    obstacles = {node["metadata"]["name"]: next(_obstacles(node, template["spec"]), "") for node in nodes}
    suitable = [name for name, obstacle in obstacles.items() if not obstacle]
    if not suitable:
        shown = "; ".join(f"{name}: {obstacle}" for name, obstacle in obstacles.items()) or "none"
        raise ConfigError(
            "nodes: one must hold a pod; lower --cpu or --memory, set tolerations or node_selector in the pod "
            f"settings, or add a node. Given: {shown}"
        )
    return f"{len(suitable)} of {len(nodes)} could hold a pod"


def _obstacles(node: Object, spec: Mapping[str, Any]) -> Iterator[str]:
    """Yield why a node cannot hold a pod (Kubernetes, "Assigning Pods to Nodes" and "Taints and Tolerations")."""
    ready = {each["type"]: each["status"] for each in node["status"].get("conditions", ())}
    if ready.get("Ready") != "True" or node["spec"].get("unschedulable"):
        yield "is not ready for pods"
    labels = node["metadata"].get("labels", {})
    for key, value in spec.get("nodeSelector", {}).items():
        if labels.get(key) != value:
            yield f"lacks the label {key}={value}"
    for taint in node["spec"].get("taints", ()):
        tolerated = any(_tolerates(each, taint) for each in spec.get("tolerations", ()))
        if taint["effect"] != "PreferNoSchedule" and not tolerated:
            yield f"has the taint {taint['key']}"
    allocatable = node["status"].get("allocatable", {})
    for name, amount in spec["containers"][0]["resources"]["requests"].items():
        if parse_quantity(amount) > parse_quantity(allocatable.get(name, "0")):
            yield f"has {allocatable.get(name, 'no')} {name}, less than {amount}"


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    matches_effect = toleration.get("effect") in (None, "", taint["effect"])
    if toleration.get("operator") == "Exists":
        return matches_effect and toleration.get("key") in (None, "", taint["key"])
    same = (toleration.get("key"), toleration.get("value", "")) == (taint["key"], taint.get("value", ""))
    return matches_effect and same


def image(api: NamespaceClient, pod: PodSettings) -> str:
    """Return where the image of the pods is: on nodes, or in its registry.

    Raises:
        ConfigError: If its registry does not have it, or a pull secret does not exist.
        UnknownError: If the registry asks for credentials, or does not answer.
    """
    for secret in pod.pull_secrets:
        with contextlib.suppress(UnknownError), unknown_if_forbidden("read secrets"):
            if api.get(SECRETS, secret) is None:
                raise ConfigError(f"pod.pull_secrets: must exist in namespace {api.namespace}. Given: {secret}")
    reference, nodes = pod.process_image, list[Object]()
    with contextlib.suppress(UnknownError):
        nodes = _list(api, NODES)
    names = {name for node in nodes for each in node["status"].get("images", ()) for name in each.get("names") or ()}
    if any(name == reference or name.endswith(f"/{reference}") for name in names):
        return f"{reference} is on a node"
    return find_image("image", reference)


def queue(api: NamespaceClient, name: str) -> str:
    """Return a LocalQueue of Kueue, which admits jobs.

    Raises:
        ConfigError: If Kueue or the queue does not exist, or the queue admits none.
        DrawbackError: If jobs wait in it.
    """
    version = api.groups().get("kueue.x-k8s.io")
    if version is None:
        raise ConfigError(f"queue: needs Kueue on the cluster. Given: {name}")
    with unknown_if_forbidden("read LocalQueues"):
        found = api.get(Resource(f"/apis/kueue.x-k8s.io/{version}", "localqueues"), name)
    if found is None:
        raise ConfigError(f"queue: must be a LocalQueue of namespace {api.namespace}. Given: {name}")
    status = found.get("status", {})
    active = next((each for each in status.get("conditions", ()) if each["type"] == "Active"), None)
    if active and active["status"] != "True":
        raise ConfigError(f"queue: must be active ({active.get('message', 'no reason')}). Given: {name}")
    if waiting := status.get("pendingWorkloads"):
        raise DrawbackError(f"{name} is active, and {waiting} other jobs wait in it")
    return f"{name} is active"
