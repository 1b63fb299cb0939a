"""What launchers and pods do where a right is missing, or is taken away."""

import re

from kubernetes.client import CoreV1Api, RbacAuthorizationV1Api

from launchers.tfjob.kind import TFJOBS
from launchers.tfjob.manifest import Policy
from tests.cluster.launchers import Launchers, job

WAITER = "import signal; signal.signal(signal.SIGTERM, lambda *_: exit(143)); print('up', flush=True); signal.pause()"
OWN_FAULT, RETRYABLE = 2, 138
MISSING = (
    "permission: the pods' service account may not read the Lease by which they see that their launcher is there; "
)


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
    launcher = apart.start(job(WAITER), Policy(lease_seconds=30))
    launcher.says(r"\[worker 1\] up")
    RbacAuthorizationV1Api().delete_namespaced_role_binding("qcnn-launcher", apart.namespace)
    launcher.says(r"^patch leases .* is refused, though it was allowed before \(.*\); trying again for 15 s$")
    launcher.says(r"^TFJob .* cannot be deleted; its pods end 30 s from now \(permission: delete tfjobs .*\)$")
    assert launcher.ends() == OWN_FAULT
    (error,) = launcher.errors
    assert error.startswith("error: permission: patch leases in namespace ")
    assert "was allowed and no longer is" in error


def test_a_right_that_comes_back_is_as_if_it_had_never_been_away(apart: Launchers) -> None:
    launcher = apart.start(job("import time; print('up', flush=True); time.sleep(30)"), Policy(lease_seconds=30))
    launcher.says(r"\[worker 1\] up")
    roles = RbacAuthorizationV1Api()
    binding = roles.read_namespaced_role_binding("qcnn-launcher", apart.namespace)
    roles.delete_namespaced_role_binding("qcnn-launcher", apart.namespace)
    launcher.says("is refused, though it was allowed before")
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
    account = r"credentials: .* any more; was its service account deleted, or the namespace; "
    tfjob = "TFJob: it, or its namespace, was deleted while it was followed"
    assert re.match(f"error: ({namespace}|{account}|{tfjob})", error), error


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
    assert re.match(rf"error: worker \d ended with exit code 2: error: {MISSING}", error), error


def test_pods_that_need_no_launcher_need_no_right(apart: Launchers) -> None:
    launcher = apart.start(job("", service_account="default"), Policy(lease_seconds=None))
    assert launcher.ends() == 0, launcher.output
