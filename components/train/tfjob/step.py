"""What the train step does on a cluster: one TFJob for one experiment of one run."""

import contextlib
import json
import logging
import os
from pathlib import Path
from typing import Any

from components.pipeline_run import RUN_VARIABLE, is_retry, run_id
from components.train.tfjob.description import describe
from launchers.kubernetes.access import own_namespace
from launchers.kubernetes.api import PODS, Api
from launchers.kubernetes.identity import Identity
from launchers.pod_settings import pod_settings
from launchers.tfjob.launch import launch
from launchers.tfjob.manifest import Policy, tfjob
from trainer.config import from_json
from trainer.errors import ConfigError
from trainer.provenance import provenance
from trainer.startup import one_line_errors
from trainer.storage.stores import in_bucket
from trainer.study.trials import failure_kept, load_failure

logger = logging.getLogger("qcnn")

_TASK = "train"
# What Kubeflow tells a step about its own pod.
_POD_VARIABLE = "KFP_POD_NAME"
_OWNER = ("apiVersion", "kind", "name", "uid")


def train(
    experiment: str, pod: str, dataset: str, training: str, failure: str | None = None
) -> tuple[str, str, dict[str, Any]]:
    """Train as a TFJob; return where training and logs are, and the metadata of both.

    `pod` holds the settings of the TFJob's pods as JSON. The address `training` is where Kubeflow would have this
    attempt of the step put its output. What the TFJob writes has to be found by further attempts, so it lies in a
    folder named by the job, beside those of the attempts.

    With a folder for its `failure`, a training that fails leaves that there, and this attempt's output is the training.
    """
    with one_line_errors():
        config = from_json(experiment)
        settings = pod_settings(json.loads(pod))
        if in_bucket(training) is None:
            raise ConfigError(f"pipeline root: must be in a bucket that the TFJob's pods reach. Given: {training}")
        if not (run := run_id()):
            raise ConfigError(f"{RUN_VARIABLE}: must hold the id of the run, as compile.py sees to. Given: none")
        # Task, attempt, artifact (GenerateOutputURI in the backend's driver).
        of_task, _, _ = training.rsplit("/", 2)
        job = describe(config, of_task, settings, dataset=dataset)
        identity, policy, namespace = Identity(run, _TASK), Policy(), own_namespace()
        folder = f"{of_task}/{tfjob(job, identity, policy)['metadata']['name']}"
        logger.info("the TFJob writes to %s", folder)
        own_pod = os.environ.get(_POD_VARIABLE)
        owner = _owner(namespace, own_pod) if own_pod else None
        with failure_kept(config, Path(failure)) if failure else contextlib.nullcontext():
            launch(job, identity, namespace, policy, owner=owner, own_pod=own_pod, retried=is_retry())
        failed = load_failure(Path(failure)) if failure else None
    return training if failed else f"{folder}/training", f"{folder}/logs", provenance(config)


def _owner(namespace: str, own_pod: str) -> dict[str, str] | None:
    """Return what this step's pod belongs to, the run's Workflow: with it, the run's TFJobs are deleted."""
    with contextlib.closing(Api(namespace)) as api:
        found = api.find(PODS, fieldSelector=f"metadata.name={own_pod}")
    owners = (owner for pod in found for owner in pod["metadata"].get("ownerReferences", ()))
    return next(({key: owner[key] for key in _OWNER} for owner in owners), None)
