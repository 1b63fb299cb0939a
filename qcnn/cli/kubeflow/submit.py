"""qcnn submit --target kubeflow: the main pipeline in a backend."""

import click

from qcnn.cli.kubeflow.create_run import create_run
from qcnn.cli.options.cost import Cost, cost_options
from qcnn.cli.options.experiment import Words, experiment_options
from qcnn.cli.options.form import Sending, sending_options
from qcnn.cli.options.kubeflow_submission import submission_options
from qcnn.cli.options.settings import backend_options, source_options, wait_option
from qcnn.errors import ConfigError
from qcnn.targets.compiled_pipeline import Source, main_arguments, main_pipeline
from qcnn.targets.kubeflow.client import Backend
from qcnn.targets.kubeflow.submission import Submission


@click.command()
@wait_option
@sending_options
@click.option(
    "--tensorboard",
    "board",
    default="",
    metavar="URL",
    help="TensorBoard that shows all logs, to be linked, if the pipeline is compiled now.",
)
@backend_options
@source_options
@submission_options
@cost_options
@experiment_options
def submit(
    wait: bool,
    sending: Sending,
    board: str,
    backend: Backend,
    source: Source,
    submission: Submission,
    cost: Cost,
    words: Words,
) -> None:
    """Run the pipeline in a Kubeflow backend, every word of the experiment in its type."""
    if board and source.package:
        raise ConfigError(f"tensorboard: is linked where the pipeline is compiled, not with --package. Given: {board}")
    experiment = words.experiment()
    compile_now, arguments = main_pipeline("kubeflow", board=board), main_arguments(experiment)
    trials = [experiment]
    create_run(compile_now, arguments, "qcnn", backend, source, submission, cost, trials, wait=wait, sending=sending)
