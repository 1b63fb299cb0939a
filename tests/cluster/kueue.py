"""Queues of Kueue with a quota of CPUs."""

from typing import Any

import kubernetes.client

_GROUP, _VERSION = "kueue.x-k8s.io", "v1beta2"


def has_kueue() -> bool:
    """Return whether the cluster of KUBECONFIG has Kueue."""
    groups = kubernetes.client.ApisApi().get_api_versions().groups
    return any(group.name == _GROUP for group in groups)


class Queue:
    """LocalQueue of a namespace, and its ClusterQueue, which other namespaces do not use.

    Attributes:
        name: Name of the LocalQueue.
    """

    def __init__(self, name: str, namespace: str) -> None:
        self.name = name
        self._namespace = namespace
        self._api = kubernetes.client.CustomObjectsApi()
        flavor = self._typed("ResourceFlavor", {"metadata": {"name": name}, "spec": {}})
        self._api.create_cluster_custom_object(_GROUP, _VERSION, "resourceflavors", flavor)
        spec = {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "preemption": {"withinClusterQueue": "LowerPriority"},
            "resourceGroups": self._groups("0"),
        }
        queue = {"metadata": {"name": name}, "spec": spec}
        self._api.create_cluster_custom_object(_GROUP, _VERSION, "clusterqueues", self._typed("ClusterQueue", queue))
        local = {"metadata": {"name": name}, "spec": {"clusterQueue": name}}
        self._api.create_namespaced_custom_object(
            _GROUP, _VERSION, namespace, "localqueues", self._typed("LocalQueue", local)
        )

    def set_cpus(self, cpus: str) -> None:
        """Set the quota of CPUs, which is 0 at first."""
        patch = {"spec": {"resourceGroups": self._groups(cpus)}}
        self._api.patch_cluster_custom_object(_GROUP, _VERSION, "clusterqueues", self.name, patch)

    def close(self) -> None:
        """Delete the queues."""
        where = (_GROUP, _VERSION, self._namespace, "localqueues", self.name)
        self._api.delete_namespaced_custom_object(*where)
        for plural in ("clusterqueues", "resourceflavors"):
            self._api.delete_cluster_custom_object(_GROUP, _VERSION, plural, self.name)

    def _groups(self, cpus: str) -> list[dict[str, Any]]:
        quotas = [{"name": "cpu", "nominalQuota": cpus}, {"name": "memory", "nominalQuota": "8Gi"}]
        return [{"coveredResources": ["cpu", "memory"], "flavors": [{"name": self.name, "resources": quotas}]}]

    def _typed(self, kind: str, content: dict[str, Any]) -> dict[str, Any]:
        return {"apiVersion": f"{_GROUP}/{_VERSION}", "kind": kind, **content}
