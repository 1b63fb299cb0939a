"""The train step on a cluster: one TFJob for one experiment of one run."""

import contextlib
import json
import logging
import os
import posixpath
from pathlib import Path
from typing import Any

from qcnn.components.training_job import RUN_VARIABLE, cluster_job, is_retry, run_id
from qcnn.errors import ConfigError
from qcnn.experiment_io import from_json
from qcnn.jobs.job import JobIdentity
from qcnn.jobs.kubernetes.api import PODS, NamespaceClient, own_namespace
from qcnn.jobs.pod_settings import pod_settings
from qcnn.jobs.tfjob import status
from qcnn.jobs.tfjob.launch import launch
from qcnn.jobs.tfjob.manifest import JobTimeouts, tfjob
from qcnn.provenance import provenance
from qcnn.startup import one_line_errors
from qcnn.storage.store import parse_bucket_uri
from qcnn.studies.trials import failure_kept, load_failure

logger = logging.getLogger("qcnn")

_TASK = "train"
# Set by Kubeflow to the name of the step's own pod.
_POD_VARIABLE = "KFP_POD_NAME"
_OWNER = ("apiVersion", "kind", "name", "uid")


def train(
    experiment: str, pod: str, dataset: str, training: str, failure: str | None = None
) -> tuple[str, str, dict[str, Any]]:
    """Train as a TFJob; return where training and logs are, and the metadata of both.

    `pod` holds the settings of the TFJob's pods as JSON. Kubeflow gives each attempt of the step its own address for
    its output, `training`. The TFJob's outputs must be found by further attempts, so they lie in a folder that is named
    after the job, beside those of the attempts.

    Where a folder for a `failure` is given, a training that fails writes the reason into it, and the output stays at
    the address of this attempt.
    """
    with one_line_errors():
        config = from_json(experiment)
        settings = pod_settings(json.loads(pod))
        if parse_bucket_uri(training) is None:
            raise ConfigError(f"pipeline root: must be in a bucket that the TFJob's pods reach. Given: {training}")
        if not (run := run_id()):
            raise ConfigError(f"{RUN_VARIABLE}: must hold the id of the run, as compile.py sees to. Given: none")
        # Task, attempt, artifact (GenerateOutputURI in the backend's driver).
        task_folder, _, _ = training.rsplit("/", 2)
        job, namespace = cluster_job(config, task_folder, settings, dataset=dataset), own_namespace()
        own_pod = os.environ.get(_POD_VARIABLE)
        owner = _owner(namespace, own_pod) if own_pod else None
        manifest = tfjob(job, JobIdentity(run, _TASK), JobTimeouts(), owner)
        outputs = status.outputs(manifest)
        logger.info("the TFJob writes to %s", posixpath.dirname(outputs["training"]))
        with failure_kept(config, Path(failure)) if failure else contextlib.nullcontext():
            launch(manifest, namespace, own_pod=own_pod, retried=is_retry())
        failed = load_failure(Path(failure)) if failure else None
    return training if failed else outputs["training"], outputs["logs"], provenance(config)


def _owner(namespace: str, own_pod: str) -> dict[str, str] | None:
    """Return the owner of this step's pod, the run's Workflow, with which the run's TFJobs are to be deleted."""
    with contextlib.closing(NamespaceClient(namespace)) as api:
        found = api.find(PODS, fieldSelector=f"metadata.name={own_pod}")
    owners = (owner for pod in found for owner in pod["metadata"].get("ownerReferences", ()))
    return next(({key: owner[key] for key in _OWNER} for owner in owners), None)
