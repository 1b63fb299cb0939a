"""The API of a cluster: the one that this process runs in, else the one that KUBECONFIG names."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import datetime
import email.utils
import json
import logging
import math
import os
import random
import re
import threading
import time
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import urllib3

from qcnn.errors import ConfigError, RetryableError, single_line
from qcnn.jobs.kubernetes.retry import (
    NOT_FOUND,
    UNAVAILABLE,
    RequestRejectedError,
    RetryPolicy,
    is_broken,
    rejection,
    why,
)

# The client library takes a third of a second to load: functions import it.
if TYPE_CHECKING:
    import kubernetes.client

_VARIABLE = "KUBECONFIG"
_DEFAULT = "~/.kube/config"
_DEFAULT_NAMESPACE = "default"
_NAMESPACE_OF_POD = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


def configuration() -> kubernetes.client.Configuration:
    """Return how the cluster is reached.

    Raises:
        ConfigError: there is no cluster, or its description cannot be read.
    """
    import kubernetes.config

    found = kubernetes.client.Configuration()
    with _config_errors():
        try:
            kubernetes.config.load_incluster_config(client_configuration=found)
        except kubernetes.config.ConfigException:
            kubernetes.config.load_kube_config(_kubeconfig(), client_configuration=found)
    return found


def own_namespace() -> str:
    """Return the namespace of this pod, else of the current context, else "default".

    Raises:
        ConfigError: there is no cluster.
    """
    if _NAMESPACE_OF_POD.exists():
        return _NAMESPACE_OF_POD.read_text(encoding="utf-8")
    import kubernetes.config

    with _config_errors():
        _, context = kubernetes.config.list_kube_config_contexts(_kubeconfig())
    return str(context["context"].get("namespace") or _DEFAULT_NAMESPACE)


def _kubeconfig() -> str:
    """Return the path of the user's file, or several paths; the library reads the variable only when it is imported."""
    return os.environ.get(_VARIABLE) or _DEFAULT


@contextlib.contextmanager
def _config_errors() -> Iterator[None]:
    try:
        yield
    except Exception as error:  # Of a damaged file the library raises whatever its parser does.
        raise ConfigError(f"cluster: no access to any; set KUBECONFIG. Given: {single_line(error)}") from None


logger = logging.getLogger("qcnn")

Object = dict[str, Any]

_CONNECT_SECONDS, _READ_SECONDS = 5.0, 30.0
# The server ends a watch after this time, so a connection that is silent for longer is dead.
_WATCH_SECONDS = 50
# A log that is silent for this long is opened again: its connection may be dead.
_LOG_SECONDS = 300.0
_GONE, _CONFLICT = 410, 409
_TIME = re.compile(r"\d{4}-\d\d-\d\dT")


@dataclasses.dataclass(frozen=True)
class Resource:
    """A kind of object of the API, which lives in a namespace."""

    prefix: str
    plural: str


PODS = Resource("/api/v1", "pods")
EVENTS = Resource("/api/v1", "events")
SERVICE_ACCOUNTS = Resource("/api/v1", "serviceaccounts")
SERVICES = Resource("/api/v1", "services")
DEPLOYMENTS = Resource("/apis/apps/v1", "deployments")
LEASES = Resource("/apis/coordination.k8s.io/v1", "leases")
JOBS = Resource("/apis/batch/v1", "jobs")
# A Service that is never created.
_PROBE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"generateName": "qcnn-probe-"},
    "spec": {"ports": [{"port": 1}]},
}
REVIEWS = Resource("/apis/authorization.k8s.io/v1", "localsubjectaccessreviews")


@dataclasses.dataclass
class _ServerState:
    """State of the API server as seen by all connections to it.

    Attributes:
        answered: Whether it has answered anything.
        allowed: Verbs and resources that it has allowed.
        clock_difference: Seconds by which its clock is ahead.
        outage: Whether an outage was reported and no request has succeeded since.
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
    """One namespace of the cluster that this process runs in, or that KUBECONFIG names.

    Every request is tried again with backoff and jitter while the server is busy (429), broken (5xx) or gone, for as
    long as `patience` says: seconds at first, minutes once it has answered anything.

    Raises (by every method):
        ConfigError: the server refuses; one line that says what is missing.
        RetryableError: it did not answer for as long as that.
    """

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self._longest = math.inf
        self._server = _ServerState()
        self._client = _connect()

    def close(self) -> None:
        """Close the connections that are not in use."""
        self._client.rest_client.pool_manager.clear()
        self._client.close()

    def with_own_connections(self) -> NamespaceClient:
        """Return the same on connections of its own, which are not taken up by watches and logs."""
        other = copy.copy(self)
        other._client = _connect()
        return other

    def limited_to(self, seconds: float) -> NamespaceClient:
        """Return the same, on the same connections, that tries no request for longer than so many seconds."""
        hurried = copy.copy(self)
        hurried._longest = seconds
        return hurried

    def now(self) -> datetime.datetime:
        """Return the time by the server's clock, the one that Leases are measured by."""
        return datetime.datetime.fromtimestamp(time.time() + self._server.clock_difference, datetime.timezone.utc)

    def get(self, resource: Resource, name: str) -> Object | None:
        """Return an object, None if there is none."""
        return self._found("GET", "get", resource, name)

    def find(self, resource: Resource, **selectors: str) -> list[Object]:
        """Return the objects that match `labelSelector` and `fieldSelector`."""
        return list(self._json("GET", "list", resource, query=selectors)["items"])

    def namespace_is_ending(self) -> bool:
        """Return whether the namespace is being deleted or no longer exists, in which nothing can be created."""
        # To read a namespace is a right of its own, which qcnn-user has not; it may create Services.
        try:
            self._json("POST", "create", SERVICES, query={"dryRun": "All"}, body=_PROBE)
        except RequestRejectedError as error:
            return error.is_final or error.status == NOT_FOUND
        return False

    def create(self, resource: Resource, manifest: Mapping[str, Any]) -> Object | None:
        """Create an object and return it, None if there is one of that name."""
        try:
            return self._json("POST", "create", resource, body=manifest)
        except RequestRejectedError as error:
            if error.status == _CONFLICT:
                return None
            raise

    def apply(self, resource: Resource, manifest: Mapping[str, Any]) -> None:
        """Create an object or bring it to what the manifest says."""
        query = {"fieldManager": "qcnn", "force": "true"}
        name = manifest["metadata"]["name"]
        content = "application/apply-patch+yaml"
        self._json("PATCH", "patch", resource, name, query=query, body=manifest, content=content)

    def delete(self, resource: Resource, name: str, *, uid: str | None = None, dependents_first: bool = False) -> bool:
        """Delete an object, of this uid if one is given, and what it owns; return whether it was there."""
        body: Object = {"propagationPolicy": "Foreground" if dependents_first else "Background"}
        if uid:
            body["preconditions"] = {"uid": uid}
        try:
            return self._found("DELETE", "delete", resource, name, body=body) is not None
        except RequestRejectedError as error:
            if error.status == _CONFLICT:
                # Another object has this name.
                return False
            raise

    def log(self, pod: str, container: str, since: str, *, follow: bool) -> Iterator[tuple[str, str]]:
        """Yield time (RFC 3339) and text of every line of a container's log, from a time on, if one is given.

        Nothing is yielded if the pod no longer exists: its job may delete it at any moment, as when the job has ended.
        """
        query = {"container": container, "timestamps": "true", "follow": "true" if follow else "false"}
        if since:
            query["sinceTime"] = since
        read_seconds = _LOG_SECONDS if follow else _READ_SECONDS
        try:
            response = self._request("GET", "get", PODS, pod, "log", query, read_seconds=read_seconds)
        except RequestRejectedError as error:
            if error.status == NOT_FOUND:
                return
            raise
        for line in self._lines(response):
            time, _, text = line.partition(" ")
            # A line without a time is the kubelet's own message, as that it has removed the container.
            if _TIME.match(time):
                yield time, text

    def watch(self, resource: Resource, **selectors: str) -> Generator[dict[str, Object], None, None]:
        """Yield the matching objects by name, as they are and after each change, for ever.

        A deleted object is yielded once more in its last state. A watch that breaks goes on where it was. Where the
        server has forgotten that place (410), it begins with a new list.
        """
        version, objects = "", dict[str, Object]()
        while True:
            if not version:
                listing = self._json("GET", "list", resource, query=selectors)
                version = listing["metadata"]["resourceVersion"]
                objects = {item["metadata"]["name"]: item for item in listing["items"]}
                yield dict(objects)
            began = time.monotonic()
            with contextlib.closing(self._events(resource, selectors, version)) as events:
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

    def _events(self, resource: Resource, selectors: Mapping[str, str], version: str) -> Generator[Object, None, None]:
        query = {
            **selectors,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(_WATCH_SECONDS),
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
        """Yield the lines of a response; one whose connection breaks ends there, without the rest of its last line."""
        rest = b""
        with contextlib.closing(response), contextlib.suppress(urllib3.exceptions.HTTPError, OSError):
            for chunk in response.stream(None, decode_content=False):
                *lines, rest = (rest + chunk).split(b"\n")
                yield from (line.decode(errors="replace") for line in lines)
            if rest:
                yield rest.decode(errors="replace")

    def _found(
        self, method: str, verb: str, resource: Resource, name: str, body: Mapping[str, Any] | None = None
    ) -> Object | None:
        try:
            return self._json(method, verb, resource, name, body=body)
        except RequestRejectedError as error:
            if error.status == NOT_FOUND:
                return None
            raise

    def _json(
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
    ) -> urllib3.BaseHTTPResponse:
        path = "/".join(
            filter(None, (resource.prefix, "namespaces", self.namespace, resource.plural, name, subresource))
        )
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
                    self._note_answer(error.headers or {})
                if not is_broken(error):
                    self._server.outage = False
                raise
            self._note_answer(response.headers)
            self._server.allowed.add((verb, resource))
            self._server.outage = False
            if not streamed:
                # Read here, so that the request is tried again where its connection breaks in the middle.
                assert isinstance(response.data, bytes)
            return response

        action = f"{verb} {resource.plural}{'/' * bool(subresource)}{subresource}"
        was_allowed = (verb, resource) in self._server.allowed
        patience = RetryPolicy(
            f"{action} in namespace {self.namespace}",
            lambda: self._server.answered,
            was_allowed,
            self._server.report_outage,
            self._longest,
        )
        try:
            return patience.retrying()(once)
        except (ApiException, urllib3.exceptions.HTTPError, OSError) as error:
            if is_broken(error):
                raise RetryableError(f"{UNAVAILABLE} ({why(error)}). Given: {self._host}") from None
            raise rejection(error, action, self.namespace, was_allowed=was_allowed) from None

    def _note_answer(self, headers: Mapping[str, str]) -> None:
        self._server.answered = True
        if date := headers.get("Date"):
            self._server.clock_difference = email.utils.parsedate_to_datetime(date).timestamp() - time.time()

    @property
    def _host(self) -> str:
        return str(self._client.configuration.host)


def _connect() -> kubernetes.client.ApiClient:
    import kubernetes.client

    access = configuration()
    # We retry ourselves: the library's own retries could not be ended at once and would not be logged.
    access.retries = False
    return kubernetes.client.ApiClient(access)
