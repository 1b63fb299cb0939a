"""Programs that run on a cluster as a Deployment (apps/v1) with further objects of the same name."""

import contextlib
import dataclasses
import re
from collections.abc import Mapping, Sequence

from qcnn.errors import ArtifactError, ConfigError, service_message
from qcnn.jobs.job import LAST_LINES
from qcnn.jobs.kubernetes.api import DEPLOYMENTS, PODS, NamespaceClient, Resource
from qcnn.jobs.kubernetes.manifest import CONTAINER, OWN, TASK_LABEL, JobKind, Manifest, condition
from qcnn.jobs.kubernetes.pods import read_process

NAME_LABEL = "app.kubernetes.io/name"
_KIND = JobKind("Deployment", DEPLOYMENTS, "Available", "", TASK_LABEL, index_label=None, many=False)
_NAME = re.compile(r"[a-z]([-a-z0-9]{0,48}[a-z0-9])?")
# Log lines of a program that does not become ready.
_IS_PROBLEM = re.compile(r"\b(WARNING|ERROR|error)\b")
# Seconds after which a watch ends for which the controller of Deployments has reported nothing.
_MARGIN_SECONDS = 30


def check_name(name: str, field: str = "name") -> None:
    """Raise ConfigError if a name is not valid for a Service."""
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{field}: must be at most 50 lowercase letters, digits and hyphens, beginning with a letter and not "
            f"ending with a hyphen. Given: {name}"
        )


@dataclasses.dataclass(frozen=True)
class DeployedProgram:
    """Kind of a program on a cluster.

    Attributes:
        component: Value of the component label of its objects, which begins its messages.
        title: Name in sentences.
        resources: Resource types of its objects by kind, in the order of creation.
    """

    component: str
    title: str
    resources: Mapping[str, Resource]

    def pod_labels(self, name: str) -> dict[str, str]:
        """Return the labels that select the pods of a program."""
        return {NAME_LABEL: name, TASK_LABEL: self.component}

    def metadata(self, name: str) -> Manifest:
        """Return the metadata of the objects of a program."""
        return {"name": name, "labels": {**self.pod_labels(name), **OWN}}

    def selector(self, name: str) -> str:
        """Return the label selector of the objects of a program."""
        return ",".join(f"{key}={value}" for key, value in self.pod_labels(name).items())

    def apply(self, api: NamespaceClient, manifests: Sequence[Manifest]) -> None:
        """Create or update the objects of a program.

        Raises:
            ConfigError: If the API server rejects an object, or the name belongs to an object of another program.
        """
        for manifest in manifests:
            kind, name = manifest["kind"], manifest["metadata"]["name"]
            existing = api.get(self.resources[kind], name)
            if existing and not self._is_managed(existing, name):
                raise ConfigError(f"name: belongs to a {kind} that is not {self.title} of qcnn. Given: {name}")
        for manifest in manifests:
            api.apply(self.resources[manifest["kind"]], manifest)

    def find(self, api: NamespaceClient, name: str) -> Manifest:
        """Return the Deployment of a program.

        Raises:
            ArtifactError: If it does not exist.
        """
        found = api.get(DEPLOYMENTS, name)
        if found is None or not self._is_managed(found, name):
            raise self._not_found(api, name)
        return found

    def wait(self, api: NamespaceClient, name: str, seconds: int, replicas: int = 1) -> None:
        """Wait until all pods of the current revision of a Deployment are ready, and there are no others.

        Args:
            api: Client for the namespace.
            name: Name of the program.
            seconds: Progress deadline of the Deployment.
            replicas: Minimum number of pods.

        Raises:
            ConfigError: If a pod cannot be created, or is not ready before the deadline.
        """
        limit = seconds + _MARGIN_SECONDS
        with contextlib.closing(api.watch(DEPLOYMENTS, seconds=limit, fieldSelector=f"metadata.name={name}")) as watch:
            for objects in watch:
                if name in objects and self._is_available(api, objects[name], seconds, replicas):
                    return
        raise self._not_started(api, name, limit)

    def delete(self, api: NamespaceClient, name: str) -> None:
        """Delete the objects of a program, and wait until its pods no longer exist.

        Raises:
            ArtifactError: If there are none.
        """
        existing = [(resource, api.get(resource, name)) for resource in [*self.resources.values()][::-1]]
        managed = [(resource, each) for resource, each in existing if each and self._is_managed(each, name)]
        if not managed:
            raise self._not_found(api, name)
        for resource, each in managed:
            api.delete(resource, name, uid=each["metadata"]["uid"], dependents_first=True)
        with contextlib.closing(api.watch(PODS, labelSelector=self.selector(name))) as watch:
            next(pods for pods in watch if not pods)

    def _not_found(self, api: NamespaceClient, name: str) -> ArtifactError:
        return ArtifactError(f"{self.component}: not found in namespace {api.namespace}. Given: {name}")

    def _is_managed(self, existing: Manifest, name: str) -> bool:
        labels: dict[str, str] = existing["metadata"].get("labels", {})
        return labels.items() >= {**self.pod_labels(name), **OWN}.items()

    def _is_available(self, api: NamespaceClient, deployed: Manifest, seconds: int, replicas: int) -> bool:
        """Return whether all pods of a Deployment are ready.

        Raises:
            ConfigError: If a pod cannot be created, or is not ready before the deadline.
        """
        name, status = deployed["metadata"]["name"], deployed.get("status", {})
        if status.get("observedGeneration", 0) < deployed["metadata"]["generation"]:
            return False
        if status.get("updatedReplicas", 0) == status.get("availableReplicas") == status.get("replicas", 0) >= replicas:
            return True
        if failure := condition(deployed, "ReplicaFailure"):
            raise ConfigError(
                f"{self.component}: its pod cannot be created ({service_message(failure)}). Given: {name}"
            )
        for each in status.get("conditions", ()):
            # Until a new pod is created, the condition is that of the previous pod.
            if each["type"] == "Progressing" and each["status"] == "False" and status.get("updatedReplicas"):
                raise self._not_started(api, name, seconds)
        return False

    def _not_started(self, api: NamespaceClient, name: str, seconds: int) -> ConfigError:
        """Return the error of a program that does not start, with the reasons of its pods."""
        reasons = [_reason(api, pod) for pod in api.find(PODS, labelSelector=self.selector(name))]
        why = "; ".join(dict.fromkeys(filter(None, reasons))) or "it does not answer"
        return ConfigError(f"{self.component}: not started after {seconds} s: {why}. Given: {name}")


def _reason(api: NamespaceClient, pod: Manifest) -> str:
    """Return why a pod is not ready, or empty text if it is: why it does not start, or a line of its log."""
    status = pod.get("status", {})
    if any(each["type"] == "Ready" and each["status"] == "True" for each in status.get("conditions", ())):
        return ""
    process = read_process(pod, _KIND)
    has_failed = any("terminated" in each.get("lastState", {}) for each in status.get("containerStatuses", ()))
    if not process.started and not has_failed:
        return process.pending_reason or ""
    lines = [text for _, text in api.log(pod["metadata"]["name"], CONTAINER, "", follow=False, last=LAST_LINES)]
    problems = [line for line in lines if _IS_PROBLEM.search(line)]
    return (problems or lines or [""])[-1]
