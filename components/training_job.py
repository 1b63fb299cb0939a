"""Training jobs of experiments, local or on a cluster, and the pipeline run that contains them."""

import dataclasses
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from qcnn.circuits.functions import is_function_name
from qcnn.errors import ConfigError
from qcnn.experiment import requirements
from qcnn.experiment.config import ExperimentConfig, affecting, changed_fields
from qcnn.experiment.fields import GENERATED, Affects
from qcnn.experiment.parsing import from_mapping
from qcnn.jobs.job import OUTPUTS, JobSpec
from qcnn.jobs.pod_settings import PodSettings
from qcnn.monitoring.logs import JOB_VARIABLE
from qcnn.monitoring.validation_metrics import VAL_LOSS
from qcnn.storage.store import SCHEMES, check_reachable, parse_bucket_uri

# Worker flag for the URI of each output.
_FLAGS = {"training": "--workdir", "logs": "--logs", "model": "--export"}


def local_job(config: ExperimentConfig, dataset: str, training: str, logs: str) -> JobSpec:
    """Describe the training of an experiment by local processes.

    Args:
        config: Experiment to train.
        dataset: Folder of the dataset.
        training: Folder for checkpoints.
        logs: Folder for TensorBoard events.
    """
    return _describe(sys.executable, config, dataset, {"training": training, "logs": logs}, pod=None)


def with_data_file(config: ExperimentConfig) -> tuple[ExperimentConfig, str]:
    """Return an experiment with the metadata of its data file, and the SHA-256 of the file or "" without one.

    Raises:
        ConfigError: If the field `data` names a local file, or the experiment cannot use the rows of the file.
        ArtifactError: If the file cannot be read, or has an invalid row.
    """
    if not check_data(config.data):
        return config, ""
    # This import loads NumPy.
    from qcnn import data

    dataset = data.read(config)
    assert dataset.source
    return data.with_file_metadata(config, dataset), dataset.source.sha256


def cluster_job(
    config: ExperimentConfig, output: str, pod: PodSettings, dataset: str | None = None, data_sha256: str = ""
) -> JobSpec:
    """Describe the training of an experiment on a cluster.

    Args:
        config: Experiment to train.
        output: URI of a folder. The job writes to a subfolder that is named after the job.
        pod: Settings of the pods.
        dataset: URI of the dataset, for a job that is a pipeline step. None: every process generates the dataset, and
            the chief (worker 0 if there is no chief) exports the model at the end.
        data_sha256: SHA-256 of the data file that every process reads, or "".

    Raises:
        ConfigError: If not all pods can access `output` or the training folder of `continue_from`.
    """
    _check_reachable(config, output)
    if not dataset:
        check_data(config.data)
    folder = f"{output.rstrip('/')}/$({JOB_VARIABLE})"
    outputs = {name: f"{folder}/{name}" for name in OUTPUTS if name != "model" or not dataset}
    # Fields on which the result depends, and those of how the run proceeds.
    result = changed_fields(config)
    settings = {name: result.pop(name) for name in affecting(Affects.RUN) if name in result}
    training = {"fields": result, "data": dataset or data_sha256, "outputs": outputs}
    job = _describe("python", config, dataset, outputs, pod)
    return dataclasses.replace(job, training=training, settings=settings)


def vertex_job(
    config: ExperimentConfig, output: str, pod: PodSettings, dataset: str | None = None, data_sha256: str = ""
) -> JobSpec:
    """Describe the training of an experiment as a Vertex AI job.

    The profiler is disabled, because its port is not reachable from outside. Vertex AI passes a model folder to every
    process, so a job that does not export gets an empty `--export`.

    Args:
        config: Experiment to train.
        output: URI of a folder. The job writes to a subfolder that is named after the job.
        pod: Settings of the processes.
        dataset: URI of the dataset, for a job that is a pipeline step. See `cluster_job`.
        data_sha256: SHA-256 of the data file, see `cluster_job`.

    Raises:
        ConfigError: If not all processes can access `output` or the training folder of `continue_from`.
    """
    job = cluster_job(config, output, pod, dataset, data_sha256)
    added = ("--profiler-port", "0", *(("--export", "") if dataset else ()))
    return dataclasses.replace(job, argv=(*job.argv, *added), port_flags=())


def vertex_trial(
    fields: Mapping[str, Any], output: str, pod: PodSettings, dataset: str, metric: str = VAL_LOSS
) -> JobSpec:
    """Describe the trials of a search on Vertex AI.

    Vertex AI passes the searched fields to each trial as flags. The environment of a trial names its output folder,
    which is below the folder of the job's outputs.

    Args:
        fields: Experiment fields that all trials share.
        output: URI of a folder. The job writes to a subfolder that is named after the job.
        pod: Settings of the processes.
        dataset: URI of the dataset.
        metric: Metric that trials report to the tuner.

    Raises:
        ConfigError: If not all processes can access `output` or the training folder of `continue_from`.
    """
    job = vertex_job(from_mapping(fields), output, pod, dataset)
    shared = {"--experiment": json.dumps(dict(fields), sort_keys=True)}
    argv = _replace_flags(job.argv, shared, removed=(_FLAGS["training"], _FLAGS["logs"]))
    reported = () if metric == VAL_LOSS else ("--metric", metric)
    return dataclasses.replace(job, argv=(*argv, *reported))


def _replace_flags(argv: Sequence[str], values: Mapping[str, str], removed: Sequence[str]) -> Iterator[str]:
    """Yield the arguments of a command with new values of some flags and without the removed flags."""
    arguments = iter(argv)
    for argument in arguments:
        if argument in removed:
            next(arguments)
        elif argument in values:
            next(arguments)
            yield from (argument, values[argument])
        else:
            yield argument


def _describe(
    python: str, config: ExperimentConfig, dataset: str | None, outputs: Mapping[str, str], pod: PodSettings | None
) -> JobSpec:
    arguments = {"--experiment": config.to_json(), **({"--dataset": dataset} if dataset else {})}
    arguments |= {_FLAGS[name]: uri for name, uri in outputs.items()}
    return JobSpec(
        argv=(python, "-m", "qcnn.trainer.worker", *(argument for pair in arguments.items() for argument in pair)),
        replicas=config.replicas,
        restarts=config.options.max_restarts,
        heartbeat_timeout_seconds=config.options.heartbeat_timeout_seconds,
        port_flags=("--profiler-port",),
        kind=_pool_key(config),
        ignore_exit=requirements.ignore_exit(config.strategy),
        restart_individually=requirements.restart_individually(config.strategy),
        pod=pod,
        outputs=outputs,
    )


def check_data(data: str) -> bool:
    """Return whether the experiment field `data` names a file that a remote target can read.

    Raises:
        ConfigError: If it names a local file.
    """
    if data in GENERATED or is_function_name(data):
        return False
    if not parse_bucket_uri(data):
        uris = ", ".join(f"{scheme}://BUCKET/FILE" for scheme in SCHEMES)
        raise ConfigError(f"data: a file must be in a bucket on a cluster, {uris}. Given: {data}")
    return True


def _pool_key(config: ExperimentConfig) -> str:
    """Return the settings that experiments must share to be trained by the same process pool."""
    fields = config.options.model_dump(include=set(affecting(Affects.MACHINE)))
    return json.dumps([config.strategy, fields], sort_keys=True)


def _check_reachable(config: ExperimentConfig, output: str) -> None:
    """Raise ConfigError if not all pods can access `output` or the training folder of `continue_from`."""
    is_bucket = check_reachable("output", output)
    source = config.options.continue_from
    if source and not (is_bucket and parse_bucket_uri(source)):
        raise ConfigError(f"continue_from: must be in a bucket on a cluster, as must be the output. Given: {source}")


# Set from the label that KFP adds to all pods of a run. A run ID as a parameter would disable the cache of every step
# that takes it.
RUN_VARIABLE = "QCNN_RUN"
RUN_FIELD = "metadata.labels['pipeline/runid']"
# Retry index of the step, from 0. KFP (2.17) increments it for automatic retries and resets it if the user retries the
# run.
_RETRY_VARIABLE = "KFP_RETRY_INDEX"


def run_id() -> str:
    """Return the ID of the KFP run that contains this step, or an empty string outside of a run."""
    return os.environ.get(RUN_VARIABLE, "")


def is_retry() -> bool:
    """Return whether KFP restarted this step automatically. A retry by the user does not count."""
    index = os.environ.get(_RETRY_VARIABLE, "")
    return index.isdecimal() and int(index) > 0
