"""An API server that keeps objects in memory, for what launchers do with it; tests/cluster has a real one.

It knows names, labels, fields, versions, watches, owners and preconditions, and nothing of what an object means.
"""

import collections
import copy
import http.server
import itertools
import json
import sys
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

Object = dict[str, Any]

_TIME = "2026-01-31T12:00:00Z"


class ApiServer:
    """One namespace; `operator` is called in a thread of its own with each TFJob that is created."""

    def __init__(self) -> None:
        self.operator: Callable[[Object], None] = lambda _: None
        self.logs: dict[str, list[str]] = {}
        # Plural and verb of what is refused, and whether pods may read their Lease.
        self.refused: set[tuple[str, str]] = set()
        self.allows_pods = True
        self.namespace_is_ending = False
        self.requests: list[tuple[str, str]] = []
        self._objects: dict[str, dict[str, Object]] = collections.defaultdict(dict)
        self._changes: list[tuple[str, str, Object]] = []
        self._watched: collections.Counter[str] = collections.Counter()
        self._changed = threading.Condition()
        self._uids = itertools.count()
        self._ended = False
        handler = type("Handler", (_Handler,), {"api": self})
        self._server = _Server(("127.0.0.1", 0), handler)
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def write_kubeconfig(self, path: Path) -> str:
        """Write how the server is reached, and return the path."""
        named = {
            "clusters": [{"name": "a", "cluster": {"server": f"http://127.0.0.1:{self._server.server_port}"}}],
            "users": [{"name": "a", "user": {"token": "a"}}],
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        }
        path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", "current-context": "a", **named}))
        return str(path)

    def close(self) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        self._server.shutdown()
        self._server.server_close()

    def get(self, plural: str, name: str) -> Object | None:
        """Return an object as it is now."""
        with self._changed:
            return copy.deepcopy(self._objects[plural].get(name))

    def all(self, plural: str) -> list[Object]:
        """Return all objects of a kind."""
        with self._changed:
            return copy.deepcopy(list(self._objects[plural].values()))

    def put(self, plural: str, given: Object) -> Object:
        """Create an object, or write it anew."""
        with self._changed:
            metadata = {"namespace": "a", "labels": {}, **given["metadata"]}
            known = self._objects[plural].get(metadata["name"])
            metadata["uid"] = known["metadata"]["uid"] if known else f"uid-{next(self._uids)}"
            metadata["creationTimestamp"] = _TIME
            # It counts the changes of what is asked for.
            changed = known is None or known.get("spec") != given.get("spec")
            metadata["generation"] = (known["metadata"]["generation"] if known else 0) + changed
            self._change(plural, "MODIFIED" if known else "ADDED", {**copy.deepcopy(given), "metadata": metadata})
            return copy.deepcopy(self._objects[plural][metadata["name"]])

    def set_condition(self, job: Object, kind: str, message: str = "") -> None:
        """Say of a TFJob what the operator would."""
        condition = {"type": kind, "status": "True", "message": message}
        self.put("tfjobs", {**job, "status": {"conditions": [condition]}})

    def remove(self, plural: str, name: str) -> None:
        """Delete an object and what it owns."""
        with self._changed:
            if gone := self._objects[plural].get(name):
                self._change(plural, "DELETED", gone)
                uid = gone["metadata"]["uid"]
                for other, found in [
                    (other, found) for other, objects in self._objects.items() for found in objects.values()
                ]:
                    if any(owner["uid"] == uid for owner in found["metadata"].get("ownerReferences", ())):
                        self.remove(other, found["metadata"]["name"])

    def until_watched(self, plural: str, times: int = 1) -> None:
        """Wait until so many watches of a kind were opened."""
        with self._changed:
            self._changed.wait_for(lambda: self._watched[plural] >= times or self._ended)

    def watches(self, plural: str) -> int:
        """Return how many watches of a kind were ever opened."""
        return self._watched[plural]

    def listing(self, plural: str, query: dict[str, str]) -> Object:
        """Return a list of objects."""
        with self._changed:
            found = [each for each in self._objects[plural].values() if _matches(each, query)]
            return copy.deepcopy({"metadata": {"resourceVersion": str(len(self._changes))}, "items": found})

    def changes(self, plural: str, query: dict[str, str]) -> Iterator[Object]:
        """Yield what changes from a version on, until the server ends."""
        seen = int(query["resourceVersion"])
        with self._changed:
            self._watched[plural] += 1
            self._changed.notify_all()
        while True:
            with self._changed:
                while len(self._changes) == seen and not self._ended:
                    self._changed.wait()
                new = self._changes[seen:]
                seen += len(new)
            for changed, kind, found in new:
                if changed == plural and _matches(found, query):
                    yield {"type": kind, "object": found}
            if self._ended:
                # Who watches for nothing any more finds out at the next change.
                yield {"type": "MODIFIED", "object": {"metadata": {"name": "end", "resourceVersion": str(seen)}}}
                return

    def _change(self, plural: str, kind: str, found: Object) -> None:
        found["metadata"]["resourceVersion"] = str(len(self._changes) + 1)
        if kind == "DELETED":
            del self._objects[plural][found["metadata"]["name"]]
        else:
            self._objects[plural][found["metadata"]["name"]] = found
        self._changes.append((plural, kind, copy.deepcopy(found)))
        self._changed.notify_all()


def _matches(found: Object, query: dict[str, str]) -> bool:
    labels = [pair.split("=", 1) for pair in query.get("labelSelector", "").split(",") if pair]
    fields = [pair.split("=", 1) for pair in query.get("fieldSelector", "").split(",") if pair]
    return all(found["metadata"]["labels"].get(key) == value for key, value in labels) and all(
        _field(found, path) == value for path, value in fields
    )


def _field(found: Object, path: str) -> Any:
    value: Any = found
    for key in path.split("."):
        value = value.get(key, {})
    return value


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: object, client_address: object) -> None:
        """Fail as every error does, but for a client that is gone."""
        if not isinstance(sys.exc_info()[1], OSError):
            raise


class _Handler(http.server.BaseHTTPRequestHandler):
    """Answers as the API server does, as far as launchers ask."""

    api: ApiServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        plural, name, rest, query = self._asked()
        if rest == "log":
            printed = enumerate(self.api.logs.get(name, ()))
            lines = (f"2026-01-31T12:00:{second:02}.5Z {line}\n" for second, line in printed)
            # From a whole second on, as the kubelet does.
            since = query.get("sinceTime", "").partition(".")[0]
            self._stream(line for line in lines if line >= since)
        elif self._is_refused("watch" if "watch" in query else "get", plural):
            return
        elif "watch" in query:
            self._stream(f"{json.dumps(change)}\n" for change in self.api.changes(plural, query))
        elif not name:
            self._answer(200, self.api.listing(plural, query))
        else:
            self._answer_found(self.api.get(plural, name))

    def do_POST(self) -> None:
        plural, _, _, query = self._asked()
        given = self._body()
        if self._is_refused("create", plural):
            return
        if self.api.namespace_is_ending:
            message = "unable to create new content in namespace a because it is being terminated"
            self._answer(403, {"message": message})
        elif "dryRun" in query:
            self._answer(201, given)
        elif plural == "localsubjectaccessreviews":
            self._answer(201, {"status": {"allowed": self.api.allows_pods}})
        elif self.api.get(plural, given["metadata"]["name"]):
            self._answer(409, {"message": "already exists"})
        else:
            created = self.api.put(plural, given)
            self._answer(201, created)
            if plural == "tfjobs":
                threading.Thread(target=self.api.operator, args=(created,), daemon=True).start()

    def do_PATCH(self) -> None:
        plural, _, _, _ = self._asked()
        given = self._body()
        if not self._is_refused("patch", plural):
            self._answer(200, self.api.put(plural, given))

    def do_DELETE(self) -> None:
        plural, name, _, _ = self._asked()
        wanted = self._body().get("preconditions", {}).get("uid")
        found = self.api.get(plural, name)
        if self._is_refused("delete", plural):
            return
        if found and wanted and found["metadata"]["uid"] != wanted:
            self._answer(409, {"message": "the UID in the precondition does not match"})
            return
        self.api.remove(plural, name)
        self._answer_found(found)

    def _asked(self) -> tuple[str, str, str, dict[str, str]]:
        """Return plural, name, subresource and query of a request."""
        url = urllib.parse.urlsplit(self.path)
        plural, name, rest, *_ = [*url.path.partition("/namespaces/")[2].split("/")[1:], "", ""]
        return plural, name, rest, dict(urllib.parse.parse_qsl(url.query))

    def _body(self) -> Object:
        return dict(json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or "{}"))

    def _is_refused(self, verb: str, plural: str) -> bool:
        self.api.requests.append((verb, plural))
        refused = (verb, plural) in self.api.refused
        if refused:
            message = f'{plural} is forbidden: User "a" cannot {verb} resource "{plural}"'
            self._answer(403, {"message": message})
        return refused

    def _answer_found(self, found: Object | None) -> None:
        self._answer(200 if found else 404, found or {"message": "not found"})

    def _answer(self, status: int, content: Object) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
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
            # Nobody reads it any more.
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        pass
