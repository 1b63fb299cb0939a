"""Fake of Google Cloud for gcloud and kubectl, with its state in a file; run by the programs of these names on PATH.

An unknown command is an error. The errors for missing resources are those of gcloud 528, which
tests/infra/test_gcloud.py checks.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

# Objects in the manifests, as far as infra describes them.
_MANIFEST_OBJECTS = {
    "training-operator": (
        "customresourcedefinition.apiextensions.k8s.io/tfjobs.kubeflow.org",
        "deployment.apps/training-operator",
        "validatingwebhookconfiguration.admissionregistration.k8s.io/validator.training-operator.kubeflow.org",
    ),
    "cluster-scoped-resources": (
        "customresourcedefinition.apiextensions.k8s.io/applications.app.k8s.io",
        "customresourcedefinition.apiextensions.k8s.io/workflows.argoproj.io",
        "configmap/kfp-cluster-scoped-params",
    ),
    "platform-agnostic": (
        "serviceaccount/pipeline-runner",
        "deployment.apps/ml-pipeline",
        "deployment.apps/workflow-controller",
        "networkpolicy.networking.k8s.io/seaweedfs",
    ),
    "deploy/rbac.yaml": (
        "serviceaccount/qcnn-launcher",
        "serviceaccount/qcnn-worker",
        "serviceaccount/qcnn-tensorboard",
        "serviceaccount/qcnn-server",
        *(f"role.rbac.authorization.k8s.io/qcnn-{who}" for who in ("launcher", "worker", "user")),
        *(f"rolebinding.rbac.authorization.k8s.io/qcnn-{who}" for who in ("launcher", "worker")),
    ),
    "deploy/kubeflow.yaml": ("rolebinding.rbac.authorization.k8s.io/qcnn-launcher-steps",),
    "deploy/network.yaml": ("networkpolicy.networking.k8s.io/qcnn-trainings",),
}


class UnknownError(Exception):
    """Unknown command."""


class FakeCloud:
    """Resources by type and name, stored as JSON in a file."""

    def __init__(self, file: Path) -> None:
        self._file = file
        empty: dict[str, Any] = {"things": {}, "members": [], "created": [], "deleted": [], "errors": {}}
        self.state = json.loads(file.read_text()) if file.exists() else empty

    def save(self) -> None:
        self._file.write_text(json.dumps(self.state))

    def answer(self, argv: Sequence[str]) -> tuple[int, str, str]:
        """Run a command and return its exit code, stdout and stderr."""
        line = " ".join(argv)
        for part, message in self.state["errors"].items():
            if part in line:
                return 1, "", message
        program, *words = argv
        flags = {name: value for name, _, value in (word.partition("=") for word in words if word.startswith("--"))}
        plain = [word for word in words if not word.startswith("--")]
        return self._gcloud(plain, flags) if program == "gcloud" else self._kubectl(plain, words)

    @property
    def things(self) -> dict[str, Any]:
        things: dict[str, Any] = self.state["things"]
        return things

    def _gcloud(self, words: list[str], flags: dict[str, str]) -> tuple[int, str, str]:
        match words:
            case ["projects", "describe", project]:
                return 0, project, ""
            case ["services", "list"]:
                return 0, "\n".join(self.things.get("services", [])), ""
            case ["services", "enable", *names]:
                self.things["services"] = names
                return self._done("created", "services")
            case ["artifacts", "repositories", verb, name]:
                return self._thing(words[:3], verb, name, "DOCKER", "NOT_FOUND: Requested entity was not found.", flags)
            case ["storage", "buckets", "update", url]:
                self.things[url]["lifecycle"] = "AbortIncompleteMultipartUpload;Delete"
                return self._done("created", "lifecycle")
            case ["storage", "buckets", verb, url]:
                shown = url.removeprefix("gs://")
                if "lifecycle" in flags.get("--format", "") and url in self.things:
                    return 0, self.things[url].get("lifecycle", ""), ""
                return self._thing(words[:3], verb, url, shown, f"{url} not found: 404.", flags)
            case ["storage", "rm", url]:
                return self._thing(words[:2], "delete", url, url, f"{url} not found: 404.", flags)
            case ["iam", "service-accounts", "create", name]:
                address = f"{name}@{flags['--project']}.iam.gserviceaccount.com"
                return self._thing(words[:3], "create", address, address, "", flags)
            case ["iam", "service-accounts", verb, name]:
                return self._thing(words[:3], verb, name, name, f"NOT_FOUND: Unknown service account {name}.", flags)
            case ["projects", verb, name]:
                self.things.setdefault(name, {})
                return self._thing(words[:2], verb, name, name, "", flags)
            case ["container", "clusters", "get-credentials", name]:
                return (0, "", "") if f"cluster {name}" in self.things else (1, "", "ERROR: no cluster")
            case ["container", "clusters" | "node-pools" as kind, verb, name]:
                if verb == "delete":
                    self._empty_cluster()
                absent = "ResponseError: code=404, message=Not found."
                return self._thing(words[:3], verb, f"{kind[:-1]} {name}", f"{name}\tRUNNING", absent, flags)
        raise UnknownError(words)

    def _thing(
        self, words: Sequence[str], verb: str, name: str, shown: str, absent: str, flags: dict[str, str]
    ) -> tuple[int, str, str]:
        member = [name, flags.get("--role"), flags.get("--member")]
        if verb == "create":
            if name in self.things:
                return 1, "", f"ERROR: ({'.'.join(['gcloud', *words])}) ALREADY_EXISTS: {name}"
            self.things[name] = {}
            return self._done("created", name)
        if name not in self.things:
            return 1, "", f"ERROR: ({'.'.join(['gcloud', *words])}) {absent}"
        match verb:
            case "describe":
                return 0, shown, ""
            case "delete":
                del self.things[name]
                self.state["members"] = [each for each in self.state["members"] if each[0] != name]
                return self._done("deleted", name)
            case "get-iam-policy":
                return 0, "\n".join(f"{role}={who}" for of, role, who in self.state["members"] if of == name), ""
            case "add-iam-policy-binding":
                self.state["members"].append(member)
                return self._done("created", " ".join(map(str, member)))
            case "remove-iam-policy-binding":
                self.state["members"].remove(member)
                return self._done("deleted", " ".join(map(str, member)))
        raise UnknownError(words, verb)

    def _kubectl(self, words: list[str], all_words: Sequence[str]) -> tuple[int, str, str]:
        if not any(name.startswith("cluster ") for name in self.things):
            return 1, "", "error: context was not found for specified context"
        if not all_words[0].startswith("--context="):
            raise UnknownError(all_words)
        objects = self.things.setdefault("objects", {})
        match words:
            case ["get", "serviceaccount", name]:
                return 0, objects.get(f"serviceaccount/{name}", ""), ""
            case ["get", *names]:
                of_files = [each for name in names if name in _MANIFEST_OBJECTS for each in _MANIFEST_OBJECTS[name]]
                return 0, "\n".join(name for name in (*names, *of_files) if name in objects), ""
            case ["create", "namespace", name]:
                objects[f"namespace/{name}"] = ""
            case ["apply", *names]:
                for part, created in _MANIFEST_OBJECTS.items():
                    if any(part in name for name in names):
                        objects.update({name: objects.get(name, "") for name in created})
            case ["annotate", "serviceaccount", name, annotation]:
                objects[f"serviceaccount/{name}"] = annotation.partition("=")[2]
            case ["delete", "namespace", _]:
                objects.clear()
                return self._done("deleted", "namespace")
            case ["wait", *_]:
                return 0, "", ""
            case _:
                raise UnknownError(words)
        return self._done("created", " ".join(words))

    def _empty_cluster(self) -> None:
        """Delete the contents of the cluster."""
        self.things.pop("objects", None)
        self.things.pop("node-pool training", None)

    def _done(self, how: str, name: str) -> tuple[int, str, str]:
        self.state[how].append(name)
        return 0, "", ""


if __name__ == "__main__":
    cloud = FakeCloud(Path(sys.argv[1]))
    code, output, errors = cloud.answer([Path(sys.argv[2]).name, *sys.argv[3:]])
    cloud.save()
    sys.stdout.write(output)
    sys.stderr.write(errors)
    sys.exit(code)
