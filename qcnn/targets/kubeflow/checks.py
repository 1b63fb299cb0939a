"""Checks of Kubeflow Pipelines before a run."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from qcnn.errors import ConfigError
from qcnn.jobs.engines import ENGINES
from qcnn.jobs.kubernetes.api import CONFIG_MAPS, NamespaceClient
from qcnn.jobs.kubernetes.cluster_config import describe_context
from qcnn.targets.checks import Check, UnknownError
from qcnn.targets.errors import suppress_output
from qcnn.targets.kubeflow.client import SINGLE_USER, KfpBackend, health, translate_errors
from qcnn.targets.kubernetes.checks import LAUNCHER, SECONDS, account, api_server, engine, unknown_if_forbidden

# Accounts of the steps in a single-user and a multi-user installation (deploy/kubeflow.yaml).
_SINGLE_ACCOUNT, _MULTI_ACCOUNT = "pipeline-runner", "default-editor"
# Backend of the default store (kubeflow/pipelines, backend/src/v2/config/env.go).
_LAUNCHER_CONFIG, _ROOT_KEY = "kfp-launcher", "defaultPipelineRoot"


def kubeflow_checks(backend: KfpBackend, connect: Callable[[], NamespaceClient], steps: str) -> Sequence[Check]:
    """Return the checks of a backend, and of its cluster if there is a kubeconfig.

    Args:
        backend: The backend.
        connect: Returns the client of the namespace of the runs.
        steps: Service account of the steps, or empty for that of the installation.
    """
    multi = backend.namespace not in (None, SINGLE_USER)
    name = steps or (_MULTI_ACCOUNT if multi else _SINGLE_ACCOUNT)

    @functools.cache
    def api() -> NamespaceClient:
        return connect().limited_to(SECONDS)

    def cluster() -> str:
        try:
            where = describe_context()
            return f"{where}, namespace {api().namespace}: {api_server(api())}"
        except ConfigError as error:
            raise UnknownError(f"the cluster of the runs can be checked with a kubeconfig only ({error})") from None

    return (
        Check("host", lambda: host(backend)),
        Check("runs", lambda: runs(backend), "host"),
        Check("cluster", cluster),
        Check("engine", lambda: engine(api(), tuple(ENGINES.values())), "cluster"),
        Check("account of steps", lambda: account(api(), name, LAUNCHER), "cluster"),
        Check("default store", lambda: default_store(api()), "cluster"),
    )


def host(backend: KfpBackend) -> str:
    """Return the address and the version of a backend.

    Raises:
        BackendError: If it does not answer, has an invalid certificate, or rejects the credentials.
    """
    version = health(backend.client, backend.address).get("tag_name")
    return f"{backend.address}, {f'version {version}' if version else 'of unknown version'}"


def runs(backend: KfpBackend) -> str:
    """Return the namespace whose runs can be listed.

    Raises:
        BackendError: If they cannot, for example in the namespace of another user.
    """
    with translate_errors(backend.address), suppress_output():
        backend.client.list_runs(page_size=1, namespace=backend.namespace)
    return f"can be listed in namespace {backend.namespace or SINGLE_USER}"


def default_store(api: NamespaceClient) -> str:
    """Return the root folder of runs without --pipeline-root.

    Raises:
        UnknownError: If this client may not read it.
    """
    with unknown_if_forbidden("read the configuration of the backend"):
        found = api.get(CONFIG_MAPS, _LAUNCHER_CONFIG) or {}
    return found.get("data", {}).get(_ROOT_KEY) or "that of the installation"
