"""An experiment as a training job on a cluster, without any step around it."""

from components.train.job import Job, Pod
from components.train.tfjobs.template import JOB_VARIABLE
from trainer.config import ExperimentConfig
from trainer.errors import ConfigError
from trainer.storage.stores import SCHEMES, in_bucket

# What the leading process writes, each below the job's own folder: folder and flag.
OUTPUTS = {"training": "--workdir", "logs": "--logs", "model": "--model"}


def describe(config: ExperimentConfig, output: str, pod: Pod) -> Job:
    """Describe the training of an experiment whose outputs go to a folder named by the job, below an address.

    Every process makes the dataset itself.

    Raises:
        ConfigError: not all pods could reach the address, or what the training is to be continued from.
    """
    is_bucket = in_bucket(output)
    if not is_bucket and not output.startswith("/"):
        raise ConfigError(
            f"output: must be {', '.join(f'{scheme}://BUCKET/FOLDER' for scheme in SCHEMES)}, or an absolute path at "
            f"which the pods have a volume. Given: {output}"
        )
    source = config.options.continue_from
    if source and not (is_bucket and in_bucket(source)):
        raise ConfigError(f"continue_from: must be in a bucket on a cluster, as must be the output. Given: {source}")
    place = f"{output.rstrip('/')}/$({JOB_VARIABLE})"
    outputs = [word for folder, flag in OUTPUTS.items() for word in (flag, f"{place}/{folder}")]
    return Job(
        argv=("python", "-m", "trainer.worker", "--experiment", config.to_json(), *outputs),
        replicas={"worker": config.workers},
        restarts=config.options.restarts,
        hang_seconds=config.options.hang_seconds,
        pod=pod,
    )
