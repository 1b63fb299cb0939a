"""Permissions and network policies in deploy/."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from qcnn.jobs.job import JobIdentity
from qcnn.jobs.kubernetes.manifest import labels
from qcnn.jobs.kubernetes.training_manifest import CLUSTER_PORT, PROFILER_PORT

DEPLOY = Path(__file__).parents[2] / "deploy"
MANIFESTS = [
    manifest for path in sorted(DEPLOY.glob("*.yaml")) for manifest in yaml.safe_load_all(path.read_text()) if manifest
]
ROLES = {manifest["metadata"]["name"]: manifest["rules"] for manifest in MANIFESTS if manifest["kind"] == "Role"}
# Resources with which an account can act as another account.
FORBIDDEN = {
    *("secrets", "configmaps", "serviceaccounts", "serviceaccounts/token", "namespaces", "nodes"),
    *("pods/exec", "pods/attach", "pods/portforward", "pods/proxy", "pods/ephemeralcontainers", "services/proxy"),
    *("roles", "rolebindings", "clusterroles", "clusterrolebindings", "networkpolicies", "users", "groups"),
}


def _granted(rules: list[dict[str, Any]]) -> set[tuple[str, str]]:
    return {(verb, resource) for rule in rules for verb in rule["verbs"] for resource in rule["resources"]}


def test_manifests_grant_no_cluster_permissions() -> None:
    kinds = {manifest["kind"] for manifest in MANIFESTS}
    # All are namespaced, except Kustomization, which is not an object of the cluster.
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
def test_rules_have_no_wildcards(role: str) -> None:
    for rule in ROLES[role]:
        assert rule.keys() == {"apiGroups", "resources", "verbs"}
        assert not any("*" in text for texts in rule.values() for text in texts), rule


@pytest.mark.parametrize("role", ROLES)
def test_roles_do_not_permit_escalation(role: str) -> None:
    # The launcher checks that an account exists, which gives it no right of the account.
    granted = _granted(ROLES[role]) - {("get", "serviceaccounts")}
    assert not {resource for _, resource in granted} & FORBIDDEN
    assert not {verb for verb, _ in granted} & {"escalate", "bind", "impersonate", "deletecollection", "update"}
    assert not {("create", "pods"), ("patch", "pods"), ("get", "secrets")} & granted


def test_worker_may_only_get_leases() -> None:
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


def test_policy_selects_training_pods_in_both_directions() -> None:
    policy = _policy()
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert policy["podSelector"]["matchLabels"].items() <= labels(JobIdentity("run", "train")).items()


def test_policy_allows_cluster_port_between_training_pods_only() -> None:
    policy = _policy()
    training_pods = [{"podSelector": policy["podSelector"]}]
    assert [rule for rule in policy["ingress"] if rule["from"] == training_pods] == [
        {"from": training_pods, "ports": [{"protocol": "TCP", "port": CLUSTER_PORT}]}
    ]
    (other,) = [rule for rule in policy["ingress"] if rule["from"] != training_pods]
    assert _ports(other) == {("TCP", PROFILER_PORT)}
    assert [rule["to"] for rule in policy["egress"] if ("TCP", CLUSTER_PORT) in _ports(rule)] == [training_pods]


def test_egress_is_dns_buckets_api_server_and_object_stores() -> None:
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
    # Link-local addresses of the metadata server.
    assert addresses == {"169.254.169.252/32": {("TCP", 988)}, "169.254.169.254/32": {("TCP", 80)}}
