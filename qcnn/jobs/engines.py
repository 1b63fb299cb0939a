"""Engines of training jobs on Kubernetes. A new engine needs a folder next to `tfjob`, and a line here."""

from collections.abc import Mapping

from qcnn.jobs.kubernetes.api import NamespaceClient
from qcnn.jobs.kubernetes.engine import Engine
from qcnn.jobs.tfjob.engine import TFJOB

# The first one that a cluster has is the default.
ENGINES: Mapping[str, Engine] = {each.engine: each for each in (TFJOB,)}


def installed_engines(api: NamespaceClient) -> list[Engine]:
    """Return the engines that a cluster has."""
    return [each for each in ENGINES.values() if api.serves(each.resource)]
