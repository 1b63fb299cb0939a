"""qcnn submit --target vertex: the main pipeline on Vertex AI."""

import click

from qcnn.cli.options.cost import Cost, cost_options
from qcnn.cli.options.experiment import Words, experiment_options
from qcnn.cli.options.form import Sending, sending_options
from qcnn.cli.options.settings import place_options, source_options, wait_option
from qcnn.cli.options.vertex_submission import submission_options
from qcnn.cli.vertex.create_run import create_run
from qcnn.jobs.vertex.location import Place
from qcnn.targets.compiled_pipeline import Source, main_arguments, main_pipeline
from qcnn.targets.vertex.submission import Submission


@click.command()
@wait_option
@sending_options
@place_options
@source_options
@submission_options
@cost_options
@experiment_options
def submit(
    wait: bool,
    sending: Sending,
    place: Place,
    source: Source,
    submission: Submission,
    cost: Cost,
    words: Words,
) -> None:
    """Run the pipeline on Vertex AI, every word of the experiment in its type."""
    experiment = words.experiment()
    compile_now, arguments = main_pipeline("vertex"), main_arguments(experiment)
    trials = [experiment]
    create_run(compile_now, arguments, "qcnn", place, source, submission, cost, trials, wait=wait, sending=sending)
