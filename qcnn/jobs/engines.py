"""Engines of training jobs on Kubernetes. A new engine needs a folder next to `tfjob`, and a line here."""

import logging
from collections.abc import Mapping, Sequence

from qcnn.errors import ConfigError
from qcnn.jobs.job import JobIdentity, JobSpec, training_digest
from qcnn.jobs.job import name as job_name
from qcnn.jobs.kubernetes.api import NamespaceClient
from qcnn.jobs.kubernetes.engine import Engine
from qcnn.jobs.tfjob.engine import TFJOB
from qcnn.jobs.trainjob.engine import TRAINJOB

logger = logging.getLogger("qcnn")

# Value of the pod setting `engine` that takes the engine of an existing job, or else the first one that a cluster has.
AUTO = "auto"
ENGINES: Mapping[str, Engine] = {each.engine: each for each in (TFJOB, TRAINJOB)}


def installed_engines(api: NamespaceClient, engines: Sequence[Engine] = tuple(ENGINES.values())) -> list[Engine]:
    """Return those of the engines that a cluster has."""
    return [each for each in engines if api.serves(each.resource)]


def required_engines(api: NamespaceClient, engines: Sequence[Engine] = tuple(ENGINES.values())) -> list[Engine]:
    """Return the engines that a cluster has.

    Args:
        api: Client of the namespace.
        engines: Engines of which at least one is required.

    Raises:
        ConfigError: If it has none of them.
    """
    if installed := installed_engines(api, engines):
        return installed
    missing = " or ".join(each.resource.missing.partition("; ")[2] for each in engines)
    raise ConfigError(f"cluster: has no engine for training jobs; {missing}. Given: namespace {api.namespace}")


def possible_engines(job: JobSpec) -> list[Engine]:
    """Return the engines that can run a job with its pod settings."""
    needs_runtime = job.pod is not None and job.pod.runtime
    return [each for each in ENGINES.values() if each.has_runtimes or not needs_runtime]


def choose_engine(api: NamespaceClient, wanted: str, job: JobSpec, identity: JobIdentity) -> Engine:
    """Return the engine of a training job.

    With `auto`, it is that of an existing job of the training, because a restarted launcher must not train twice when
    the platform has changed, or else the first one that the cluster has.

    Args:
        api: Client of the namespace.
        wanted: Name of an engine, or `auto`.
        job: Training job.
        identity: Run, task and iteration of the job.

    Raises:
        ConfigError: If the cluster has no engine that can run the job.
    """
    if wanted != AUTO:
        return ENGINES[wanted]
    possible = possible_engines(job)
    installed = required_engines(api, possible)
    name = job_name(identity, training_digest(identity, job))
    if existing := next((each for each in installed if api.get(each.resource, name)), None):
        return existing
    if others := installed[1:]:
        alternatives = " or ".join(f"engine: {each.engine}" for each in others)
        logger.info("the cluster has several engines; %s is taken (pod setting %s)", installed[0].name, alternatives)
    return installed[0]
