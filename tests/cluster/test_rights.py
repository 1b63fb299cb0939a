"""What launchers and pods do where a right is missing, or is taken away; what no role may do at all."""

import contextlib
import os
import re
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client import ApiClient, ApiException, CoreV1Api, RbacAuthorizationV1Api

from qcnn.jobs.tfjob.manifest import TFJOBS, JobTimeouts
from tests.cluster.launchers import Launchers, job
from tests.cluster.programs import Qcnn

WAITER = "import signal; signal.signal(signal.SIGTERM, lambda *_: exit(143)); print('up', flush=True); signal.pause()"
OWN_FAULT, RETRYABLE = 2, 138
MISSING = (
    "permission: the pods' service account may not read the Lease by which they see that their launcher is there; "
)

# Method, path and body.
Request = tuple[str, str, dict[str, Any] | None]
ROLES = ("qcnn-launcher", "qcnn-worker", "qcnn-user")
REFUSED, NOT_THERE, GOOD = 403, 404, 200
OWN, ELSEWHERE = "/api/v1/namespaces/{namespace}", "/api/v1/namespaces/kube-system"
TFJOBS_OF = "/apis/kubeflow.org/v1/namespaces/{}/tfjobs"
LEASES_OF = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"
POD = {"metadata": {"name": "intruder"}, "spec": {"containers": [{"name": "a", "image": "qcnn:latest"}]}}
RULE = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}
# What nobody may: to be somebody else, to look at secrets, to run what no job describes, to reach other namespaces.
NOBODY: list[Request] = [
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
# What a worker may not, and others may.
NO_WORKER: list[Request] = [
    ("GET", f"{OWN}/pods", None),
    ("GET", f"{OWN}/pods/intruder/log", None),
    ("GET", TFJOBS_OF.format("{namespace}"), None),
    ("DELETE", f"{TFJOBS_OF.format('{namespace}')}/intruder?dryRun=All", None),
    ("GET", LEASES_OF.format("{namespace}"), None),
    ("PATCH", f"{LEASES_OF.format('{namespace}')}/intruder?dryRun=All", {"spec": {}}),
]
# What a launcher may not, and a person may.
NO_LAUNCHER: list[Request] = [
    ("DELETE", f"{OWN}/pods/intruder?dryRun=All", None),
    ("DELETE", f"{OWN}/services/intruder?dryRun=All", None),
    ("DELETE", "/apis/batch/v1/namespaces/{namespace}/jobs/intruder?dryRun=All", None),
    ("DELETE", f"{LEASES_OF.format('{namespace}')}/intruder?dryRun=All", None),
]
MAY_NOT = [
    *((role, *request) for role in ROLES for request in NOBODY),
    *(("qcnn-worker", *request) for request in [*NO_WORKER, *NO_LAUNCHER]),
    *(("qcnn-launcher", *request) for request in NO_LAUNCHER),
]
MAY = [
    ("qcnn-worker", "GET", f"{LEASES_OF.format('{namespace}')}/intruder", NOT_THERE),
    ("qcnn-launcher", "GET", TFJOBS_OF.format("{namespace}"), GOOD),
    ("qcnn-launcher", "GET", f"{OWN}/pods", GOOD),
    ("qcnn-user", "GET", TFJOBS_OF.format("{namespace}"), GOOD),
    ("qcnn-user", "DELETE", "/apis/batch/v1/namespaces/{namespace}/jobs/intruder?dryRun=All", NOT_THERE),
]


def _status(client: ApiClient, method: str, path: str, body: dict[str, Any] | None = None) -> int:
    """Ask the API server for something; return the status with which it answers."""
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


@pytest.mark.parametrize(("role", "method", "path", "body"), MAY_NOT)
def test_what_a_role_is_not_for_is_refused(
    accounts: dict[str, ApiClient], namespace: str, role: str, method: str, path: str, body: dict[str, Any] | None
) -> None:
    assert _status(accounts[role], method, path.format(namespace=namespace), body) == REFUSED


@pytest.mark.parametrize(("role", "method", "path", "status"), MAY)
def test_what_a_role_is_for_is_answered(
    accounts: dict[str, ApiClient], namespace: str, role: str, method: str, path: str, status: int
) -> None:
    assert _status(accounts[role], method, path.format(namespace=namespace)) == status


def _take_away(launchers: Launchers, resource: str) -> None:
    """Take a right from the launcher's role."""
    roles = RbacAuthorizationV1Api()
    role = roles.read_namespaced_role("qcnn-launcher", launchers.namespace)
    others = [rule for rule in role.rules if rule.resources != [resource]]
    roles.patch_namespaced_role("qcnn-launcher", launchers.namespace, {"rules": others})


def test_a_right_that_is_missing_is_named_and_nothing_stays(apart: Launchers) -> None:
    _take_away(apart, "leases")
    launcher = apart.start(job(WAITER))
    assert launcher.ends() == OWN_FAULT
    (error,) = launcher.errors
    assert error.startswith(f"error: permission: patch leases in namespace {apart.namespace} is missing ")
    apart.until_nothing_is_left()


def test_rights_that_are_taken_away_end_a_launcher_that_names_them(apart: Launchers) -> None:
    launcher = apart.start(job(WAITER), JobTimeouts(lease_seconds=30))
    launcher.says(r"\[worker 1\] up")
    RbacAuthorizationV1Api().delete_namespaced_role_binding("qcnn-launcher", apart.namespace)
    launcher.says(r"^patch leases .* is rejected, although it was allowed before \(.*\); retrying for 15 s$")
    launcher.says(r"^TFJob .* cannot be deleted; its pods end 30 s from now \(permission: delete tfjobs .*\)$")
    assert launcher.ends() == OWN_FAULT
    (error,) = launcher.errors
    assert error.startswith("error: permission: patch leases in namespace ")
    assert "was revoked" in error


def test_a_right_that_comes_back_is_as_if_it_had_never_been_away(apart: Launchers) -> None:
    launcher = apart.start(job("import time; print('up', flush=True); time.sleep(30)"), JobTimeouts(lease_seconds=30))
    launcher.says(r"\[worker 1\] up")
    roles = RbacAuthorizationV1Api()
    binding = roles.read_namespaced_role_binding("qcnn-launcher", apart.namespace)
    roles.delete_namespaced_role_binding("qcnn-launcher", apart.namespace)
    launcher.says("is rejected, although it was allowed before")
    binding.metadata.resource_version = None
    roles.create_namespaced_role_binding(apart.namespace, binding)
    assert launcher.ends() == 0, launcher.output


def test_a_namespace_that_is_deleted_ends_its_launchers(apart: Launchers) -> None:
    launcher = apart.start(job(WAITER, restarts=3))
    launcher.says(r"\[worker 1\] up")
    CoreV1Api().delete_namespace(apart.namespace)
    assert launcher.ends() in (OWN_FAULT, RETRYABLE)
    (error,) = launcher.errors
    # By what of it is gone first.
    namespace = "namespace: is being deleted; "
    account = r"credentials: rejected .*; its service account or namespace may have been deleted"
    tfjob = "TFJob: it, or its namespace, was deleted from outside"
    assert re.match(f"error: ({namespace}|{account}|{tfjob})", error), error


def test_following_in_a_deleted_namespace_names_the_namespace(apart: Launchers) -> None:
    name = apart.create(job(WAITER))["metadata"]["name"]
    # By somebody whose account stays.
    with contextlib.closing(Qcnn(Path(os.environ["KUBECONFIG"]))) as qcnn:
        following = qcnn.start("logs", "-f", name, "-n", apart.namespace)
        following.says(r"\[worker 1\] up")
        CoreV1Api().delete_namespace(apart.namespace)
        assert following.ends() == 1
    assert following.errors == [f"error: namespace: is being deleted, with the TFJob. Given: {apart.namespace}"]


def test_pods_whose_account_may_not_see_their_launcher_are_not_created(apart: Launchers) -> None:
    ending = job("", service_account="default")
    launcher = apart.start(ending)
    assert launcher.ends() == OWN_FAULT
    (error,) = launcher.errors
    name, binding = apart.namespace, "default-qcnn-worker"
    command = f"kubectl -n {name} create rolebinding {binding} --role qcnn-worker --serviceaccount {name}:default"
    assert error.startswith(f"error: {MISSING}")
    assert f" {command}. Given: " in error
    assert not apart.api.find(TFJOBS)
    # What that command makes.
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "qcnn-worker"}
    subjects = [{"kind": "ServiceAccount", "name": "default", "namespace": name}]
    made = {"metadata": {"name": binding}, "roleRef": role, "subjects": subjects}
    RbacAuthorizationV1Api().create_namespaced_role_binding(name, made)
    again = apart.start(ending)
    assert again.ends() == 0, again.output


def test_where_nobody_may_ask_beforehand_pods_say_themselves_what_they_may_not(apart: Launchers) -> None:
    _take_away(apart, "localsubjectaccessreviews")
    launcher = apart.start(job(WAITER, service_account="default", restarts=3))
    assert launcher.ends() == OWN_FAULT
    (error,) = launcher.errors
    assert re.match(rf"error: worker \d ended with exit code 2: {MISSING}", error), error


def test_pods_that_need_no_launcher_need_no_right(apart: Launchers) -> None:
    launcher = apart.start(job("", service_account="default"), JobTimeouts(lease_seconds=None))
    assert launcher.ends() == 0, launcher.output
