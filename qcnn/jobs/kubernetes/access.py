"""Access to a cluster: the one that this process runs in, else the one that KUBECONFIG names."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import kubernetes.client
import kubernetes.config

from qcnn.trainer.errors import ConfigError, one_line

_VARIABLE = "KUBECONFIG"
_DEFAULT = "~/.kube/config"
_DEFAULT_NAMESPACE = "default"
_NAMESPACE_OF_POD = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


def configuration() -> kubernetes.client.Configuration:
    """Return how the cluster is reached.

    Raises:
        ConfigError: there is no cluster, or its description cannot be read.
    """
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
        raise ConfigError(f"cluster: no access to any; set KUBECONFIG. Given: {one_line(error)}") from None
