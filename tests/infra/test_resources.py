"""Table of resources: order, roles, and agreement with the manifests of deploy/."""

import json
import re
from collections.abc import Iterator

import pytest
import yaml

from infra.__main__ import resources
from infra.commands import Argv, InfraResource
from infra.google import CLUSTER, account_name, email
from infra.kubernetes import IDENTITIES
from infra.settings import InfraSettings
from tests.docs.documents import DOCUMENTS
from tests.infra.conftest import ROOT

Table = tuple[InfraResource, ...]


def _commands(table: Table) -> Iterator[Argv]:
    for resource in table:
        yield from (resource.describe, *resource.create, *resource.delete)


def test_resources_follow_their_parents(table: Table) -> None:
    names = [resource.name for resource in table]
    assert len({*names}) == len(names)
    for number, resource in enumerate(table):
        assert not resource.parent or resource.parent in names[:number]


def test_resources_are_deletable_or_retained(table: Table) -> None:
    for resource in table:
        assert resource.delete or resource.parent or resource.retained, resource.name
        assert resource.expected, resource.name


def test_kubectl_commands_have_the_cluster_context(table: Table) -> None:
    of_kubectl = [argv for argv in _commands(table) if argv[0] == "kubectl"]
    assert {argv[1] for argv in of_kubectl} == {"--context=gke_my-project_us-central1-a_qcnn"}
    for resource in table:
        if resource.describe[0] == "kubectl":
            assert resource.parent == CLUSTER
            # An error then never means that an object is missing.
            assert "--ignore-not-found" in resource.describe


def test_gpu_nodes_exist_with_accelerator_only(table: Table, with_gpus: InfraSettings) -> None:
    more = resources(with_gpus)
    (added,) = [resource for resource in more if resource not in table]
    assert len(more) == len(table) + 1
    assert (added.name, added.parent, added.expected) == ("GPU nodes", CLUSTER, ("training-gpu",))
    assert added.description == "0 to 3 Spot nodes g2-standard-8 with 2 nvidia-l4, autoscaled"
    (argv,) = added.create
    assert argv[:5] == ("gcloud", "container", "node-pools", "create", "training-gpu")


def test_gcloud_commands_have_the_project(table: Table) -> None:
    for argv in _commands(table):
        assert argv[0] == "kubectl" or argv[-1] == "--project=my-project"


def test_roles_are_least_privilege(table: Table, settings: InfraSettings) -> None:
    bound = {word for resource in table for word in resource.expected if word.startswith("roles/")}
    roles = {word.split("=")[0].removeprefix("roles/") for word in bound}
    assert roles == {
        *(
            "container.defaultNodeServiceAccount",
            "artifactregistry.reader",
            "storage.objectUser",
            "storage.objectViewer",
        ),
        *("aiplatform.user", "logging.viewer", "iam.serviceAccountUser", "iam.workloadIdentityUser"),
    }
    members = tuple(
        f"--member=serviceAccount:{account}@"
        for account in (settings.service_account_name, settings.viewer_account_name)
    )
    of_bucket = [argv for argv in _commands(table) if any(word.startswith(members) for word in argv)]
    # These accounts have roles on the bucket only.
    assert {argv[1:5] for argv in of_bucket} == {
        ("storage", "buckets", f"{verb}-iam-policy-binding", "gs://my-project-qcnn") for verb in ("add", "remove")
    }


@pytest.mark.parametrize("files", [("rbac", "kubeflow"), ("network",)])
def test_expected_objects_are_those_of_the_manifests(files: tuple[str, ...], table: Table) -> None:
    texts = [(ROOT / "deploy" / f"{name}.yaml").read_text() for name in files]
    manifest_objects = {
        f"{kind['kind'].lower()}/{kind['metadata']['name']}" for text in texts for kind in yaml.safe_load_all(text)
    }
    (resource,) = [r for r in table if f"deploy/{files[0]}.yaml" in r.describe]
    expected_objects = {
        f"{kind.split('.')[0]}/{name}" for kind, name in (word.split("/") for word in resource.expected)
    }
    assert expected_objects == manifest_objects
    for name in files:
        assert f"deploy/{name}.yaml" in resource.create[0]


def test_lifecycle_keeps_live_objects() -> None:
    rules = json.loads((ROOT / "infra" / "lifecycle.json").read_text())["rule"]
    for rule in rules:
        assert rule["action"]["type"] == "AbortIncompleteMultipartUpload" or rule["condition"]["isLive"] is False


# Names of service accounts in the documents: in a sentence, a setting, a flag or an email address.
_NAMED = (
    r"service accounts? `([a-z][a-z-]+)`",
    r"service accounts? ([a-z]+-[a-z-]+) ",
    r"service accounts [a-z-]+ and ([a-z-]+)",
    r"service_account: `?([a-z][a-z-]+)",
    r"--service-?account[ =]([a-z][a-z-]+)",
    r"\b([a-z][a-z-]+)@[A-Za-z-]+\.iam\.gserviceaccount\.com",
    r"service/(ml-pipeline-ui)\b",
)
# Example names of the user's accounts.
_OWN = {"trainer"}


def _accounts_in_manifests() -> Iterator[str]:
    for path in (ROOT / "deploy").glob("*.yaml"):
        for each in yaml.safe_load_all(path.read_text()):
            subjects = each.get("subjects") or ()
            yield from (subject["name"] for subject in subjects if subject["kind"] == "ServiceAccount")
            if each["kind"] == "ServiceAccount":
                yield each["metadata"]["name"]


def test_documented_accounts_have_their_bucket_roles(table: Table, settings: InfraSettings) -> None:
    rows = re.findall(
        r"^\| `([a-z-]+)` \| [^|]+ \| (reads|reads and writes) \|$",
        (ROOT / "docs" / "storage.md").read_text(),
        re.MULTILINE,
    )
    rights = dict(rows)
    assert len(rights) == len(rows)
    files = [*DOCUMENTS, *ROOT.glob("deploy/*.yaml"), *ROOT.glob("examples/*.yaml"), *ROOT.glob("examples/*/*.yaml")]
    named = {name for path in files for form in _NAMED for name in re.findall(form, path.read_text())}
    named |= {*_accounts_in_manifests(), *IDENTITIES}
    assert named - _OWN == rights.keys()

    # The created bindings give each Kubernetes service account the documented role only.
    roles = {"reads": "storage.objectViewer", "reads and writes": "storage.objectUser"}
    words = {word for resource in table for word in resource.expected}
    for account, owner in IDENTITIES.items():
        address = email(settings, account_name(settings, owner))
        given = {role for role in roles.values() if f"roles/{role}=serviceAccount:{address}" in words}
        assert given == {roles[rights[account]]}, account
        assert any(f"[kubeflow/{account}]" in word for word in words), account
    # default-editor belongs to multi-user Kubeflow, which is not installed. qcnn-launcher is an account of Vertex AI.
    assert rights.keys() - IDENTITIES.keys() == {"default-editor", "qcnn-launcher"}
    launcher = email(settings, settings.launcher_account_name)
    assert f"roles/{roles[rights['qcnn-launcher']]}=serviceAccount:{launcher}" in words
