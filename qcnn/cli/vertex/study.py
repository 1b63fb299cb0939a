"""qcnn study --target vertex: all trials as one run of Vertex AI."""

import click

from qcnn.cli.options.cost import Cost, cost_options
from qcnn.cli.options.experiment import Words, experiment_options
from qcnn.cli.options.form import Sending, sending_options
from qcnn.cli.options.search import STUDY_HELP, SearchFlags, parallelism_option, read_study, search_options
from qcnn.cli.options.settings import place_options, source_options, wait_option
from qcnn.cli.options.vertex_submission import submission_options
from qcnn.cli.vertex.create_run import create_run
from qcnn.jobs.vertex.location import Place
from qcnn.jobs.vertex.settings import DEFAULT, RULES
from qcnn.studies.search import search_from_mapping
from qcnn.studies.trials import shared_experiment
from qcnn.targets.compiled_pipeline import Source, study_arguments, study_pipeline, tuning_pipeline
from qcnn.targets.vertex.submission import Submission


@click.command(help=STUDY_HELP)
@search_options
@parallelism_option
@wait_option
@sending_options
@click.option(
    "--tuner",
    type=click.Choice(["vizier"]),
    help="Let this one choose each trial by those before, in a tuning job.  [default: the trials of the search]",
)
@click.option(
    "--early-stopping",
    "stopping",
    type=click.Choice(RULES),
    default=DEFAULT,
    show_default=True,
    help="By which rule --tuner ends a trial that will not be the best.",
)
@place_options
@source_options
@submission_options
@cost_options
@experiment_options
def study(
    search: SearchFlags,
    parallelism: int,
    wait: bool,
    sending: Sending,
    tuner: str | None,
    stopping: str,
    place: Place,
    source: Source,
    submission: Submission,
    cost: Cost,
    words: Words,
) -> None:
    """Run the study on Vertex AI, several trials at the same time."""
    asked = read_study(search, words)
    compile_now = study_pipeline("vertex", parallelism)
    name = "qcnn-study"
    if tuner:
        shared_experiment(asked.shared, search_from_mapping(asked.search))
        compile_now = tuning_pipeline("vertex", parallelism, stopping)
        name = "qcnn-tuning"
    arguments = study_arguments(asked.arguments, asked.trials)
    create_run(
        *(compile_now, arguments, name, place, source, submission, cost, asked.trials),
        wait=wait,
        sending=sending,
    )
