"""The train step on Kubernetes: one training job for one experiment of a run."""

import contextlib
import json
import logging
import os
import posixpath
from pathlib import Path
from typing import Any

from qcnn.components.training_job import RUN_VARIABLE, cluster_job, is_retry, run_id
from qcnn.errors import ConfigError
from qcnn.experiment.parsing import from_json
from qcnn.jobs.engines import choose_engine
from qcnn.jobs.job import JobIdentity
from qcnn.jobs.kubernetes.api import PODS, NamespaceClient
from qcnn.jobs.kubernetes.cluster_config import own_namespace
from qcnn.jobs.kubernetes.launch import launch
from qcnn.jobs.kubernetes.training_manifest import JobTimeouts
from qcnn.jobs.kubernetes.training_manifest import outputs as outputs_of
from qcnn.jobs.pod_settings import pod_settings
from qcnn.provenance import provenance
from qcnn.storage.store import parse_bucket_uri
from qcnn.studies.trials import failure_kept, load_failure

logger = logging.getLogger("qcnn")

_TASK = "train"
# KFP sets it to the name of the step's pod.
_POD_VARIABLE = "KFP_POD_NAME"
_OWNER = ("apiVersion", "kind", "name", "uid")


def train(
    experiment: str, pod: str, dataset: str, training: str, failure: str | None = None
) -> tuple[str, str, dict[str, Any]]:
    """Train as a job of the cluster's engine.

    KFP assigns each attempt of the step another URI for its output `training`. Later attempts must find the outputs of
    the job, so these are in a folder that is named after the job, next to those of the attempts.

    Args:
        experiment: Experiment as JSON.
        pod: Settings of the job's pods as JSON.
        dataset: URI of the dataset.
        training: URI of the output that KFP assigned to this attempt.
        failure: Folder for the reason of a failed training, for a trial of a study. The returned training URI is then
            that of this attempt. None: raise an error.

    Returns:
        The URIs of training and logs, and the metadata of both.
    """
    config = from_json(experiment)
    settings = pod_settings(json.loads(pod))
    if parse_bucket_uri(training) is None:
        raise ConfigError(f"pipeline root: must be in a bucket that the job's pods can access. Given: {training}")
    if not (run := run_id()):
        raise ConfigError(f"{RUN_VARIABLE}: must be the run ID, which compile.py configures. Given: none")
    # KFP's driver builds a URI as TASK/ATTEMPT/ARTIFACT (GenerateOutputURI).
    task_folder, _, _ = training.rsplit("/", 2)
    job, namespace = cluster_job(config, task_folder, settings, dataset=dataset), own_namespace()
    own_pod = os.environ.get(_POD_VARIABLE)
    identity = JobIdentity(run, _TASK)
    with contextlib.closing(NamespaceClient(namespace)) as api:
        owner = _owner(api, own_pod) if own_pod else None
        engine = choose_engine(api, settings.engine, job, identity)
    job_of_run = engine.training(job, identity, JobTimeouts(), owner)
    outputs = outputs_of(job_of_run.manifest)
    logger.info("the job writes to %s", posixpath.dirname(outputs["training"]))
    with failure_kept(config, Path(failure)) if failure else contextlib.nullcontext():
        launch(job_of_run, namespace, own_pod=own_pod, retried=is_retry())
    failed = load_failure(Path(failure)) if failure else None
    return training if failed else outputs["training"], outputs["logs"], provenance(config)


def _owner(api: NamespaceClient, own_pod: str) -> dict[str, str] | None:
    """Return the owner of this step's pod: the run's Workflow, whose deletion must delete the job."""
    found = api.find(PODS, fieldSelector=f"metadata.name={own_pod}")
    owners = (owner for pod in found for owner in pod["metadata"].get("ownerReferences", ()))
    return next(({key: owner[key] for key in _OWNER} for owner in owners), None)
