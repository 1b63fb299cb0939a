"""API behavior that launchers and commands need, on the server in memory and on the cluster of KUBECONFIG."""

import base64
import contextlib
import dataclasses
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import kubernetes.client
import pytest
import urllib3

from qcnn.errors import ConfigError
from qcnn.jobs.job import CreateOutcome, JobIdentity, JobSpec
from qcnn.jobs.kubernetes.api import DEPLOYMENTS, LEASES, PODS, SERVICES, NamespaceClient, Object, Resource
from qcnn.jobs.kubernetes.cluster_config import configuration, own_namespace
from qcnn.jobs.kubernetes.create_or_adopt import create_or_adopt
from qcnn.jobs.kubernetes.training_manifest import JobTimeouts
from qcnn.jobs.pod_settings import PodSettings
from qcnn.jobs.tfjob.engine import TFJOB, TFJOBS
from scripts.tfjob_schema import schema_of
from tests.qcnn.jobs import tfjob_admission
from tests.qcnn.jobs.apiserver import ApiServer
from tests.qcnn.jobs.training_operator import RUNNING, Operator

_SECONDS = 60
MERGE, APPLY = "application/merge-patch+json", "application/apply-patch+yaml"
BY_US = {"fieldManager": "qcnn", "force": "true"}
# No pod with this node selector starts on a real cluster.
NOWHERE = PodSettings(image="qcnn", node_selector={"no": "node"}, environment={"A": "b"}, secrets={"B": "keys/id"})


class Cluster:
    """API server with two namespaces, and one that is being deleted.

    `start` creates the pods of a TFJob with two workers if no operator is running.
    """

    def __init__(self, namespace: str, other: str, ending: str, start: Callable[[Object], None]) -> None:
        self.namespace, self.other, self.ending = namespace, other, ending
        self.start = start
        self._client = kubernetes.client.ApiClient(configuration())

    def request(
        self,
        method: str,
        resource: Resource,
        name: str = "",
        body: Object | None = None,
        *,
        content: str = "application/json",
        namespace: str | None = None,
        query: Mapping[str, str] | None = None,
    ) -> tuple[int, Object]:
        """Send a request, and return the status and the object of the response. Text is returned as a message."""
        try:
            response = self._open(method, resource, name, body, content, namespace, query or {})
            status, text = response.status, response.data
        except kubernetes.client.ApiException as error:
            status, text = error.status, error.body
        with contextlib.suppress(ValueError):
            return status, dict(json.loads(text))
        return status, {"message": text.decode() if isinstance(text, bytes) else str(text)}

    def events(self, resource: Resource, version: str, count: int, **selectors: str) -> list[Object]:
        """Return the first events of a watch."""
        found: list[Object] = []
        query = {**selectors, "watch": "true", "resourceVersion": version}
        with contextlib.closing(self._open("GET", resource, "", None, "application/json", None, query)) as response:
            rest = b""
            for chunk in response.stream(None):
                *lines, rest = (rest + chunk).split(b"\n")
                found += map(json.loads, lines)
                if len(found) >= count:
                    return found[:count]
        raise AssertionError(f"the watch ended after {found}")

    def create(self, name: str, resource: Resource = LEASES, **metadata: Any) -> Object:
        """Create an object in the first namespace, and return it."""
        status, created = self.request("POST", resource, body={"metadata": {"name": name, **metadata}})
        assert status == 201, created
        return created

    def close(self) -> None:
        self._client.close()

    def _open(
        self,
        method: str,
        resource: Resource,
        name: str,
        body: Object | None,
        content: str,
        namespace: str | None,
        query: Mapping[str, str],
    ) -> urllib3.BaseHTTPResponse:
        parts = (resource.prefix, "namespaces", namespace or self.namespace, resource.plural, *([name] if name else []))
        response: urllib3.BaseHTTPResponse = self._client.call_api(
            "/".join(parts),
            method,
            query_params=list(query.items()),
            header_params={"Content-Type": content, "Accept": "application/json"},
            body=body,
            auth_settings=["BearerToken"],
            _preload_content=False,
            _return_http_data_only=True,
            # A watch without events must fail instead of waiting forever.
            _request_timeout=_SECONDS,
        )
        return response


@pytest.fixture(scope="module")
def real() -> Iterator[tuple[str, str, str]]:
    """Return three namespaces of the cluster of KUBECONFIG, of which the last is being deleted."""
    # Imported here, because its libraries take seconds to load and it needs a cluster.
    from tests.cluster.conftest import new_namespace

    with new_namespace() as namespace, new_namespace() as other, new_namespace() as ending:
        leases, core = kubernetes.client.CoordinationV1Api(), kubernetes.client.CoreV1Api()
        # The finalizer of this Lease keeps the namespace in the state "Terminating".
        leases.create_namespaced_lease(ending, {"metadata": {"name": "last", "finalizers": ["qcnn.test/last"]}})
        core.delete_namespace(ending)
        yield namespace, other, ending
        leases.patch_namespaced_lease("last", ending, {"metadata": {"finalizers": None}})


@pytest.fixture(params=["memory", pytest.param("real", marks=pytest.mark.cluster)])
def cluster(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Cluster]:
    if request.param == "real":
        namespaces: tuple[str, str, str] = request.getfixturevalue("real")
        with contextlib.closing(Cluster(*namespaces, start=lambda _: None)) as cluster:
            yield cluster
        return
    with contextlib.closing(ApiServer()) as server:
        monkeypatch.setenv("KUBECONFIG", server.write_kubeconfig(tmp_path / "kubeconfig"))
        server.ending.add("ending")

        def start(job: Object) -> None:
            operator = Operator(server)
            for index in range(2):
                operator.show(job, index, RUNNING)

        with contextlib.closing(Cluster(own_namespace(), "default", "ending", start)) as cluster:
            yield cluster


@pytest.fixture
def api(cluster: Cluster) -> Iterator[NamespaceClient]:
    with contextlib.closing(NamespaceClient(cluster.namespace)) as api:
        yield api


def _manifest(name: str, pod: PodSettings = NOWHERE) -> Object:
    job = JobSpec(("train",), {"chief": 1, "worker": 2}, restarts=3, heartbeat_timeout_seconds=60, pod=pod)
    return TFJOB.manifest(job, JobIdentity(name, "train"), JobTimeouts(active_deadline_seconds=100))


def _changed(manifest: Object, path: str, value: object) -> Object:
    """Return a manifest with another value at a path, or without the path if the value is None."""
    changed = json.loads(json.dumps(manifest))
    *above, last = path.split(".")
    place = changed
    for key in above:
        place = place[int(key) if key.isdecimal() else key]
    if value is None:
        del place[last]
    else:
        place[last] = value
    return dict(changed)


def _is_within(sent: Any, stored: Any) -> bool:
    """Return whether all sent fields are stored. A server adds default values."""
    if isinstance(sent, dict) and isinstance(stored, dict):
        return all(key in stored and _is_within(value, stored[key]) for key, value in sent.items())
    if isinstance(sent, list) and isinstance(stored, list):
        return len(sent) == len(stored) and all(map(_is_within, sent, stored))
    return bool(sent == stored)


def _as_owner(lease: Object) -> Object:
    name, uid = (lease["metadata"][key] for key in ("name", "uid"))
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "name": name, "uid": uid}


def test_create_returns_metadata_and_stores_object(cluster: Cluster) -> None:
    created = cluster.create("created", labels={"a": "b"})
    assert created["metadata"].keys() >= {"uid", "resourceVersion", "creationTimestamp"}
    assert (created["metadata"]["namespace"], created["metadata"]["labels"]) == (cluster.namespace, {"a": "b"})
    # Without labels, the field is missing.
    assert "labels" not in cluster.create("plain")["metadata"]
    status, found = cluster.request("GET", LEASES, "created")
    assert (status, found["metadata"]["uid"]) == (200, created["metadata"]["uid"])


def test_create_existing_name_is_a_conflict(cluster: Cluster, api: NamespaceClient) -> None:
    cluster.create("once")
    status, rejected = cluster.request("POST", LEASES, body={"metadata": {"name": "once"}})
    assert (status, rejected["reason"]) == (409, "AlreadyExists")
    assert rejected["message"] == 'leases.coordination.k8s.io "once" already exists'
    assert api.create(LEASES, {"metadata": {"name": "once"}}) is None
    assert cluster.request("POST", LEASES, body={"metadata": {"name": "once"}}, namespace=cluster.other)[0] == 201
    uids = {cluster.request("GET", LEASES, "once", namespace=each)[1]["metadata"]["uid"] for each in _both(cluster)}
    assert len(uids) == 2
    assert cluster.request("DELETE", LEASES, "once", namespace=cluster.other)[0] == 200
    assert cluster.request("GET", LEASES, "once")[0] == 200


def _both(cluster: Cluster) -> tuple[str, str]:
    return cluster.namespace, cluster.other


def test_list_filters_by_namespace_and_selectors(cluster: Cluster) -> None:
    for name, labels in (("listed-1", {"list": "a"}), ("listed-2", {"list": "b"})):
        cluster.create(name, labels=labels)

    def names(namespace: str, **selectors: str) -> list[str]:
        status, found = cluster.request("GET", LEASES, namespace=namespace, query=selectors)
        assert status == 200
        return [item["metadata"]["name"] for item in found["items"]]

    assert names(cluster.namespace, labelSelector="list=a") == ["listed-1"]
    assert names(cluster.namespace, labelSelector="list") == ["listed-1", "listed-2"]
    assert names(cluster.namespace, labelSelector="list,unlisted") == []
    assert names(cluster.namespace, fieldSelector="metadata.name=listed-2") == ["listed-2"]
    assert names(cluster.other, labelSelector="list=a") == []
    # A missing namespace has no objects, and is no error.
    assert names("no-such-namespace") == []


@pytest.mark.parametrize("body", [{"metadata": {"name": "Not A Name"}}, {"metadata": {}}])
def test_create_invalid_name_is_invalid(cluster: Cluster, body: Object) -> None:
    status, rejected = cluster.request("POST", LEASES, body=body)
    assert (status, rejected["reason"]) == (422, "Invalid")
    assert " is invalid: metadata.name: " in rejected["message"]


def test_create_mismatched_kind_or_namespace_is_a_bad_request(cluster: Cluster) -> None:
    metadata = {"name": "elsewhere"}
    for body in (
        {"kind": "Service", "metadata": metadata},
        {"metadata": {**metadata, "namespace": cluster.other}},
    ):
        assert cluster.request("POST", LEASES, body=body)[0] == 400
    assert cluster.request("GET", LEASES, "elsewhere")[0] == 404


def test_create_in_missing_or_ending_namespace_is_rejected(cluster: Cluster) -> None:
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "late"}}
    by_us: dict[str, Any] = {"content": APPLY, "query": BY_US}
    for method, name, how in (("POST", "", {}), ("PATCH", "late", by_us)):
        status, rejected = cluster.request(method, LEASES, name, lease, namespace="no-such-namespace", **how)
        assert (status, rejected["message"]) == (404, 'namespaces "no-such-namespace" not found')
        status, rejected = cluster.request(method, LEASES, name, lease, namespace=cluster.ending, **how)
        assert status == 403
        assert rejected["message"].startswith('leases.coordination.k8s.io "late" is forbidden: ')
        assert rejected["message"].endswith(f"namespace {cluster.ending} because it is being terminated")


def test_namespace_is_ending_if_missing_or_being_deleted(cluster: Cluster) -> None:
    found = {}
    for namespace in (cluster.namespace, cluster.ending, "no-such-namespace"):
        with contextlib.closing(NamespaceClient(namespace)) as api:
            found[namespace] = api.namespace_is_ending()
    assert found == {cluster.namespace: False, cluster.ending: True, "no-such-namespace": True}
    # The check is a dry run.
    assert cluster.request("GET", SERVICES)[1]["items"] == []


def test_missing_object_is_not_found_by_any_method(cluster: Cluster) -> None:
    job = _changed(_manifest("none"), "metadata.resourceVersion", "5")
    name = job["metadata"]["name"]
    for method, body, content in (
        ("GET", None, "application/json"),
        ("PUT", job, "application/json"),
        ("PATCH", {}, MERGE),
        ("DELETE", {}, "application/json"),
    ):
        status, rejected = cluster.request(method, TFJOBS, name, body, content=content)
        assert (status, rejected["reason"]) == (404, "NotFound")
        assert rejected["message"] == f'tfjobs.kubeflow.org "{name}" not found'


def test_update_of_old_version_is_a_conflict(cluster: Cluster) -> None:
    created = cluster.create("read", labels={"a": "b"})
    first = created["metadata"]["resourceVersion"]
    newer = {**created, "metadata": {**created["metadata"], "labels": {"a": "c"}}}
    status, written = cluster.request("PUT", LEASES, "read", newer)
    assert (status, written["metadata"]["labels"]) == (200, {"a": "c"})
    assert written["metadata"]["uid"] == created["metadata"]["uid"]
    assert written["metadata"]["resourceVersion"] != first
    for method, body, content in (
        ("PUT", created, "application/json"),
        ("PATCH", {"metadata": {"resourceVersion": first, "labels": {"a": "d"}}}, MERGE),
    ):
        status, rejected = cluster.request(method, LEASES, "read", body, content=content)
        assert (status, rejected["reason"]) == (409, "Conflict")
    assert cluster.request("GET", LEASES, "read")[1] == written


def test_merge_patch_deletes_null_and_replaces_lists(cluster: Cluster) -> None:
    # The owners must exist, because a cluster deletes objects without owner.
    owners = [_as_owner(cluster.create(f"owner-{name}")) for name in ("x", "y")]
    cluster.create("merged", labels={"a": "b", "c": "d"}, finalizers=["qcnn.test/a", "qcnn.test/b"])
    patch = {"metadata": {"labels": {"a": None, "e": "f"}, "finalizers": ["qcnn.test/c"], "annotations": {"g": "h"}}}
    status, patched = cluster.request("PATCH", LEASES, "merged", patch, content=MERGE)
    assert (status, patched["metadata"]["labels"]) == (200, {"c": "d", "e": "f"})
    assert (patched["metadata"]["finalizers"], patched["metadata"]["annotations"]) == (["qcnn.test/c"], {"g": "h"})
    for given in (owners, owners[:1], None):
        owned = {"metadata": {"ownerReferences": given, "finalizers": None}}
        status, patched = cluster.request("PATCH", LEASES, "merged", owned, content=MERGE)
        assert (status, patched["metadata"].get("ownerReferences")) == (200, given)
    # A patch without a change does not change the version.
    again = cluster.request("PATCH", LEASES, "merged", {"metadata": {"finalizers": None}}, content=MERGE)[1]
    assert again["metadata"]["resourceVersion"] == patched["metadata"]["resourceVersion"]


@pytest.mark.parametrize("content", ["application/json", "application/jsonlines"])
def test_patch_of_unknown_media_type_is_unsupported(cluster: Cluster, content: str) -> None:
    name = cluster.create(f"patched-{content.partition('/')[2]}")["metadata"]["name"]
    status, rejected = cluster.request("PATCH", LEASES, name, {"metadata": {"labels": {"a": "b"}}}, content=content)
    assert (status, rejected["reason"]) == (415, "UnsupportedMediaType")
    assert "labels" not in cluster.request("GET", LEASES, name)[1]["metadata"]


def test_apply_creates_and_updates_owned_fields(cluster: Cluster) -> None:
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "applied"}}

    def apply(spec: Object, **metadata: Any) -> tuple[int, Object]:
        body = {**lease, "metadata": {"name": "applied", **metadata}, "spec": spec}
        return cluster.request("PATCH", LEASES, "applied", body, content=APPLY, query=BY_US)

    status, first = apply({"holderIdentity": "one", "leaseDurationSeconds": 3}, labels={"a": "b"})
    assert (status, first["spec"]) == (201, {"holderIdentity": "one", "leaseDurationSeconds": 3})
    other_fields = {"metadata": {"labels": {"c": "d"}, "annotations": {"e": "f"}}, "spec": {"leaseTransitions": 7}}
    assert cluster.request("PATCH", LEASES, "applied", other_fields, content=MERGE)[0] == 200
    owner = _as_owner(cluster.create("owner-of-applied"))
    status, second = apply({"holderIdentity": "two"}, ownerReferences=[owner])
    # Fields that are no longer applied are removed, and fields of other clients are retained.
    assert (status, second["spec"]) == (200, {"holderIdentity": "two", "leaseTransitions": 7})
    metadata = second["metadata"]
    assert (metadata["labels"], metadata["annotations"]) == ({"c": "d"}, {"e": "f"})
    assert (metadata["ownerReferences"], metadata["uid"]) == ([owner], first["metadata"]["uid"])
    # A forced apply overrides fields of other clients.
    assert apply({"holderIdentity": "two", "leaseTransitions": 8})[1]["spec"]["leaseTransitions"] == 8


def test_apply_keeps_list_items_of_other_managers(cluster: Cluster) -> None:
    def apply(manager: str, *variables: str, **container: Any) -> Object:
        container |= {"name": "main", "env": [{"name": name, "value": "1"} for name in variables]}
        template = {"metadata": {"labels": {"app": "listed"}}, "spec": {"containers": [container]}}
        spec = {"replicas": 0, "selector": {"matchLabels": {"app": "listed"}}, "template": template}
        body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "listed"}, "spec": spec}
        query = {**BY_US, "fieldManager": manager}
        status, answer = cluster.request("PATCH", DEPLOYMENTS, "listed", body, content=APPLY, query=query)
        assert status in (200, 201), answer
        (found,) = answer["spec"]["template"]["spec"]["containers"]
        return dict(found)

    apply("qcnn", "A", "B", image="one", args=["a", "b"])
    apply("another", "C")
    found = apply("qcnn", "A", image="two", args=["c"])
    assert {variable["name"] for variable in found["env"]} == {"A", "C"}
    assert (found["image"], found["args"]) == ("two", ["c"])


def test_apply_without_manager_or_kind_is_rejected(cluster: Cluster) -> None:
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "unmanaged"}}
    assert cluster.request("PATCH", LEASES, "unmanaged", lease, content=APPLY)[0] == 422
    for body in ({"metadata": {"name": "unmanaged"}}, {**lease, "metadata": {"name": "another"}}):
        assert cluster.request("PATCH", LEASES, "unmanaged", body, content=APPLY, query=BY_US)[0] == 400
    assert cluster.request("GET", LEASES, "unmanaged")[0] == 404


def test_watch_returns_changes_since_version(cluster: Cluster) -> None:
    version = cluster.request("GET", LEASES)[1]["metadata"]["resourceVersion"]
    cluster.create("watched", labels={"watch": "a"})
    cluster.create("unwatched")
    for label in ("a", "b"):
        patch = {"metadata": {"labels": {"watch": label}, "annotations": {"for": label}}}
        assert cluster.request("PATCH", LEASES, "watched", patch, content=MERGE)[0] == 200
    assert cluster.request("DELETE", LEASES, "watched", {})[0] == 200
    by_name = cluster.events(LEASES, version, 4, fieldSelector="metadata.name=watched")
    assert [event["type"] for event in by_name] == ["ADDED", "MODIFIED", "MODIFIED", "DELETED"]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in by_name]
    assert versions == sorted(set(versions))
    # An object that no longer matches is deleted, in its last matching state, at the version of the change.
    by_label = cluster.events(LEASES, version, 3, labelSelector="watch=a")
    assert [event["type"] for event in by_label] == ["ADDED", "MODIFIED", "DELETED"]
    last = by_label[-1]["object"]["metadata"]
    assert (last["labels"], int(last["resourceVersion"])) == ({"watch": "a"}, versions[2])
    # A watch can continue at any version.
    rest = cluster.events(LEASES, str(versions[1]), 2, fieldSelector="metadata.name=watched")
    assert rest == by_name[2:]


def test_watch_from_expired_version_returns_error_event(cluster: Cluster) -> None:
    # Even on a new server, versions before the creation of a custom resource have expired.
    (event,) = cluster.events(TFJOBS, "1", 1)
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")


def test_watch_with_expired_version_lists_again(api: NamespaceClient, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = _manifest("forgotten")
    name = manifest["metadata"]["name"]
    assert api.create(TFJOBS, manifest)
    as_it_is = api._request_json
    listings = []

    def outdated(*arguments: Any, **options: Any) -> Object:
        listing = as_it_is(*arguments, **options)
        listings.append(listing)
        if len(listings) == 1:
            listing["metadata"]["resourceVersion"] = "1"
        return listing

    monkeypatch.setattr(api, "_request_json", outdated)
    with contextlib.closing(api.watch(TFJOBS, fieldSelector=f"metadata.name={name}")) as watch:
        assert [list(next(watch)) for _ in range(2)] == [[name], [name]]
    assert len(listings) == 2


def test_paginated_list_has_one_version_until_expired(cluster: Cluster) -> None:
    for name in ("part-1", "part-2"):
        cluster.create(name, labels={"part": "a"})
    _, first = cluster.request("GET", LEASES, query={"labelSelector": "part=a", "limit": "1"})
    cluster.create("part-3", labels={"part": "a"})
    token = first["metadata"]["continue"]
    _, rest = cluster.request("GET", LEASES, query={"labelSelector": "part=a", "limit": "5", "continue": token})
    assert [item["metadata"]["name"] for part in (first, rest) for item in part["items"]] == ["part-1", "part-2"]
    where = json.dumps({"v": "meta.k8s.io/v1", "rv": 1, "start": "part-1\u0000"})
    token = base64.urlsafe_b64encode(where.encode()).decode().rstrip("=")
    status, rejected = cluster.request("GET", LEASES, query={"limit": "1", "continue": token})
    if status == 200:
        pytest.skip("no version has expired yet on this server")
    assert (status, rejected["reason"]) == (410, "Expired")


def test_watch_yields_deleted_object_once_more(cluster: Cluster, api: NamespaceClient) -> None:
    cluster.create("deleted")
    with contextlib.closing(api.watch(LEASES, fieldSelector="metadata.name=deleted")) as watch:
        assert list(next(watch)) == ["deleted"]
        assert api.delete(LEASES, "deleted")
        assert [list(next(watch)) for _ in range(2)] == [["deleted"], []]
    assert not api.delete(LEASES, "deleted")


def test_delete_with_other_uid_is_a_conflict(cluster: Cluster, api: NamespaceClient) -> None:
    uid = cluster.create("another")["metadata"]["uid"]
    status, rejected = cluster.request("DELETE", LEASES, "another", {"preconditions": {"uid": "of-an-earlier-one"}})
    assert (status, rejected["reason"]) == (409, "Conflict")
    assert not api.delete(LEASES, "another", uid="of-an-earlier-one")
    assert api.get(LEASES, "another")
    assert api.delete(LEASES, "another", uid=uid)


@pytest.mark.parametrize("dependents_first", [True, False], ids=["foreground", "background"])
def test_delete_removes_dependents_in_order(cluster: Cluster, api: NamespaceClient, dependents_first: bool) -> None:
    name = f"owner-{dependents_first}".lower()
    version = cluster.request("GET", LEASES)[1]["metadata"]["resourceVersion"]
    owner = _as_owner(cluster.create(name, labels={"family": name}))
    references = [{**owner, "blockOwnerDeletion": True}]
    cluster.create(f"{name}-owned", labels={"family": name}, ownerReferences=references)
    assert api.delete(LEASES, name, dependents_first=dependents_first)
    count = 5 if dependents_first else 4
    seen = cluster.events(LEASES, version, count, labelSelector=f"family={name}")
    deleted = [event["object"]["metadata"]["name"] for event in seen if event["type"] == "DELETED"]
    assert deleted == ([f"{name}-owned", name] if dependents_first else [name, f"{name}-owned"])
    # Foreground deletion first marks the owner.
    modified = [event for event in seen if event["type"] == "MODIFIED"]
    assert ["deletionTimestamp" in event["object"]["metadata"] for event in modified] == [True] * dependents_first


def test_create_or_adopt_creates_tfjob_once(cluster: Cluster, api: NamespaceClient) -> None:
    manifest = _manifest("adopted")
    created, outcome = create_or_adopt(api, TFJOB, manifest)
    assert outcome is CreateOutcome.CREATED
    # The operator's schema contains all fields of the manifest.
    assert _is_within(manifest, created)
    again, outcome = create_or_adopt(api, TFJOB, manifest)
    assert (again["metadata"]["uid"], outcome) == (created["metadata"]["uid"], CreateOutcome.ADOPTED)
    more = _manifest("adopted", NOWHERE.model_copy(update={"memory": "4Gi"}))
    with pytest.raises(ConfigError, match=r"^TFJob: already runs with other settings; "):
        create_or_adopt(api, TFJOB, more)


def test_tfjob_unknown_fields_and_status_are_dropped(cluster: Cluster) -> None:
    manifest = _changed(_manifest("dropped"), "spec.cleanPodPolicy", "None")
    manifest["status"] = {"conditions": [{"type": "Failed", "status": "True"}]}
    status, created = cluster.request("POST", TFJOBS, body=manifest)
    assert status == 201
    assert "cleanPodPolicy" not in created["spec"]
    patch = {"spec": {"runPolicy": {"suspend": True}}, "status": manifest["status"]}
    status, patched = cluster.request("PATCH", TFJOBS, created["metadata"]["name"], patch, content=MERGE)
    assert (status, patched["spec"]["runPolicy"]["suspend"]) == (200, True)
    assert [created["metadata"]["generation"], patched["metadata"]["generation"]] == [1, 2]
    for found in (created, patched):
        conditions = found.get("status", {}).get("conditions", ())
        assert "Failed" not in [condition["type"] for condition in conditions]


def test_tfjob_pods_have_labels_and_are_deleted_with_tfjob(cluster: Cluster, api: NamespaceClient) -> None:
    job = JobSpec(("train",), {"worker": 2}, restarts=3, heartbeat_timeout_seconds=60, pod=NOWHERE)
    created = api.create(TFJOBS, TFJOB.manifest(job, JobIdentity("pods", "train"), JobTimeouts()))
    assert created
    cluster.start(created)
    name = created["metadata"]["name"]
    with contextlib.closing(api.watch(PODS, labelSelector=f"{TFJOB.pod_label}={name}")) as watch:
        pods = next(pods for pods in watch if len(pods) == 2)
        for index in range(2):
            metadata = pods[TFJOB.pod_name(created, "worker", index)]["metadata"]
            assert metadata["labels"].items() >= {TFJOB.role_label: "worker", TFJOB.index_label: str(index)}.items()
            (owner,) = metadata["ownerReferences"]
            assert (owner["kind"], owner["uid"]) == ("TFJob", created["metadata"]["uid"])
            assert (owner["controller"], owner["blockOwnerDeletion"]) == (True, True)
        assert api.delete(TFJOBS, name, dependents_first=True)
        assert not next(pods for pods in watch if not pods)


# The webhook of Kueue, if it is installed, reads a TFJob before the API server checks its types.
_KUEUE_WEBHOOK = 'admission webhook "mtfjob.kb.io" denied the request: '
CHIEF = "spec.tfReplicaSpecs.Chief"
CONTAINERS = f"{CHIEF}.template.spec.containers"


@pytest.mark.parametrize(
    ("path", "value", "code", "message"),
    [
        ("spec.tfReplicaSpecs", None, 422, "spec.tfReplicaSpecs: Required value"),
        (f"{CHIEF}.replicas", "one", 422, f'{CHIEF}.replicas in body must be of type integer: "string"'),
        (f"{CHIEF}.replicas", True, 422, f"{CHIEF}.replicas: Invalid value: "),
        ("spec.runPolicy.cleanPodPolicy", 3, 422, 'cleanPodPolicy in body must be of type string: "integer"'),
        (f"{CONTAINERS}.0.name", None, 422, f"{CONTAINERS}[0].name: Required value"),
        (f"{CONTAINERS}.0.env.0.value", 1, 422, f'{CONTAINERS}[0].env[0].value in body must be of type string: "'),
        (f"{CONTAINERS}.0.resources.limits.memory", "much", 422, "limits.memory in body should match '^"),
        (f"{CONTAINERS}.0.ports", "2222", 422, f'{CONTAINERS}[0].ports in body must be of type array: "string"'),
        (f"{CONTAINERS}.0.name", "other", 403, "must have at least one container with name tensorflow"),
        ("spec", None, 403, "spec.tfReplicaSpecs: Required value: must be required"),
        ("metadata.name", "9-names", 403, 'metadata.name: Invalid value: "9-names": should match: a DNS-1035 label'),
        ("kind", None, 400, "(must be of type TFJob)"),
    ],
)
def test_create_invalid_tfjob_is_rejected(cluster: Cluster, path: str, value: object, code: int, message: str) -> None:
    status, rejected = cluster.request("POST", TFJOBS, body=_changed(_manifest("bad"), path, value))
    if code == 422 and _KUEUE_WEBHOOK in rejected["message"]:
        assert status == 400
        return
    assert (status, message in rejected["message"]) == (code, True), rejected


def test_update_to_invalid_tfjob_is_rejected(cluster: Cluster) -> None:
    manifest = _manifest("patched")
    name = manifest["metadata"]["name"]
    assert cluster.request("POST", TFJOBS, body=manifest)[0] == 201
    bad = {"spec": {"runPolicy": {"suspend": "yes"}}}
    assert cluster.request("PATCH", TFJOBS, name, bad, content=MERGE)[0] == 422
    # An update without a version is also rejected.
    assert cluster.request("PUT", TFJOBS, name, manifest)[0] == 422


def test_rejected_requests_raise_config_error(cluster: Cluster, api: NamespaceClient) -> None:
    with pytest.raises(ConfigError, match=r"^create leases in namespace .*: rejected by the API server\. Given: .*$"):
        api.create(LEASES, {"metadata": {"name": "Not A Name"}})
    api.namespace = "no-such-namespace"
    with pytest.raises(ConfigError, match=r"^namespace: does not exist. Given: no-such-namespace$"):
        api.create(LEASES, {"metadata": {"name": "nowhere"}})
    api.namespace = cluster.ending
    with pytest.raises(ConfigError, match=rf"^namespace: is being deleted; .* Given: {cluster.ending}$"):
        api.create(LEASES, {"metadata": {"name": "late"}})


def test_missing_training_operator_raises_config_error(api: NamespaceClient) -> None:
    unknown = dataclasses.replace(TFJOBS, plural="jobs-of-no-operator")
    message = r"^cluster: TFJobs are not available; install the training operator\. Given: "
    with pytest.raises(ConfigError, match=f"{message}create jobs-of-no-operator in namespace "):
        api.create(unknown, {})
    with pytest.raises(ConfigError, match=f"{message}list jobs-of-no-operator in namespace "):
        api.find(unknown)


def test_unknown_resource_is_not_found(cluster: Cluster) -> None:
    status, rejected = cluster.request("GET", dataclasses.replace(LEASES, plural="rents"))
    assert (status, rejected["message"]) == (404, "the server could not find the requested resource")


@pytest.mark.cluster
def test_tfjob_schema_equals_that_of_cluster() -> None:
    if not os.environ.get("KUBECONFIG"):
        pytest.skip("KUBECONFIG is not set: no cluster")
    with kubernetes.client.ApiClient(configuration()) as client:
        definition = kubernetes.client.ApiextensionsV1Api(client).read_custom_resource_definition(
            "tfjobs.kubeflow.org", _preload_content=False
        )
    assert schema_of(json.loads(definition.data)) == tfjob_admission.SCHEMA
