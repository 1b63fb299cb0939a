"""qcnn study --target kubeflow: all trials as one run of a backend."""

import click

from cli.kubeflow.backend import Backend, backend_options
from cli.kubeflow.create_run import Submission, create_run, submission_options
from cli.options.experiment import Words, experiment_options
from cli.options.runs import wait_option
from cli.options.search import STUDY_HELP, SearchFlags, read_study, search_options
from cli.packages import Source, source_options, study_pipeline
from pipelines.parameters import PARALLELISM


@click.command(help=STUDY_HELP)
@search_options
@click.option(
    "--parallelism", type=click.IntRange(1), default=PARALLELISM, show_default=True, help="Trials at the same time."
)
@wait_option
@backend_options
@source_options
@submission_options
@experiment_options
def study(
    search: SearchFlags,
    parallelism: int,
    wait: bool,
    backend: Backend,
    source: Source,
    submission: Submission,
    words: Words,
) -> None:
    """Run the study in a backend, several trials at the same time."""
    asked = read_study(search, words)

    arguments = {
        "experiment": asked.shared,
        "grid": asked.search["grid"] or {},
        "ranges": asked.search["range"] or {},
        "random": asked.search["random"] or 0,
    }
    create_run(study_pipeline("kubeflow", parallelism), arguments, "qcnn-study", backend, source, submission, wait=wait)
