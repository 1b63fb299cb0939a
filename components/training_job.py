"""An experiment as a training job: by processes of this machine, or on a cluster; and the run that it belongs to."""

import dataclasses
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from qcnn import requirements
from qcnn.errors import ConfigError
from qcnn.experiment import ExperimentConfig, affecting
from qcnn.experiment_io import from_mapping
from qcnn.fields import GENERATED, Affects
from qcnn.jobs.job import OUTPUTS, Job
from qcnn.jobs.pod_settings import PodSettings
from qcnn.monitoring.logs import JOB_VARIABLE
from qcnn.storage.store import SCHEMES, check_reachable, parse_bucket_uri

# The worker's flag for the address of each output.
_FLAGS = {"training": "--workdir", "logs": "--logs", "model": "--export"}


def local_job(config: ExperimentConfig, dataset: str, training: str, logs: str) -> Job:
    """Describe the training of an experiment by processes of this machine, which write into its folders."""
    return _describe(sys.executable, config, dataset, {"training": training, "logs": logs}, pod=None)


def cluster_job(config: ExperimentConfig, output: str, pod: PodSettings, dataset: str | None = None) -> Job:
    """Describe the training of an experiment on a cluster; `output` gets a folder that is named after the job.

    A job that is given the address of its dataset is one step of a pipeline. Without it, every process makes the
    dataset, and the leading one exports the model in the end.

    Raises:
        ConfigError: not all pods could reach the address, or what the training is to be continued from.
    """
    _check_reachable(config, output)
    if not dataset:
        check_data(config.data)
    place = f"{output.rstrip('/')}/$({JOB_VARIABLE})"
    outputs = {name: f"{place}/{name}" for name in OUTPUTS if name != "model" or not dataset}
    return _describe("python", config, dataset, outputs, pod)


def vertex_job(config: ExperimentConfig, output: str, pod: PodSettings, dataset: str | None = None) -> Job:
    """Describe the training of an experiment as a job of Vertex AI; all else as `cluster_job`.

    No profiler of its machines can be reached from outside. Vertex AI names a folder for a model to every process, so a
    job that exports none is told so.

    Raises:
        ConfigError: not all processes could reach the address, or what the training is to be continued from.
    """
    job = cluster_job(config, output, pod, dataset)
    added = ("--profiler-port", "0", *(("--export", "") if dataset else ()))
    return dataclasses.replace(job, argv=(*job.argv, *added), port_flags=())


def vertex_trial(words: Mapping[str, Any], output: str, pod: PodSettings, dataset: str) -> Job:
    """Describe the trials of a search on Vertex AI, by the words of an experiment that they share.

    Each is given other words as flags, and is told by its surroundings where to write: below the folder of the outputs.

    Raises:
        ConfigError: as `vertex_job`.
    """
    job = vertex_job(from_mapping(words), output, pod, dataset)
    own = {"--experiment": json.dumps(dict(words), sort_keys=True)}
    return dataclasses.replace(job, argv=tuple(_replaced(job.argv, own, left_out=(_FLAGS["training"], _FLAGS["logs"]))))


def _replaced(argv: Sequence[str], values: Mapping[str, str], left_out: Sequence[str]) -> Iterator[str]:
    """Yield a command with other values of some flags, and without others."""
    words = iter(argv)
    for word in words:
        if word in left_out:
            next(words)
        elif word in values:
            next(words)
            yield from (word, values[word])
        else:
            yield word


def _describe(
    python: str, config: ExperimentConfig, dataset: str | None, outputs: Mapping[str, str], pod: PodSettings | None
) -> Job:
    arguments = {"--experiment": config.to_json(), **({"--dataset": dataset} if dataset else {})}
    arguments |= {_FLAGS[name]: address for name, address in outputs.items()}
    return Job(
        argv=(python, "-m", "qcnn.trainer.worker", *(word for pair in arguments.items() for word in pair)),
        replicas=config.replicas,
        restarts=config.options.max_restarts,
        heartbeat_timeout_seconds=config.options.heartbeat_timeout_seconds,
        port_flags=("--profiler-port",),
        kind=_kind(config),
        ignore_exit=requirements.ignore_exit(config.strategy),
        restart_individually=requirements.restart_individually(config.strategy),
        pod=pod,
        outputs=outputs,
    )


def check_data(data: str) -> bool:
    """Return whether data, as the experiment's word has it, are a file; refuse one that others could not read.

    Raises:
        ConfigError: it is a file of this machine.
    """
    if data in GENERATED:
        return False
    if not parse_bucket_uri(data):
        kinds = ", ".join(f"{scheme}://BUCKET/FILE" for scheme in SCHEMES)
        raise ConfigError(f"data: a file must be in a bucket on a cluster, {kinds}. Given: {data}")
    return True


def _kind(config: ExperimentConfig) -> str:
    """Return what has to be the same for experiments that are trained by the same processes, one after the other."""
    words = config.options.model_dump(include=set(affecting(Affects.MACHINE)))
    return json.dumps([config.strategy, words], sort_keys=True)


def _check_reachable(config: ExperimentConfig, output: str) -> None:
    """Refuse an output, or a training to continue from, that not all pods could reach."""
    is_bucket = check_reachable("output", output)
    source = config.options.continue_from
    if source and not (is_bucket and parse_bucket_uri(source)):
        raise ConfigError(f"continue_from: must be in a bucket on a cluster, as must be the output. Given: {source}")


# Filled from the label that Kubeflow gives all pods of a run. If the run's id were a parameter, no step that takes it
# would ever be cached.
RUN_VARIABLE = "QCNN_RUN"
RUN_FIELD = "metadata.labels['pipeline/runid']"
# Which try of the step this is, counted from 0, where the backend (2.17) tries it again by itself; a person's Retry of
# the run counts anew.
_RETRY_VARIABLE = "KFP_RETRY_INDEX"


def run_id() -> str:
    """Return the id of the backend's run that this step is part of, empty outside of one."""
    return os.environ.get(RUN_VARIABLE, "")


def is_retry() -> bool:
    """Whether the backend has by itself started this step again after a failure; a person's Retry does not count."""
    index = os.environ.get(_RETRY_VARIABLE, "")
    return index.isdecimal() and int(index) > 0
