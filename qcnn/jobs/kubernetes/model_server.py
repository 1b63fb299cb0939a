"""Manifests of `qcnn serve` on a cluster: Deployment, Service, autoscaler and disruption budget."""

import copy
import dataclasses
import math
from collections.abc import Mapping, Sequence

from qcnn.errors import ConfigError
from qcnn.jobs.job import JobIdentity
from qcnn.jobs.kubernetes.api import AUTOSCALERS, DEPLOYMENTS, DISRUPTION_BUDGETS, SERVICES
from qcnn.jobs.kubernetes.deployments import DeployedProgram
from qcnn.jobs.kubernetes.manifest import Manifest, annotation, anti_affinity, pod_template, spread_constraint
from qcnn.jobs.pod_settings import PodSettings, parse_quantity

PROGRAM = DeployedProgram(
    "serving",
    "a model server",
    {
        "Deployment": DEPLOYMENTS,
        "Service": SERVICES,
        "HorizontalPodAutoscaler": AUTOSCALERS,
        "PodDisruptionBudget": DISRUPTION_BUDGETS,
    },
)
PORT, _CONTAINER_PORT = 80, 8501
# Source and version of the model in a revision.
MODEL_ANNOTATION, VERSION_ANNOTATION = "qcnn/model", "qcnn/version"
HIGHEST = "highest"
# `kubectl rollout history` displays it.
_CHANGE_ANNOTATION = "kubernetes.io/change-cause"
_REVISION_ANNOTATION = "deployment.kubernetes.io/revision"
_HASH_LABEL = "pod-template-hash"
# Seconds between the end of new connections to a pod and SIGTERM, after SIGTERM, and until SIGKILL.
_UNROUTE_SECONDS, DRAIN_SECONDS, _EXIT_SECONDS = 5, 30, 10
# Maximum seconds until the server responds, while it downloads models.
_START_PERIOD, START_SECONDS = 2, 300
_LIVE, _READY = "/v2/health/live", "/v2/health/ready"


@dataclasses.dataclass(frozen=True)
class ModelServer:
    """Specification of a model server on a cluster.

    Attributes:
        name: Name of its objects and of the model in requests.
        model: Bucket URI of the model, or its absolute path on a volume of the pods.
        version: Version to serve. None: the highest one, also if it is created later.
        pod: Pod settings.
        trust: Whether Python functions may be imported.
    """

    name: str
    model: str
    version: int | None
    pod: PodSettings
    trust: bool = False

    @property
    def annotations(self) -> dict[str, str]:
        """Annotations of its pods."""
        return {MODEL_ANNOTATION: self.model, VERSION_ANNOTATION: str(self.version or HIGHEST)}


def server_command(server: ModelServer, port: int) -> list[str]:
    """Return the command of a model server."""
    # A process occupies one core.
    processes = max(1, math.floor(parse_quantity(server.pod.cpu)))
    return [
        *("python", "-m", "qcnn.cli", "serve", f"{server.name}={server.model}"),
        *("--host", "0.0.0.0", "--port", str(port)),
        *("--versions", str(server.version or "latest:1")),
        *("--processes", str(processes), "--drain-seconds", str(DRAIN_SECONDS)),
        *(["--trust"] if server.trust else []),
    ]


def server_template(server: ModelServer, port: int, selector: Mapping[str, str]) -> Manifest:
    """Return the pod template of a model server, which meets the Pod Security Standard "restricted".

    Args:
        server: Specification of the server.
        port: Port of the container.
        selector: Labels of all pods of the server, which should be on different nodes.
    """
    identity = JobIdentity(server.name, PROGRAM.component)
    # Servers use no GPU. The pod settings may be those of a training job.
    pod = server.pod.model_copy(update={"gpus": 0, "accelerator": ""})
    template = pod_template(pod, server.name, identity, server_command(server, port), mounts_token=False)
    # Without the label of qcnn, because the NetworkPolicy of training pods would block the port.
    template["metadata"]["labels"] = {**pod.labels, **selector}
    template["metadata"]["annotations"] = server.annotations
    spec = template["spec"]
    spec["containers"] = [_server_container(each, port) for each in spec["containers"]]
    spec["affinity"] = anti_affinity(selector)
    if pod.topology_spread:
        spec["topologySpreadConstraints"] = [spread_constraint(pod.topology_spread, selector)]
    spec["terminationGracePeriodSeconds"] = _UNROUTE_SECONDS + DRAIN_SECONDS + _EXIT_SECONDS
    return template


def _server_container(container: Manifest, port: int) -> Manifest:
    """Return the container of a model server with its port, probes and hook."""
    live, ready = ({"path": path, "port": port} for path in (_LIVE, _READY))
    return {
        **container,
        "ports": [{"containerPort": port, "protocol": "TCP"}],
        # The server may need more than a liveness period to download the model.
        "startupProbe": {
            "httpGet": live,
            "periodSeconds": _START_PERIOD,
            "timeoutSeconds": 5,
            "failureThreshold": START_SECONDS // _START_PERIOD,
        },
        "readinessProbe": {"httpGet": ready, "periodSeconds": 2, "timeoutSeconds": 5},
        "livenessProbe": {"httpGet": live, "periodSeconds": 10, "timeoutSeconds": 10, "failureThreshold": 6},
        # A Service routes connections to a pod for some seconds after its termination began.
        "lifecycle": {"preStop": {"exec": {"command": ["sleep", str(_UNROUTE_SECONDS)]}}},
    }


def deployment(server: ModelServer, deadline: int) -> Manifest:
    """Return the Deployment of a model server.

    Args:
        server: Specification of the server.
        deadline: Seconds within which new pods must become ready.
    """
    return _deployment(server.name, server_template(server, _CONTAINER_PORT, PROGRAM.pod_labels(server.name)), deadline)


def _deployment(name: str, template: Manifest, deadline: int) -> Manifest:
    """Return a Deployment without `replicas`, which the autoscaler sets."""
    annotations = template["metadata"]["annotations"]
    change = f"{annotations[MODEL_ANNOTATION]}, version {annotations[VERSION_ANNOTATION]}"
    metadata = PROGRAM.metadata(name)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {**metadata, "annotations": {_CHANGE_ANNOTATION: change}},
        "spec": {
            # The pods of a new version are ready before those of the old one are terminated.
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "progressDeadlineSeconds": deadline,
            "selector": {"matchLabels": PROGRAM.pod_labels(name)},
            "template": template,
        },
    }


def service(name: str) -> Manifest:
    """Return the Service of a model server."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": PROGRAM.metadata(name),
        "spec": {
            "selector": PROGRAM.pod_labels(name),
            "ports": [{"name": "http", "port": PORT, "targetPort": _CONTAINER_PORT}],
        },
    }


@dataclasses.dataclass(frozen=True)
class Scaling:
    """Number of pods, and the CPU utilization in percent of their requests above which pods are added.

    Raises:
        ConfigError: If the minimum exceeds the maximum.
    """

    min_replicas: int
    max_replicas: int
    cpu_utilization: int

    def __post_init__(self) -> None:
        check_replicas(self.min_replicas, self.max_replicas)


def check_replicas(minimum: int, maximum: int) -> None:
    """Raise ConfigError if a minimum number of pods exceeds the maximum."""
    if minimum > maximum:
        raise ConfigError(f"min_replicas: must be at most max_replicas, {maximum}. Given: {minimum}")


def autoscaler(name: str, scaling: Scaling) -> Manifest:
    """Return the HorizontalPodAutoscaler of a model server. It also sets a fixed number of pods."""
    target = {"type": "Utilization", "averageUtilization": scaling.cpu_utilization}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": PROGRAM.metadata(name),
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "minReplicas": scaling.min_replicas,
            "maxReplicas": scaling.max_replicas,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
        },
    }


def disruption_budget(name: str) -> Manifest:
    """Return the PodDisruptionBudget of a model server: a drain evicts one pod after the other.

    A minimum number of available pods would block the drain of a node with the only pod (Kubernetes, "Specifying a
    Disruption Budget for your Application").
    """
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": PROGRAM.metadata(name),
        "spec": {
            "maxUnavailable": 1,
            "selector": {"matchLabels": PROGRAM.pod_labels(name)},
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }


def access(name: str, namespace: str) -> dict[str, str]:
    """Return how to reach a model server from a pod, and from a machine outside of the cluster."""
    return {
        "in the cluster": f"http://{name}.{namespace}.svc:{PORT}/v1/models/{name}",
        "on this machine": f"kubectl --namespace {namespace} port-forward service/{name} {_CONTAINER_PORT}:{PORT}",
    }


def manifests(server: ModelServer, scaling: Scaling, deadline: int) -> list[Manifest]:
    """Return all objects of a model server.

    Args:
        server: Specification of the server.
        scaling: Number of pods.
        deadline: Seconds within which new pods must become ready.
    """
    return [
        deployment(server, deadline),
        service(server.name),
        autoscaler(server.name, scaling),
        disruption_budget(server.name),
    ]


def revisions(deployed: Manifest, replica_sets: Sequence[Manifest]) -> list[Manifest]:
    """Return the ReplicaSets of a Deployment, the current revision last."""
    uid = deployed["metadata"]["uid"]
    own = [
        each
        for each in replica_sets
        if any(owner["uid"] == uid for owner in each["metadata"].get("ownerReferences", ()))
    ]
    return sorted(own, key=lambda each: int(annotation(each["metadata"], _REVISION_ANNOTATION) or 0))


def previous_revision(deployed: Manifest, replica_sets: Sequence[Manifest]) -> Manifest:
    """Return the Deployment of the revision before the current one, as `kubectl rollout undo` selects it.

    Args:
        deployed: Deployment on the cluster.
        replica_sets: ReplicaSets of the namespace.

    Raises:
        ConfigError: If there is none.
    """
    name = deployed["metadata"]["name"]
    current = int(annotation(deployed["metadata"], _REVISION_ANNOTATION) or 0)
    earlier = [
        each
        for each in revisions(deployed, replica_sets)
        if int(annotation(each["metadata"], _REVISION_ANNOTATION) or 0) < current
    ]
    if not earlier:
        raise ConfigError(f"rollback: must have a revision before the current one. Given: {name}")
    template = copy.deepcopy(earlier[-1]["spec"]["template"])
    template["metadata"]["labels"].pop(_HASH_LABEL, None)
    template["metadata"].pop("creationTimestamp", None)
    return _deployment(name, template, deployed["spec"]["progressDeadlineSeconds"])


@dataclasses.dataclass(frozen=True)
class RunningRevision:
    """Revision of a model server with pods: its ReplicaSet, model and version, and the number of ready pods."""

    name: str
    model: str
    version: str
    ready: int


def running_revisions(deployed: Manifest, replica_sets: Sequence[Manifest]) -> list[RunningRevision]:
    """Return the revisions that have pods, the current one last."""
    found = []
    for each in revisions(deployed, replica_sets):
        metadata = each["spec"]["template"]["metadata"]
        if each["spec"].get("replicas"):
            model, version = (annotation(metadata, key) or "" for key in (MODEL_ANNOTATION, VERSION_ANNOTATION))
            ready = each.get("status", {}).get("readyReplicas", 0)
            found.append(RunningRevision(each["metadata"]["name"], model, version, ready))
    return found
