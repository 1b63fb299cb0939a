"""An experiment as a training job on a cluster, without any step around it."""

from launchers.job import Job, Pod
from launchers.kubernetes.pod_template import JOB_VARIABLE
from launchers.tfjob.read import EXPORT, OUTPUTS
from trainer.config import ExperimentConfig
from trainer.errors import ConfigError
from trainer.storage.address import SCHEMES, in_bucket


def describe(config: ExperimentConfig, output: str, pod: Pod, dataset: str | None = None) -> Job:
    """Describe the training of an experiment whose outputs go to a folder named by the job, below an address.

    Without the address of its dataset, every process makes it, and the leading one exports the model in the end: the
    job is on its own then. With it, the job is one step of several, and other ones do that.

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
    flags = {flag: f"{place}/{folder}" for folder, flag in OUTPUTS.items()}
    if dataset:
        flags = {"--dataset": dataset, **{flag: address for flag, address in flags.items() if flag != EXPORT}}
    words = [word for pair in flags.items() for word in pair]
    return Job(
        argv=("python", "-m", "trainer.worker", "--experiment", config.to_json(), *words),
        replicas={"worker": config.workers},
        restarts=config.options.restarts,
        hang_seconds=config.options.hang_seconds,
        pod=pod,
    )
