"""What deploy/ grants, as whoever applies it would read it: least rights, and few ways in and out."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from qcnn.jobs.job import JobIdentity
from qcnn.jobs.kubernetes.manifest import labels
from qcnn.jobs.tfjob.manifest import CLUSTER_PORT, PROFILER_PORT

DEPLOY = Path(__file__).parents[2] / "deploy"
MANIFESTS = [
    manifest for path in sorted(DEPLOY.glob("*.yaml")) for manifest in yaml.safe_load_all(path.read_text()) if manifest
]
ROLES = {manifest["metadata"]["name"]: manifest["rules"] for manifest in MANIFESTS if manifest["kind"] == "Role"}
# With any of these one is, or becomes, somebody else.
FORBIDDEN = {
    *("secrets", "configmaps", "serviceaccounts", "serviceaccounts/token", "namespaces", "nodes"),
    *("pods/exec", "pods/attach", "pods/portforward", "pods/proxy", "pods/ephemeralcontainers", "services/proxy"),
    *("roles", "rolebindings", "clusterroles", "clusterrolebindings", "networkpolicies", "users", "groups"),
}


def _granted(rules: list[dict[str, Any]]) -> set[tuple[str, str]]:
    return {(verb, resource) for rule in rules for verb in rule["verbs"] for resource in rule["resources"]}


def test_nothing_is_granted_for_the_whole_cluster() -> None:
    kinds = {manifest["kind"] for manifest in MANIFESTS}
    # These live in a namespace, but for kustomize's own, which is no object of a cluster.
    assert kinds == {
        "NetworkPolicy",
        "Role",
        "RoleBinding",
        "ServiceAccount",
        "Service",
        "ServiceMonitor",
        "Kustomization",
    }
    assert ROLES.keys() == {"qcnn-launcher", "qcnn-user", "qcnn-worker"}
    assert all(manifest["roleRef"]["kind"] == "Role" for manifest in MANIFESTS if manifest["kind"] == "RoleBinding")


@pytest.mark.parametrize("role", ROLES)
def test_every_right_is_named(role: str) -> None:
    for rule in ROLES[role]:
        assert rule.keys() == {"apiGroups", "resources", "verbs"}
        assert not any("*" in text for texts in rule.values() for text in texts), rule


@pytest.mark.parametrize("role", ROLES)
def test_no_right_leads_to_others(role: str) -> None:
    granted = _granted(ROLES[role])
    assert not {resource for _, resource in granted} & FORBIDDEN
    assert not {verb for verb, _ in granted} & {"escalate", "bind", "impersonate", "deletecollection", "update"}
    assert not {("create", "pods"), ("patch", "pods"), ("get", "secrets")} & granted


def test_a_worker_reads_one_kind_and_changes_nothing() -> None:
    assert _granted(ROLES["qcnn-worker"]) == {("get", "leases")}


def _policy() -> dict[str, Any]:
    (policy,) = [
        manifest
        for manifest in MANIFESTS
        if (manifest["kind"], manifest.get("metadata", {}).get("name")) == ("NetworkPolicy", "qcnn-trainings")
    ]
    return dict(policy["spec"])


def _ports(rule: dict[str, Any]) -> set[tuple[str, int]]:
    return {(port["protocol"], port["port"]) for port in rule["ports"]}


def test_the_policy_is_about_the_pods_of_trainings_both_ways() -> None:
    policy = _policy()
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert policy["podSelector"]["matchLabels"].items() <= labels(JobIdentity("run", "train")).items()


def test_processes_of_trainings_reach_each_other_and_nobody_else_reaches_them() -> None:
    policy = _policy()
    ours = [{"podSelector": policy["podSelector"]}]
    assert [rule for rule in policy["ingress"] if rule["from"] == ours] == [
        {"from": ours, "ports": [{"protocol": "TCP", "port": CLUSTER_PORT}]}
    ]
    (other,) = [rule for rule in policy["ingress"] if rule["from"] != ours]
    assert _ports(other) == {("TCP", PROFILER_PORT)}
    assert [rule["to"] for rule in policy["egress"] if ("TCP", CLUSTER_PORT) in _ports(rule)] == [ours]


def test_what_pods_reach_is_dns_buckets_the_api_server_and_an_object_store_beside_them() -> None:
    everywhere, in_cluster, addresses = set(), set(), {}
    for rule in _policy()["egress"]:
        match rule.get("to"):
            case None:
                everywhere |= _ports(rule)
            case [{"namespaceSelector": {}}]:
                in_cluster |= _ports(rule)
            case [{"ipBlock": {"cidr": address}}]:
                addresses[address] = _ports(rule)
    assert everywhere == {("UDP", 53), ("TCP", 53), ("TCP", 443), ("TCP", 6443)}
    assert in_cluster == {("TCP", 9000), ("TCP", 8333)}
    # Link-local ones, which are the node's own.
    assert addresses == {"169.254.169.252/32": {("TCP", 988)}, "169.254.169.254/32": {("TCP", 80)}}
