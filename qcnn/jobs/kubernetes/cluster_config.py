"""Access configuration of the cluster of this pod or of KUBECONFIG."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from qcnn.errors import ConfigError, single_line

# The client library takes a third of a second to load, so functions import it.
if TYPE_CHECKING:
    import kubernetes.client


_VARIABLE = "KUBECONFIG"
_DEFAULT = "~/.kube/config"
_DEFAULT_NAMESPACE = "default"
_NAMESPACE_OF_POD = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


def configuration() -> kubernetes.client.Configuration:
    """Load the access configuration of the cluster.

    Raises:
        ConfigError: If no valid configuration exists.
    """
    import kubernetes.config

    loaded = kubernetes.client.Configuration()
    with _config_errors():
        try:
            kubernetes.config.load_incluster_config(client_configuration=loaded)
        except kubernetes.config.ConfigException:
            kubernetes.config.load_kube_config(_kubeconfig(), client_configuration=loaded)
    return loaded


def own_namespace() -> str:
    """Return the namespace of this pod, or of the current context, or "default".

    Raises:
        ConfigError: If no valid configuration exists.
    """
    if _NAMESPACE_OF_POD.exists():
        return _NAMESPACE_OF_POD.read_text(encoding="utf-8")
    import kubernetes.config

    with _config_errors():
        _, context = kubernetes.config.list_kube_config_contexts(_kubeconfig())
    return str(context["context"].get("namespace") or _DEFAULT_NAMESPACE)


def describe_context() -> str:
    """Return the source of the access configuration: this pod, or the context and the file.

    Raises:
        ConfigError: If no valid configuration exists.
    """
    if _NAMESPACE_OF_POD.exists():
        return "service account of this pod"
    import kubernetes.config

    with _config_errors():
        _, context = kubernetes.config.list_kube_config_contexts(_kubeconfig())
    return f"context {context['name']} of {_kubeconfig()}"


def _kubeconfig() -> str:
    """Return one or several paths of the user's configuration.

    The library reads the variable only at import.
    """
    return os.environ.get(_VARIABLE) or _DEFAULT


@contextlib.contextmanager
def _config_errors() -> Iterator[None]:
    try:
        yield
    except Exception as error:  # For a damaged file, the library raises any error of its parser.
        raise ConfigError(f"cluster: no valid configuration; set KUBECONFIG. Given: {single_line(error)}") from None
