"""Fixtures: a new namespace on the cluster of KUBECONFIG, and launchers with the permissions of deploy/."""

import contextlib
import os
import secrets
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import kubernetes.client
import kubernetes.config
import kubernetes.utils
import pytest
import yaml

from qcnn.jobs.kubernetes.api import NamespaceClient
from qcnn.jobs.kubernetes.engine import Engine
from qcnn.jobs.tfjob.engine import TFJOB
from tests.buckets import new_bucket
from tests.cluster.launchers import Launchers
from tests.cluster.programs import Qcnn
from tests.cluster.proxy import Proxy

DEPLOY = Path(__file__).parents[2] / "deploy"
# Pod security standard of the namespace.
_RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
# Timeout of a test in seconds. The machine may be busy with other work.
_SECONDS = 600


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.cluster)
            # A signal, so that the namespace is deleted.
            item.add_marker(pytest.mark.timeout(_SECONDS, method="signal"))


@pytest.fixture(autouse=True)
def _forked(forks: None) -> None:
    """Fork commands and launchers, because each would import libraries for seconds."""


@contextlib.contextmanager
def new_namespace() -> Iterator[str]:
    """Create a namespace with the objects of deploy/, and delete it afterwards.

    Yields:
        The name of the namespace.
    """
    if not os.environ.get("KUBECONFIG"):
        pytest.skip("KUBECONFIG is not set: no cluster")
    kubernetes.config.load_kube_config()
    core = kubernetes.client.CoreV1Api()
    name = f"qcnn-test-{secrets.token_hex(4)}"
    core.create_namespace({"metadata": {"name": name, "labels": _RESTRICTED}})
    try:
        client = kubernetes.client.ApiClient()
        for file in ("rbac.yaml", "network.yaml"):
            for manifest in yaml.safe_load_all((DEPLOY / file).read_text()):
                kubernetes.utils.create_from_dict(client, manifest, namespace=name)
        yield name
    finally:
        with contextlib.suppress(kubernetes.client.ApiException):
            core.delete_namespace(name)


@pytest.fixture(scope="session")
def namespace() -> Iterator[str]:
    with new_namespace() as name:
        yield name


def _token(namespace: str, account: str) -> str:
    """Return a token of a service account."""
    request = {"spec": {"expirationSeconds": 7200}}
    core = kubernetes.client.CoreV1Api()
    return str(core.create_namespaced_service_account_token(account, namespace, request).status.token)


@pytest.fixture(scope="session")
def token(namespace: str) -> str:
    return _token(namespace, "qcnn-launcher")


@pytest.fixture(scope="session")
def user_token(namespace: str) -> str:
    """Token of a service account with role qcnn-user."""
    name = "qcnn-user"
    kubernetes.client.CoreV1Api().create_namespaced_service_account(namespace, {"metadata": {"name": name}})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
    subjects = [{"kind": "ServiceAccount", "name": name}]
    binding = {"metadata": {"name": name}, "roleRef": role, "subjects": subjects}
    kubernetes.client.RbacAuthorizationV1Api().create_namespaced_role_binding(namespace, binding)
    return _token(namespace, name)


@pytest.fixture(scope="session")
def accounts(namespace: str, token: str, user_token: str) -> dict[str, kubernetes.client.ApiClient]:
    """API clients by role, each with the permissions of that role in deploy/."""
    tokens = {"qcnn-launcher": token, "qcnn-worker": _token(namespace, "qcnn-worker"), "qcnn-user": user_token}
    clients = {}
    for role, token in tokens.items():
        configuration = kubernetes.client.Configuration.get_default_copy()
        configuration.cert_file = configuration.key_file = None
        configuration.api_key = {"authorization": f"Bearer {token}"}
        clients[role] = kubernetes.client.ApiClient(configuration)
    return clients


@pytest.fixture
def proxy(namespace: str) -> Iterator[Proxy]:
    """Proxy for the API server, which can interrupt connections."""
    server = urllib.parse.urlsplit(kubernetes.client.Configuration.get_default_copy().host)
    with contextlib.closing(Proxy((str(server.hostname), server.port or 443))) as proxy:
        yield proxy


def _write_kubeconfig(path: Path, token: str, port: int, namespace: str | None = None) -> Path:
    configuration = kubernetes.client.Configuration.get_default_copy()
    cluster = {
        "server": f"https://127.0.0.1:{port}",
        "tls-server-name": str(urllib.parse.urlsplit(configuration.host).hostname),
        "certificate-authority": configuration.ssl_ca_cert,
    }
    context = {"cluster": "cluster", "user": "user", **({"namespace": namespace} if namespace else {})}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [{"name": "cluster", "cluster": cluster}],
        "contexts": [{"name": "test", "context": context}],
        "users": [{"name": "user", "user": {"token": token}}],
    }
    path.write_text(yaml.safe_dump(content))
    return path


@pytest.fixture
def kubeconfig(token: str, proxy: Proxy, tmp_path: Path) -> Path:
    """Access to the cluster as the launcher's service account, through the proxy."""
    return _write_kubeconfig(tmp_path / "kubeconfig", token, proxy.port)


@pytest.fixture
def engine(request: pytest.FixtureRequest, namespace: str) -> Engine:
    """Engine of the launchers, TFJob unless a test is parametrized with `every_engine`."""
    engine: Engine = getattr(request, "param", TFJOB)
    with contextlib.closing(NamespaceClient(namespace)) as api:
        if not api.serves(engine.resource):
            pytest.skip(f"the cluster has no {engine.name}s")
    return engine


@pytest.fixture
def launchers(namespace: str, kubeconfig: Path, request: pytest.FixtureRequest, engine: Engine) -> Iterator[Launchers]:
    """Launchers of one run, whose objects are deleted afterwards."""
    if "bucket" in request.fixturenames:
        # The bucket is deleted after the jobs that write to it.
        request.getfixturevalue("bucket")
    with contextlib.closing(Launchers(namespace, kubeconfig, request.node.name, engine)) as launchers:
        yield launchers


@pytest.fixture
def isolated(proxy: Proxy, tmp_path: Path, request: pytest.FixtureRequest, engine: Engine) -> Iterator[Launchers]:
    """Launchers in a separate namespace."""
    with new_namespace() as name:
        kubeconfig = _write_kubeconfig(tmp_path / "kubeconfig-isolated", _token(name, "qcnn-launcher"), proxy.port)
        with contextlib.closing(Launchers(name, kubeconfig, request.node.name, engine)) as launchers:
            yield launchers


@pytest.fixture
def qcnn(user_token: str, namespace: str, proxy: Proxy, tmp_path: Path) -> Iterator[Qcnn]:
    """Command line with role qcnn-user and the namespace in the context of the kubeconfig."""
    kubeconfig = _write_kubeconfig(tmp_path / "kubeconfig-user", user_token, proxy.port, namespace)
    with contextlib.closing(Qcnn(kubeconfig)) as qcnn:
        yield qcnn


@pytest.fixture
def bucket(namespace: str) -> Iterator[str]:
    """URI of a folder in a new bucket, which is deleted afterwards."""
    if not (server := os.environ.get("STORAGE_EMULATOR_HOST")):
        pytest.skip("STORAGE_EMULATOR_HOST is not set: no Cloud Storage server")
    with new_bucket(server) as name:
        yield f"gs://{name}/runs"
