"""Local KFP backend that stores requests and rejects fields that the published API types do not have.

It does not execute runs: tests set their states. tests/test_kfp_backend.py compares it with the backend at KFP_HOST.
"""

import contextlib
import http.server
import json
import re
import struct
import threading
import urllib.parse
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import kfp_server_api

Object = dict[str, Any]

# Image of submitted pipelines, pinned so that commands print no notice.
IMAGE = f"registry/qcnn@sha256:{64 * '1'}"

_COLLECTIONS = {
    "experiments": ("V2beta1Experiment", "experiment_id"),
    "runs": ("V2beta1Run", "run_id"),
    "recurringruns": ("V2beta1RecurringRun", "recurring_run_id"),
}
_METADATA = "/ml_metadata.MetadataStoreService/"
_ACTIONS = {
    "terminate": {"state": "CANCELING"},
    "enable": {"status": "ENABLED"},
    "disable": {"status": "DISABLED"},
}
# The UI may be below a prefix, as in a Kubeflow dashboard.
_INTERFACE_PATHS = ("/", "/pipeline/")
_INTERFACE = "<!doctype html><title>Kubeflow Pipelines</title>"
# gRPC-web frame header: flags, length.
_FRAME = struct.Struct(">BI")
_LISTS = {"experiments": "experiments", "runs": "runs", "recurringruns": "recurringRuns"}
_PLAIN: dict[str, type] = {"str": str, "bool": bool, "int": int, "object": object, "datetime": str}
# Types of parameter values as in the API server, backend/src/apiserver/template/v2_template.go.
_PARAMETERS: dict[str, type | tuple[type, ...]] = {
    "NUMBER_INTEGER": int,
    "NUMBER_DOUBLE": (int, float),
    "BOOLEAN": bool,
    "STRING": str,
    "STRUCT": dict,
    "LIST": list,
}


def check(value: Any, kind: str) -> None:
    """Raise an error if a value does not match the published type."""
    if found := re.fullmatch(r"list\[(.*)\]", kind):
        for item in value:
            check(item, found[1])
    elif found := re.fullmatch(r"dict\(str, (.*)\)", kind):
        for item in value.values():
            check(item, found[1])
    elif kind in _PLAIN:
        assert isinstance(value, _PLAIN[kind]), f"{kind}: {value!r}"
    else:
        model = getattr(kfp_server_api, kind)
        if not isinstance(value, dict):
            assert value in model.allowable_values, f"{kind}: {value!r}"
            return
        types = {key: model.openapi_types[name] for name, key in model.attribute_map.items()}
        assert value.keys() <= types.keys(), f"{kind}: {value.keys() - types.keys()}"
        for key, item in value.items():
            check(item, types[key])


def spec_of(run: Object) -> Object:
    """Return the pipeline spec of a submitted run, without the Kubernetes platform spec."""
    spec = run["pipeline_spec"]
    return dict(spec.get("pipeline_spec", spec))


def check_parameters(run: Object) -> None:
    """Raise an error if a parameter of a run is unknown, of another type, or required and missing."""
    known, given = spec_of(run)["root"]["inputDefinitions"]["parameters"], run["runtime_config"]["parameters"]
    for name, value in given.items():
        kind = known[name]["parameterType"]
        # bool is a subclass of int.
        fits = isinstance(value, _PARAMETERS[kind]) and (kind == "BOOLEAN" or not isinstance(value, bool))
        assert fits, f"{name}: expect {kind}, got {value!r}"
    for name, parameter in known.items():
        needed = name not in given and not parameter.get("isOptional") and "defaultValue" not in parameter
        assert not needed, f"parameter {name} is not optional, yet has neither default value nor user provided value"


class FakeBackend:
    """Stored objects by collection and ID. Calls `on_get` with a run before it is returned."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Object]] = {name: {} for name in _COLLECTIONS}
        self.headers: list[dict[str, str]] = []
        self.calls: list[str] = []
        # Status and body for requests to paths with this prefix.
        self.answers: dict[str, tuple[int, str]] = {}
        self.host = ""
        # Whether the host also serves the web interface, as KFP's UI server does and its API server does not.
        self.has_interface = True
        # Maps a method and a request to a response, if the server includes a metadata store.
        self.metadata: Callable[[str, bytes], bytes] | None = None

    def on_get(self, run: Object) -> None:
        """Update a run. Tests replace this method."""

    def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> tuple[int, str]:
        """Return the status and body of the response to a request.

        Args:
            method: HTTP method.
            path: Path below /apis/v2beta1/.
            query: Query parameters.
            body: JSON body, or None.
        """
        self.calls.append(f"{method} {path}")
        for start, answer in self.answers.items():
            if path.startswith(start):
                return answer
        if path == "healthz":
            return 200, '{"multi_user": false}'
        collection, _, rest = path.partition("/")
        identity, _, action = rest.partition(":")
        kind, key = _COLLECTIONS[collection]
        objects = self.objects[collection]
        if method == "POST" and not identity:
            check(body, kind)
            if "runtime_config" in body:
                check_parameters(body)
            body[key] = str(uuid.uuid4())
            if "mode" in body:
                body.update(_ACTIONS[body["mode"].lower()])
            objects[body[key]] = body
            return 200, json.dumps(body)
        if not identity:
            wanted = json.loads(query["filter"])["predicates"] if query.get("filter") else []
            found = [
                item
                for item in objects.values()
                if all(item[one["key"]] == one["stringValue"] for one in wanted)
                and query.get("experiment_id", item.get("experiment_id")) == item.get("experiment_id")
            ]
            return 200, json.dumps({_LISTS[collection]: found})
        if identity not in objects:
            return 404, json.dumps({"code": 5, "message": f"{collection} {identity} not found."})
        if method == "DELETE":
            del objects[identity]
        elif action:
            objects[identity].update(_ACTIONS[action])
        elif collection == "runs":
            self.on_get(objects[identity])
        return 200, json.dumps(objects.get(identity, {}) if method == "GET" else {})


@contextlib.contextmanager
def fake_backend() -> Iterator[FakeBackend]:
    """Context manager that runs a backend server."""
    backend = FakeBackend()

    class Handler(http.server.BaseHTTPRequestHandler):
        def handle_request(self) -> None:
            parts = urllib.parse.urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if parts.path in _INTERFACE_PATHS:
                self._show_interface()
                return
            backend.headers.append(dict(self.headers))
            if backend.metadata and parts.path.startswith(_METADATA):
                message = backend.metadata(parts.path.removeprefix(_METADATA), body[_FRAME.size :])
                trailer = b"grpc-status:0\r\n"
                self.send_response(200)
                self.send_header("Content-Type", "application/grpc-web+proto")
                self.end_headers()
                self.wfile.write(_FRAME.pack(0, len(message)) + message + _FRAME.pack(0x80, len(trailer)) + trailer)
                return
            path = parts.path.removeprefix("/apis/v2beta1/")
            try:
                query = dict(urllib.parse.parse_qsl(parts.query))
                status, text = backend.answer(self.command, path, query, json.loads(body) if body else None)
            except (AssertionError, KeyError, ValueError) as error:
                status, text = 400, json.dumps({"code": 3, "message": f"{type(error).__name__} {error}"})
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

        def _show_interface(self) -> None:
            kind, text = ("text/html", _INTERFACE) if backend.has_interface else ("text/plain", "404 page not found\n")
            self.send_response(200 if backend.has_interface else 404)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.end_headers()
            self.wfile.write(text.encode())

        do_GET = do_POST = do_DELETE = handle_request  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        backend.host = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield backend
        server.shutdown()
        thread.join()
