"""Client of the Kubernetes API, for the cluster of this pod or the cluster of KUBECONFIG."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import datetime
import email.utils
import json
import logging
import math
import random
import re
import threading
import time
from collections.abc import Generator, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import urllib3

from qcnn.errors import RetryableError
from qcnn.jobs.kubernetes.cluster_config import configuration
from qcnn.jobs.kubernetes.retry import (
    NOT_FOUND,
    UNAVAILABLE,
    RequestRejectedError,
    RetryPolicy,
    describe_error,
    is_unavailable,
    rejection,
)

# The client library takes a third of a second to load, so functions import it.
if TYPE_CHECKING:
    import kubernetes.client


logger = logging.getLogger("qcnn")

Object = dict[str, Any]

_CONNECT_SECONDS, _READ_SECONDS = 5.0, 30.0
# The server ends a watch after this time. A connection without data for longer is broken.
_WATCH_SECONDS = 50
# A log stream is reopened after this time without data, because its connection may be broken.
_LOG_SECONDS = 300.0
_GONE, _CONFLICT = 410, 409
_TIME = re.compile(r"\d{4}-\d\d-\d\dT")


@dataclasses.dataclass(frozen=True)
class Resource:
    """Resource type of the API. `missing` is the clause of the message if a cluster does not have it."""

    prefix: str
    plural: str
    missing: str = ""
    is_namespaced: bool = True


PODS = Resource("/api/v1", "pods")
EVENTS = Resource("/api/v1", "events")
SERVICE_ACCOUNTS = Resource("/api/v1", "serviceaccounts")
SERVICES = Resource("/api/v1", "services")
SECRETS = Resource("/api/v1", "secrets")
CONFIG_MAPS = Resource("/api/v1", "configmaps")
QUOTAS = Resource("/api/v1", "resourcequotas")
NODES = Resource("/api/v1", "nodes", is_namespaced=False)
DEPLOYMENTS = Resource("/apis/apps/v1", "deployments")
REPLICA_SETS = Resource("/apis/apps/v1", "replicasets")
AUTOSCALERS = Resource("/apis/autoscaling/v2", "horizontalpodautoscalers")
DISRUPTION_BUDGETS = Resource("/apis/policy/v1", "poddisruptionbudgets")
LEASES = Resource("/apis/coordination.k8s.io/v1", "leases")
JOBS = Resource("/apis/batch/v1", "jobs")
# Documents of the server itself.
_VERSION, _GROUPS = Resource("/version", "version"), Resource("/apis", "groups")
# Only sent as a dry run.
_PROBE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"generateName": "qcnn-probe-"},
    "spec": {"ports": [{"port": 1}]},
}
REVIEWS = Resource("/apis/authorization.k8s.io/v1", "localsubjectaccessreviews")
OWN_REVIEWS = Resource("/apis/authorization.k8s.io/v1", "selfsubjectaccessreviews", is_namespaced=False)


@dataclasses.dataclass
class _ServerState:
    """State of the API server, shared by all connections.

    Attributes:
        answered: Whether the server has sent any response.
        allowed: Verbs and resources that the server has allowed.
        clock_difference: Seconds by which the clock of the server is ahead.
        outage: Whether an outage was reported and no request has succeeded since then.
    """

    answered: bool = False
    allowed: set[tuple[str, Resource]] = dataclasses.field(default_factory=set)
    clock_difference: float = 0.0
    outage: bool = False
    _lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)

    def report_outage(self) -> bool:
        """Record an outage and return whether it is a new one."""
        with self._lock:
            is_new, self.outage = not self.outage, True
            return is_new


class NamespaceClient:
    """Client of one namespace of the cluster.

    A request is retried with backoff and jitter while the server is overloaded (429), failing (5xx) or unreachable. The
    time limit is that of `RetryPolicy`: seconds before the first response of the server, then minutes.

    Raises:
        ConfigError: By every method, if the server rejects a request.
        RetryableError: By every method, if the server is unavailable until the time limit.
    """

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self._max_seconds = math.inf
        self._server = _ServerState()
        self._client = _connect()

    def close(self) -> None:
        """Close idle connections."""
        self._client.rest_client.pool_manager.clear()
        self._client.close()

    def with_own_connections(self) -> NamespaceClient:
        """Return a client with separate connections, which watches and logs cannot occupy."""
        other = copy.copy(self)
        other._client = _connect()
        return other

    def limited_to(self, seconds: float) -> NamespaceClient:
        """Return a client with the same connections and a time limit for the retries of a request."""
        limited = copy.copy(self)
        limited._max_seconds = seconds
        return limited

    def now(self) -> datetime.datetime:
        """Return the time of the server's clock, which is used for Leases."""
        return datetime.datetime.fromtimestamp(time.time() + self._server.clock_difference, datetime.UTC)

    def get(self, resource: Resource, name: str) -> Object | None:
        """Return an object, or None if it does not exist."""
        return self._request_existing("GET", "get", resource, name)

    def find(self, resource: Resource, **selectors: str) -> list[Object]:
        """Return the objects that match `labelSelector` and `fieldSelector`."""
        return list(self._request_json("GET", "list", resource, query=selectors)["items"])

    def serves(self, resource: Resource) -> bool:
        """Return whether the API server has a resource type."""
        try:
            response = self._request("GET", "discover", resource, path=resource.prefix)
        except RequestRejectedError as error:
            if error.status == NOT_FOUND:
                return False
            raise
        return any(each["name"] == resource.plural for each in json.loads(response.data)["resources"])

    def version(self) -> str:
        """Return the version of the API server."""
        return str(json.loads(self._request("GET", "get", _VERSION, path=_VERSION.prefix).data)["gitVersion"])

    def groups(self) -> dict[str, str]:
        """Return the API groups of the cluster, with their preferred versions."""
        groups = json.loads(self._request("GET", "list", _GROUPS, path=_GROUPS.prefix).data)["groups"]
        return {each["name"]: each["preferredVersion"]["version"] for each in groups}

    def namespace_is_ending(self) -> bool:
        """Return whether the namespace is being deleted or no longer exists."""
        # The role qcnn-user has no permission to read the namespace, but may create Services in it.
        try:
            self.create(SERVICES, _PROBE, dry_run=True)
        except RequestRejectedError as error:
            return error.is_final or error.status == NOT_FOUND
        return False

    def create(self, resource: Resource, manifest: Mapping[str, Any], *, dry_run: bool = False) -> Object | None:
        """Create an object and return it, or return None if an object of this name exists.

        Args:
            resource: Resource type of the object.
            manifest: Object to create.
            dry_run: Whether the server only checks the request.
        """
        query = {"dryRun": "All"} if dry_run else None
        try:
            return self._request_json("POST", "create", resource, query=query, body=manifest)
        except RequestRejectedError as error:
            if error.status == _CONFLICT:
                return None
            raise

    def apply(self, resource: Resource, manifest: Mapping[str, Any]) -> None:
        """Create or update an object by server-side apply."""
        query = {"fieldManager": "qcnn", "force": "true"}
        name = manifest["metadata"]["name"]
        content = "application/apply-patch+yaml"
        self._request_json("PATCH", "patch", resource, name, query=query, body=manifest, content=content)

    def delete(self, resource: Resource, name: str, *, uid: str | None = None, dependents_first: bool = False) -> bool:
        """Delete an object and its dependents, and return whether the object existed.

        Args:
            resource: Resource type of the object.
            name: Name of the object.
            uid: UID that the object must have; by default any.
            dependents_first: Whether the object exists until its dependents are deleted.
        """
        body: Object = {"propagationPolicy": "Foreground" if dependents_first else "Background"}
        if uid:
            body["preconditions"] = {"uid": uid}
        try:
            return self._request_existing("DELETE", "delete", resource, name, body=body) is not None
        except RequestRejectedError as error:
            if error.status == _CONFLICT:
                # An object with another UID has this name.
                return False
            raise

    def log(
        self, pod: str, container: str, since: str, *, follow: bool, last: int | None = None
    ) -> Iterator[tuple[str, str]]:
        """Yield the time (RFC 3339) and the text of each line in the log of a container.

        Yields nothing if the pod no longer exists, because the pods of a job may be deleted at any time.

        Args:
            pod: Name of the pod.
            container: Name of the container.
            since: Time of the first line (RFC 3339), or empty for all lines.
            follow: Whether to stream new lines until the container exits.
            last: Number of last lines to return. None: all lines.
        """
        query = {"container": container, "timestamps": "true", "follow": "true" if follow else "false"}
        if since:
            query["sinceTime"] = since
        if last is not None:
            query["tailLines"] = str(last)
        read_seconds = _LOG_SECONDS if follow else _READ_SECONDS
        try:
            response = self._request("GET", "get", PODS, pod, "log", query, read_seconds=read_seconds)
        except RequestRejectedError as error:
            if error.status == NOT_FOUND:
                return
            raise
        for line in self._lines(response):
            time, _, text = line.partition(" ")
            # A line without a time is a message of the kubelet, for example about a removed container.
            if _TIME.match(time):
                yield time, text

    def watch(
        self, resource: Resource, *, seconds: float = math.inf, **selectors: str
    ) -> Generator[dict[str, Object], None, None]:
        """Yield all matching objects by name, first the current ones, then again after each change.

        A deleted object is yielded once more in its last state. A broken watch continues at its last resource version,
        or with a new list if that version has expired (410).

        Args:
            resource: Kind of the objects.
            seconds: Time after which the watch ends.
            selectors: `labelSelector` and `fieldSelector` of the objects.
        """
        version, objects = "", dict[str, Object]()
        end = time.monotonic() + seconds
        while True:
            if not version:
                listing = self._request_json("GET", "list", resource, query=selectors)
                version = listing["metadata"]["resourceVersion"]
                objects = {item["metadata"]["name"]: item for item in listing["items"]}
                yield dict(objects)
            began = time.monotonic()
            if began >= end:
                return
            with contextlib.closing(self._events(resource, selectors, version, end - began)) as events:
                for event in events:
                    if event["type"] == "ERROR":
                        version = "" if event["object"].get("code") == _GONE else version
                        break
                    version = event["object"]["metadata"]["resourceVersion"]
                    if event["type"] == "BOOKMARK":
                        continue
                    name = event["object"]["metadata"]["name"]
                    objects[name] = event["object"]
                    yield dict(objects)
                    if event["type"] == "DELETED":
                        del objects[name]
                        yield dict(objects)
            if time.monotonic() - began < 1:
                time.sleep(random.uniform(0.5, 1.5))

    def _events(
        self, resource: Resource, selectors: Mapping[str, str], version: str, seconds: float
    ) -> Generator[Object, None, None]:
        query = {
            **selectors,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(math.ceil(min(seconds, _WATCH_SECONDS))),
        }
        try:
            response = self._request("GET", "watch", resource, query=query, read_seconds=_WATCH_SECONDS + 10.0)
        except RequestRejectedError as error:
            if error.status != _GONE:
                raise
            yield {"type": "ERROR", "object": {"code": _GONE}}
            return
        with contextlib.closing(self._lines(response)) as lines:
            yield from map(json.loads, lines)

    def _lines(self, response: urllib3.BaseHTTPResponse) -> Generator[str, None, None]:
        """Yield the lines of a response, without an incomplete last line if the connection breaks."""
        rest = b""
        with contextlib.closing(response), contextlib.suppress(urllib3.exceptions.HTTPError, OSError):
            for chunk in response.stream(None, decode_content=False):
                *lines, rest = (rest + chunk).split(b"\n")
                yield from (line.decode(errors="replace") for line in lines)
            if rest:
                yield rest.decode(errors="replace")

    def _request_existing(
        self, method: str, verb: str, resource: Resource, name: str, body: Mapping[str, Any] | None = None
    ) -> Object | None:
        try:
            return self._request_json(method, verb, resource, name, body=body)
        except RequestRejectedError as error:
            if error.status == NOT_FOUND:
                return None
            raise

    def _request_json(
        self,
        method: str,
        verb: str,
        resource: Resource,
        name: str = "",
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        content: str = "application/json",
    ) -> Object:
        response = self._request(method, verb, resource, name, query=query, body=body, content=content)
        return dict(json.loads(response.data))

    def _request(
        self,
        method: str,
        verb: str,
        resource: Resource,
        name: str = "",
        subresource: str = "",
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        content: str = "application/json",
        read_seconds: float = _READ_SECONDS,
        path: str = "",
    ) -> urllib3.BaseHTTPResponse:
        where = ("namespaces", self.namespace) if resource.is_namespaced else ()
        parts = (resource.prefix, *where, resource.plural, name, subresource)
        path = path or "/".join(filter(None, parts))
        streamed = subresource == "log" or verb == "watch"

        from kubernetes.client import ApiException

        def once() -> urllib3.BaseHTTPResponse:
            try:
                response: urllib3.BaseHTTPResponse = self._client.call_api(
                    path,
                    method,
                    query_params=list((query or {}).items()),
                    header_params={"Content-Type": content, "Accept": "application/json"},
                    body=body,
                    auth_settings=["BearerToken"],
                    _preload_content=False,
                    _return_http_data_only=True,
                    _request_timeout=(_CONNECT_SECONDS, read_seconds),
                )
            except ApiException as error:
                if error.status:
                    self._record_response(error.headers or {})
                if not is_unavailable(error):
                    self._server.outage = False
                raise
            self._record_response(response.headers)
            self._server.allowed.add((verb, resource))
            self._server.outage = False
            if not streamed:
                # Read within the retried function, so that a broken connection is retried.
                assert isinstance(response.data, bytes)
            return response

        action = f"{verb} {resource.plural}{'/' * bool(subresource)}{subresource}"
        was_allowed = (verb, resource) in self._server.allowed
        policy = RetryPolicy(
            f"{action} in namespace {self.namespace}",
            lambda: self._server.answered,
            was_allowed,
            self._server.report_outage,
            self._max_seconds,
        )
        try:
            return policy.retrying()(once)
        except (ApiException, urllib3.exceptions.HTTPError, OSError) as error:
            if is_unavailable(error):
                raise RetryableError(f"{UNAVAILABLE} ({describe_error(error)}). Given: {self.host}") from None
            raise rejection(error, action, self.namespace, was_allowed=was_allowed, missing=resource.missing) from None

    def _record_response(self, headers: Mapping[str, str]) -> None:
        self._server.answered = True
        if date := headers.get("Date"):
            self._server.clock_difference = email.utils.parsedate_to_datetime(date).timestamp() - time.time()

    @property
    def host(self) -> str:
        """Address of the API server."""
        return str(self._client.configuration.host)


def _connect() -> kubernetes.client.ApiClient:
    import kubernetes.client

    access = configuration()
    # `RetryPolicy` retries instead: retries of the library cannot be interrupted and are not logged.
    access.retries = False
    return kubernetes.client.ApiClient(access)
