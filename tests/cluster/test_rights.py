"""Permissions of the roles, and launchers and pods with missing or revoked permissions."""

import contextlib
import os
import re
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client import ApiClient, ApiException, CoreV1Api, RbacAuthorizationV1Api

from qcnn.jobs.kubernetes.training_manifest import JobTimeouts
from qcnn.jobs.tfjob.engine import TFJOBS
from tests.cluster.launchers import Launchers, every_engine, job
from tests.cluster.programs import Qcnn

WAITER = "import signal; signal.signal(signal.SIGTERM, lambda *_: exit(143)); print('up', flush=True); signal.pause()"
PERMANENT_ERROR, RETRYABLE = 2, 138
MISSING = "permission: the pods' service account must be allowed to read the Lease of their launcher; "

# Method, path and body.
Request = tuple[str, str, dict[str, Any] | None]
ROLES = ("qcnn-launcher", "qcnn-worker", "qcnn-user")
FORBIDDEN, NOT_FOUND, OK = 403, 404, 200
OWN, ELSEWHERE = "/api/v1/namespaces/{namespace}", "/api/v1/namespaces/kube-system"
TFJOBS_OF = "/apis/kubeflow.org/v1/namespaces/{}/tfjobs"
LEASES_OF = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"
POD = {"metadata": {"name": "intruder"}, "spec": {"containers": [{"name": "a", "image": "qcnn:latest"}]}}
RULE = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}
# Requests that no role permits: privilege escalation, secrets, arbitrary pods and other namespaces.
FORBIDDEN_TO_ALL: list[Request] = [
    ("POST", f"{OWN}/pods?dryRun=All", POD),
    ("POST", f"{OWN}/pods/intruder/exec?command=true&stdout=true", None),
    ("POST", f"{OWN}/pods/intruder/portforward?ports=2222", None),
    ("GET", f"{OWN}/secrets", None),
    ("GET", f"{OWN}/secrets/token", None),
    ("GET", f"{OWN}/configmaps", None),
    ("POST", f"{OWN}/serviceaccounts/default/token", {"spec": {}}),
    ("POST", "/apis/batch/v1/namespaces/kube-system/jobs?dryRun=All", {"metadata": {"name": "intruder"}}),
    ("POST", "/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles?dryRun=All", {"rules": [RULE]}),
    ("DELETE", "/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies/qcnn-trainings?dryRun=All", None),
    ("GET", f"{ELSEWHERE}/pods", None),
    ("GET", f"{ELSEWHERE}/secrets", None),
    ("GET", "/api/v1/nodes", None),
    ("GET", "/api/v1/pods", None),
    ("DELETE", f"{TFJOBS_OF.format('kube-system')}/intruder?dryRun=All", None),
    ("GET", "/apis/kubeflow.org/v1/tfjobs", None),
]
# Requests that other roles permit, but not qcnn-worker.
FORBIDDEN_TO_WORKER: list[Request] = [
    ("GET", f"{OWN}/pods", None),
    ("GET", f"{OWN}/pods/intruder/log", None),
    ("GET", TFJOBS_OF.format("{namespace}"), None),
    ("DELETE", f"{TFJOBS_OF.format('{namespace}')}/intruder?dryRun=All", None),
    ("GET", LEASES_OF.format("{namespace}"), None),
    ("PATCH", f"{LEASES_OF.format('{namespace}')}/intruder?dryRun=All", {"spec": {}}),
]
# Requests that qcnn-user permits, but not qcnn-launcher.
FORBIDDEN_TO_LAUNCHER: list[Request] = [
    ("DELETE", f"{OWN}/pods/intruder?dryRun=All", None),
    ("DELETE", f"{OWN}/services/intruder?dryRun=All", None),
    ("DELETE", "/apis/batch/v1/namespaces/{namespace}/jobs/intruder?dryRun=All", None),
    ("DELETE", f"{LEASES_OF.format('{namespace}')}/intruder?dryRun=All", None),
]
FORBIDDEN_REQUESTS = [
    *((role, *request) for role in ROLES for request in FORBIDDEN_TO_ALL),
    *(("qcnn-worker", *request) for request in [*FORBIDDEN_TO_WORKER, *FORBIDDEN_TO_LAUNCHER]),
    *(("qcnn-launcher", *request) for request in FORBIDDEN_TO_LAUNCHER),
]
ALLOWED_REQUESTS = [
    ("qcnn-worker", "GET", f"{LEASES_OF.format('{namespace}')}/intruder", NOT_FOUND),
    ("qcnn-launcher", "GET", TFJOBS_OF.format("{namespace}"), OK),
    ("qcnn-launcher", "GET", f"{OWN}/pods", OK),
    ("qcnn-user", "GET", TFJOBS_OF.format("{namespace}"), OK),
    ("qcnn-user", "DELETE", "/apis/batch/v1/namespaces/{namespace}/jobs/intruder?dryRun=All", NOT_FOUND),
]


def _status(client: ApiClient, method: str, path: str, body: dict[str, Any] | None = None) -> int:
    """Send a request to the API server and return the HTTP status."""
    content = "application/merge-patch+json" if method == "PATCH" else "application/json"
    try:
        _, status, _ = client.call_api(
            path,
            method,
            body=body,
            header_params={"Content-Type": content, "Accept": "application/json"},
            auth_settings=["BearerToken"],
            response_type="object",
        )
    except ApiException as error:
        return int(error.status)
    return int(status)


@pytest.mark.parametrize(("role", "method", "path", "body"), FORBIDDEN_REQUESTS)
def test_request_outside_role_is_forbidden(
    accounts: dict[str, ApiClient], namespace: str, role: str, method: str, path: str, body: dict[str, Any] | None
) -> None:
    assert _status(accounts[role], method, path.format(namespace=namespace), body) == FORBIDDEN


@pytest.mark.parametrize(("role", "method", "path", "status"), ALLOWED_REQUESTS)
def test_request_of_role_is_allowed(
    accounts: dict[str, ApiClient], namespace: str, role: str, method: str, path: str, status: int
) -> None:
    assert _status(accounts[role], method, path.format(namespace=namespace)) == status


def _revoke(launchers: Launchers, resource: str) -> None:
    """Remove a resource from the role qcnn-launcher."""
    roles = RbacAuthorizationV1Api()
    role = roles.read_namespaced_role("qcnn-launcher", launchers.namespace)
    others = [rule for rule in role.rules if rule.resources != [resource]]
    roles.patch_namespaced_role("qcnn-launcher", launchers.namespace, {"rules": others})


def test_missing_permission_is_reported_and_job_deleted(isolated: Launchers) -> None:
    _revoke(isolated, "leases")
    launcher = isolated.start(job(WAITER))
    assert launcher.exit_code() == PERMANENT_ERROR
    (error,) = launcher.errors
    assert error.startswith(f"error: permission: patch leases in namespace {isolated.namespace} is missing ")
    isolated.wait_until_deleted()


@every_engine
def test_revoked_permissions_end_launcher(isolated: Launchers) -> None:
    launcher = isolated.start(job(WAITER), JobTimeouts(lease_seconds=30))
    launcher.wait_for_line(r"\[worker 1\] up")
    RbacAuthorizationV1Api().delete_namespaced_role_binding("qcnn-launcher", isolated.namespace)
    launcher.wait_for_line(r"^patch leases .* is rejected, although it was allowed before \(.*\); retrying for 15 s$")
    kind, plural = isolated.engine.name, isolated.engine.resource.plural
    launcher.wait_for_line(
        rf"^{kind} .* cannot be deleted; its pods end 30 s from now \(permission: delete {plural} .*\)$"
    )
    assert launcher.exit_code() == PERMANENT_ERROR
    (error,) = launcher.errors
    assert error.startswith("error: permission: patch leases in namespace ")
    assert "was revoked" in error


def test_launcher_continues_after_permission_is_restored(isolated: Launchers) -> None:
    launcher = isolated.start(
        job("import time; print('up', flush=True); time.sleep(30)"), JobTimeouts(lease_seconds=30)
    )
    launcher.wait_for_line(r"\[worker 1\] up")
    roles = RbacAuthorizationV1Api()
    binding = roles.read_namespaced_role_binding("qcnn-launcher", isolated.namespace)
    roles.delete_namespaced_role_binding("qcnn-launcher", isolated.namespace)
    launcher.wait_for_line("is rejected, although it was allowed before")
    binding.metadata.resource_version = None
    roles.create_namespaced_role_binding(isolated.namespace, binding)
    assert launcher.exit_code() == 0, launcher.output


@every_engine
def test_launcher_ends_after_namespace_deletion(isolated: Launchers) -> None:
    launcher = isolated.start(job(WAITER, restarts=3))
    launcher.wait_for_line(r"\[worker 1\] up")
    CoreV1Api().delete_namespace(isolated.namespace)
    assert launcher.exit_code() in (PERMANENT_ERROR, RETRYABLE)
    (error,) = launcher.errors
    # The message depends on which object was deleted first.
    namespace = "namespace: is being deleted; "
    account = r"credentials: rejected .*; its service account or namespace may have been deleted"
    job_itself = f"{isolated.engine.name}: it, or its namespace, was deleted from outside"
    assert re.match(f"error: ({namespace}|{account}|{job_itself})", error), error


def test_logs_follow_reports_deleted_namespace(isolated: Launchers) -> None:
    name = isolated.create(job(WAITER))["metadata"]["name"]
    # With the account of KUBECONFIG, which is not in the namespace.
    with contextlib.closing(Qcnn(Path(os.environ["KUBECONFIG"]))) as qcnn:
        following = qcnn.start("logs", "-f", name, "-n", isolated.namespace)
        following.wait_for_line(r"\[worker 1\] up")
        CoreV1Api().delete_namespace(isolated.namespace)
        assert following.exit_code() == 1
    assert following.errors == [f"error: namespace: is being deleted, with the TFJob. Given: {isolated.namespace}"]


def test_job_is_not_created_if_pods_may_not_read_lease(isolated: Launchers) -> None:
    ending = job("", service_account="default")
    launcher = isolated.start(ending)
    assert launcher.exit_code() == PERMANENT_ERROR
    (error,) = launcher.errors
    name, binding = isolated.namespace, "default-qcnn-worker"
    command = f"kubectl -n {name} create rolebinding {binding} --role qcnn-worker --serviceaccount {name}:default"
    assert error.startswith(f"error: {MISSING}")
    assert f" {command}. Given: " in error
    assert not isolated.api.find(TFJOBS)
    # The role binding that the command creates.
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "qcnn-worker"}
    subjects = [{"kind": "ServiceAccount", "name": "default", "namespace": name}]
    manifest = {"metadata": {"name": binding}, "roleRef": role, "subjects": subjects}
    RbacAuthorizationV1Api().create_namespaced_role_binding(name, manifest)
    again = isolated.start(ending)
    assert again.exit_code() == 0, again.output


def test_pods_report_missing_permission_without_review(isolated: Launchers) -> None:
    _revoke(isolated, "localsubjectaccessreviews")
    launcher = isolated.start(job(WAITER, service_account="default", restarts=3))
    assert launcher.exit_code() == PERMANENT_ERROR
    (error,) = launcher.errors
    assert re.match(rf"error: worker \d ended with exit code 2: {MISSING}", error), error


def test_job_without_lease_needs_no_permission(isolated: Launchers) -> None:
    launcher = isolated.start(job("", service_account="default"), JobTimeouts(lease_seconds=None))
    assert launcher.exit_code() == 0, launcher.output
