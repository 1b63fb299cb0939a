"""Kubernetes API server with objects in memory, for tests of launchers.

It supports namespaces, names, labels, fields, versions, watches, owners, preconditions and patches, and validates
TFJobs. It rejects all other requests. tests/qcnn/jobs/test_apiserver.py compares it with a real API server.
"""

import http.server
import itertools
import json
import re
import sys
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path

import yaml

from qcnn.jobs.engines import ENGINES
from qcnn.jobs.kubernetes import api
from qcnn.jobs.kubernetes.inference_service import INFERENCE_SERVICES, KIND
from qcnn.jobs.tfjob.engine import TFJOBS
from qcnn.targets.kubeflow.workflow import WORKFLOWS
from tests.qcnn.jobs import tfjob_admission
from tests.qcnn.jobs.api_objects import Objects
from tests.qcnn.jobs.api_writes import StatusError, applied, merged

Object = api.Object

# Namespace of the kubeconfig's context, and default namespace of tests.
NAMESPACE = "a"
_KINDS = {
    "Pod": api.PODS,
    "Event": api.EVENTS,
    "ServiceAccount": api.SERVICE_ACCOUNTS,
    "Service": api.SERVICES,
    "Deployment": api.DEPLOYMENTS,
    "ReplicaSet": api.REPLICA_SETS,
    "HorizontalPodAutoscaler": api.AUTOSCALERS,
    "PodDisruptionBudget": api.DISRUPTION_BUDGETS,
    KIND: INFERENCE_SERVICES,
    "Lease": api.LEASES,
    "Job": api.JOBS,
    "LocalSubjectAccessReview": api.REVIEWS,
    # Its status is not a subresource.
    "Workflow": WORKFLOWS,
    **{each.name: each.resource for each in ENGINES.values()},
    **{kind: resource for each in ENGINES.values() for kind, resource in each.dependents.items()},
}
# Resources whose creation starts a controller.
_RUN = [each.resource.plural for each in ENGINES.values()]
_REVIEWS = api.REVIEWS.plural
# Resources with a status subresource, which users cannot write.
_WITH_STATUS = ("deployments", "jobs", "pods", "services", *_RUN)
# A DNS-1123 subdomain.
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_PATH = re.compile(
    r"(?P<prefix>.*)/namespaces/(?P<namespace>[^/]+)/(?P<plural>[^/]+)(/(?P<name>[^/]+)(/(?P<subresource>[^/]+))?)?"
)
_GROUP = re.compile(r"/apis/[^/]+/[^/]+")
_MERGE, _APPLY = "application/merge-patch+json", "application/apply-patch+yaml"


class ApiServer:
    """API server of some namespaces, which calls `operator` in a separate thread with each created training job."""

    def __init__(self) -> None:
        self.operator: Callable[[Object], None] = lambda _: None
        self.namespaces = {NAMESPACE, "default"}
        # Namespaces that are being deleted.
        self.ending: set[str] = set()
        self.logs: dict[str, list[str]] = {}
        # Verb and plural of rejected requests, and whether pods may read their Lease.
        self.rejected: set[tuple[str, str]] = set()
        self.allows_pods = True
        # Kinds whose definition does not exist.
        self.uninstalled: set[str] = set()
        # Number of TrainJobs that the webhook of Trainer rejects, because its cache lacks their new TrainingRuntime.
        self.uncached_runtimes = 0
        self.requests: list[tuple[str, str]] = []
        self.objects = Objects()
        # By uid and field manager.
        self.applied: dict[tuple[str, str], Object] = {}
        handler = type("Handler", (_Handler,), {"api": self})
        self._server = _Server(("127.0.0.1", 0), handler)
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def write_kubeconfig(self, path: Path) -> str:
        """Write the kubeconfig of the server, and return the path."""
        named = {
            "clusters": [{"name": "a", "cluster": {"server": f"http://127.0.0.1:{self._server.server_port}"}}],
            "users": [{"name": "a", "user": {"token": "a"}}],
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a", "namespace": NAMESPACE}}],
        }
        path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", "current-context": "a", **named}))
        return str(path)

    def close(self) -> None:
        self.objects.end()
        self._server.shutdown()
        self._server.server_close()

    def get(self, plural: str, name: str) -> Object | None:
        """Return an object in its current version."""
        return self.objects.get(NAMESPACE, plural, name)

    def all(self, plural: str) -> list[Object]:
        """Return all objects of a resource type."""
        return self.objects.all(NAMESPACE, plural)

    def put(self, plural: str, given: Object) -> Object:
        """Create or replace an object with its status, as a controller may."""
        return self.objects.put(NAMESPACE, plural, given)

    @property
    def installed(self) -> dict[str, api.Resource]:
        """Resource types by kind."""
        return {kind: resource for kind, resource in _KINDS.items() if kind not in self.uninstalled}

    def uninstall(self, kind: str) -> None:
        """Remove the definition of a kind."""
        self.uninstalled.add(kind)

    def set_condition(self, job: Object, kind: str, message: str = "") -> None:
        """Set the condition of a training job, as its controller does."""
        condition = {"type": kind, "status": "True", "message": message}
        self.put(_KINDS[job["kind"]].plural, {**job, "status": {"conditions": [condition]}})

    def remove(self, plural: str, name: str) -> None:
        """Delete an object and its dependents."""
        self.objects.remove(NAMESPACE, plural, name)

    def until_watched(self, plural: str, times: int = 1) -> None:
        """Wait until the given number of watches of a resource type were opened."""
        self.objects.until_watched(plural, times)

    def watches(self, plural: str) -> int:
        """Return the number of watches of a resource type that were ever opened."""
        return self.objects.watches(plural)


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: object, client_address: object) -> None:
        """Raise all errors except those of closed connections."""
        if not isinstance(sys.exc_info()[1], OSError):
            raise


class _Handler(http.server.BaseHTTPRequestHandler):
    """Request handler with the responses of the API server."""

    api: ApiServer
    protocol_version = "HTTP/1.1"

    def handle_request(self) -> None:
        url = urllib.parse.urlsplit(self.path)
        self._query = dict(urllib.parse.parse_qsl(url.query))
        self._body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path = _PATH.fullmatch(url.path)
        if resources := [{"name": each.plural} for each in self.api.installed.values() if each.prefix == url.path]:
            self._answer(200, {"kind": "APIResourceList", "resources": resources})
            return
        if _GROUP.fullmatch(url.path):
            self._answer(404, StatusError(404, "NotFound", "404 page not found").status)
            return
        if not path:
            self.send_error(501, "This server supports only namespaced resources")
            return
        self._namespace, self._plural, self._name = (path[each] or "" for each in ("namespace", "plural", "name"))
        methods = {"GET": self._get, "POST": self._post, "PUT": self._put, "PATCH": self._patch, "DELETE": self._delete}
        try:
            self._kind, self._resource = self._find_kind(path["prefix"])
            if path["subresource"] == "log":
                self._log()
            elif path["subresource"]:
                raise StatusError(404, "NotFound", "the server could not find the requested resource")
            elif "watch" in self._query:
                self._allow("watch")
                events = self.api.objects.events(self._namespace, self._plural, self._query)
                self._stream(f"{json.dumps(event)}\n" for event in events)
            else:
                self._answer(*methods[self.command]())
        except StatusError as error:
            self._answer(error.code, error.status)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_request  # noqa: N815

    def _get(self) -> tuple[int, Object]:
        self._allow("get")
        if self._name:
            return 200, self._found()
        return 200, self.api.objects.listing(self._namespace, self._plural, self._query)

    def _post(self) -> tuple[int, Object]:
        given = self._given()
        self._allow("create")
        self._check_namespace(given)
        if self._plural == _REVIEWS:
            return 201, {**given, "status": {"allowed": self.api.allows_pods}}
        if "name" not in given["metadata"] and (start := given["metadata"].get("generateName")):
            given["metadata"]["name"] = f"{start}x7k2p"
        if "dryRun" in self._query:
            return 201, self._admitted(given)
        # The lock serializes concurrent creations.
        with self.api.objects.changed:
            admitted = self._admitted(given)
            if self.api.objects.get(self._namespace, self._plural, name := admitted["metadata"]["name"]):
                raise StatusError(409, "AlreadyExists", f'{self._resource} "{name}" already exists')
            created = self.api.objects.put(self._namespace, self._plural, admitted)
        if self._plural in _RUN:
            threading.Thread(target=self.api.operator, args=(created,), daemon=True).start()
        return 201, created

    def _put(self) -> tuple[int, Object]:
        given = self._given()
        self._allow("update")
        with self.api.objects.changed:
            found = self._found()
            if self._plural == TFJOBS.plural and "resourceVersion" not in given["metadata"]:
                message = "metadata.resourceVersion: Invalid value: 0: must be specified for an update"
                raise self._invalid(self._resource, self._name, message)
            return 200, self._write(found, given)

    def _patch(self) -> tuple[int, Object]:
        content = self.headers.get("Content-Type", "")
        if content not in (_MERGE, _APPLY):
            raise StatusError(415, "UnsupportedMediaType", f"accepted media types include: {_MERGE}, {_APPLY}")
        patch = dict(yaml.safe_load(self._body))
        self._allow("patch")
        with self.api.objects.changed:
            if content == _MERGE:
                found = self._found()
                return 200, self._write(found, merged(found, patch))
            return self._apply(patch)

    def _apply(self, manifest: Object) -> tuple[int, Object]:
        if not (manager := self._query.get("fieldManager")):
            raise self._invalid(
                "PatchOptions.meta.k8s.io", "", "fieldManager: Required value: is required for apply patch"
            )
        if self._query.get("force") != "true":
            raise StatusError(
                501, "NotImplemented", "this server supports no conflicts of field managers: apply by force"
            )
        if not manifest.get("kind"):
            raise StatusError(400, "BadRequest", "invalid object type: /, Kind=")
        if (name := manifest["metadata"]["name"]) != self._name:
            message = f"the name of the object ({name}) does not match the name on the URL ({self._name})"
            raise StatusError(400, "BadRequest", message)
        found = self.api.objects.get(self._namespace, self._plural, name)
        if found is None:
            self._check_namespace(manifest)
            written = self.api.objects.put(self._namespace, self._plural, self._admitted(manifest))
        else:
            before = self.api.applied.get((found["metadata"]["uid"], manager))
            written = self._write(found, applied(found, before, manifest))
        self.api.applied[written["metadata"]["uid"], manager] = manifest
        return 200 if found else 201, written

    def _delete(self) -> tuple[int, Object]:
        options = json.loads(self._body or "{}")
        self._allow("delete")
        found = self._found()
        uid, wanted = found["metadata"]["uid"], options.get("preconditions", {}).get("uid")
        if wanted and uid != wanted:
            raise self._conflict(f"the UID in the precondition ({wanted}) does not match the UID in record ({uid})")
        foreground = options.get("propagationPolicy") == "Foreground"
        self.api.objects.remove(self._namespace, self._plural, self._name, dependents_first=foreground)
        details = {"name": self._name, "kind": self._plural, "uid": uid}
        return 200, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}

    def _log(self) -> None:
        self._allow("get")
        status, container = self._found().get("status", {}), self._query["container"]
        for each in (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())):
            # The log of a container that will be restarted is that of its last process.
            has_log = "terminated" in each.get("lastState", {})
            if each["name"] == container and (waiting := each.get("state", {}).get("waiting")) and not has_log:
                message = f'container "{container}" in pod "{self._name}" is waiting to start: {waiting["reason"]}'
                raise StatusError(400, "BadRequest", message)
        # Logs of a container have the name of the pod, or the names of pod and container.
        texts = self.api.logs.get(f"{self._name}/{container}", self.api.logs.get(self._name, ()))
        printed = list(enumerate(texts))
        if last := self._query.get("tailLines"):
            printed = printed[-int(last) :]
        lines = (f"2026-01-31T12:00:{second:02}.5Z {line}\n" for second, line in printed)
        # The kubelet filters by whole seconds.
        since = self._query.get("sinceTime", "").partition(".")[0]
        self._stream(line for line in lines if line >= since)

    def _find_kind(self, prefix: str) -> tuple[str, str]:
        """Return the kind and plural of the requested resource, with its group, as in messages."""
        group = prefix.removeprefix("/apis/").partition("/")[0] if prefix.startswith("/apis/") else ""
        for kind, resource in self.api.installed.items():
            if (resource.prefix, resource.plural) == (prefix, self._plural):
                return (kind, self._plural) if not group else (f"{kind}.{group}", f"{self._plural}.{group}")
        # A real server sends the first message for an unknown API group.
        unknown = prefix not in {
            resource.prefix for resource in _KINDS.values() if resource not in (TFJOBS, INFERENCE_SERVICES)
        }
        message = "404 page not found" if unknown else "the server could not find the requested resource"
        raise StatusError(404, "NotFound", message)

    def _allow(self, verb: str) -> None:
        self.api.requests.append((verb, self._plural))
        if (verb, self._plural) in self.api.rejected:
            what = f'{self._resource} "{self._name}"' if self._name else self._resource
            message = f'{what} is forbidden: User "a" cannot {verb} resource "{self._plural}"'
            raise StatusError(403, "Forbidden", f'{message} in the namespace "{self._namespace}"')

    def _found(self) -> Object:
        if found := self.api.objects.get(self._namespace, self._plural, self._name):
            return found
        raise StatusError(404, "NotFound", f'{self._resource} "{self._name}" not found')

    def _given(self) -> Object:
        given = dict(json.loads(self._body))
        kind = self._kind.partition(".")[0]
        if given.get("kind", "" if self._plural == TFJOBS.plural else kind) != kind:
            raise StatusError(400, "BadRequest", f"the object provided is unrecognized (must be of type {kind})")
        return given

    def _check_namespace(self, given: Object) -> None:
        """Raise StatusError if the namespace is missing, ending, or not that of the object."""
        if given["metadata"].get("namespace", self._namespace) != self._namespace:
            message = "the namespace of the provided object does not match the namespace sent on the request"
            raise StatusError(400, "BadRequest", message)
        if self._namespace not in self.api.namespaces | self.api.ending:
            raise StatusError(404, "NotFound", f'namespaces "{self._namespace}" not found')
        if self._namespace in self.api.ending:
            ending = f"unable to create new content in namespace {self._namespace} because it is being terminated"
            what = f'{self._resource} "{given["metadata"].get("name", "")}"'
            raise StatusError(403, "Forbidden", f"{what} is forbidden: {ending}")

    def _write(self, found: Object, changed: Object) -> Object:
        """Replace an object, as a user may, unless it has changed since the given version."""
        if changed["metadata"].get("resourceVersion", version := found["metadata"]["resourceVersion"]) != version:
            message = "the object has been modified; please apply your changes to the latest version and try again"
            raise self._conflict(message)
        admitted = self._admitted(changed)
        if "status" in found:
            admitted["status"] = found["status"]
        # Without a change, the version stays the same.
        if admitted == found:
            return found
        return self.api.objects.put(self._namespace, self._plural, admitted)

    def _admitted(self, given: Object) -> Object:
        """Validate an object, and return it as it is stored, without status."""
        name = given["metadata"].get("name")
        if not name:
            raise self._invalid(self._kind, "", "metadata.name: Required value: name or generateName is required")
        if not _NAME.fullmatch(name):
            message = f'metadata.name: Invalid value: "{name}": a lowercase RFC 1123 subdomain must consist of'
            raise self._invalid(self._kind, name, f"{message} lower case alphanumeric characters, '-' or '.'")
        admitted = {key: value for key, value in given.items() if key != "status" or self._plural not in _WITH_STATUS}
        if self._plural == "trainjobs" and self.api.uncached_runtimes:
            self.api.uncached_runtimes -= 1
            message = f"runtime '{given['spec']['runtimeRef']['name']}' not found"
            raise StatusError(400, "BadRequest", f'admission webhook "vtrainjob.kb.io" denied the request: {message}')
        if self._plural != TFJOBS.plural:
            return admitted
        if found := list(tfjob_admission.problems(admitted)):
            raise self._invalid(self._kind, name, ", ".join(found))
        if denied := tfjob_admission.denied(admitted):
            webhook = 'admission webhook "validator.tfjob.training-operator.kubeflow.org" denied the request'
            raise StatusError(403, "Forbidden", f"{webhook}: {denied}")
        return dict(tfjob_admission.pruned(admitted))

    def _invalid(self, kind: str, name: str, message: str) -> StatusError:
        return StatusError(422, "Invalid", f'{kind} "{name}" is invalid: {message}')

    def _conflict(self, message: str) -> StatusError:
        what = f'{self._resource} "{self._name}"'
        return StatusError(409, "Conflict", f"Operation cannot be fulfilled on {what}: {message}")

    def _answer(self, status: int, content: Object) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, lines: Iterator[str]) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            for line in itertools.chain(lines, [""]):
                chunk = line.encode()
                self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
        except OSError:
            # The client has closed the connection.
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        pass
