"""qcnn study --target kubeflow: all trials as one run of a backend."""

import click

from qcnn.cli.kubeflow.create_run import create_run
from qcnn.cli.options.cost import Cost, cost_options
from qcnn.cli.options.experiment import Words, experiment_options
from qcnn.cli.options.form import Sending, sending_options
from qcnn.cli.options.kubeflow_submission import submission_options
from qcnn.cli.options.search import STUDY_HELP, SearchFlags, parallelism_option, read_study, search_options
from qcnn.cli.options.settings import backend_options, source_options, wait_option
from qcnn.targets.compiled_pipeline import Source, study_arguments, study_pipeline
from qcnn.targets.kubeflow.client import Backend
from qcnn.targets.kubeflow.submission import Submission


@click.command(help=STUDY_HELP)
@search_options
@parallelism_option
@wait_option
@sending_options
@backend_options
@source_options
@submission_options
@cost_options
@experiment_options
def study(
    search: SearchFlags,
    parallelism: int,
    wait: bool,
    sending: Sending,
    backend: Backend,
    source: Source,
    submission: Submission,
    cost: Cost,
    words: Words,
) -> None:
    """Run the study in a backend, several trials at the same time."""
    asked = read_study(search, words)
    compile_now = study_pipeline("kubeflow", parallelism)
    arguments = study_arguments(asked.arguments, asked.trials)
    create_run(
        *(compile_now, arguments, "qcnn-study", backend, source, submission, cost, asked.trials),
        wait=wait,
        sending=sending,
    )
