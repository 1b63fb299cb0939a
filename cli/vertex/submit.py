"""qcnn submit --target vertex: the main pipeline on Vertex AI."""

import click

from cli.options.experiment import Words, experiment_options
from cli.options.runs import wait_option
from cli.packages import Source, main_pipeline, source_options
from cli.vertex.service.connection import place_options
from cli.vertex.submitting.create_run import create_run, dry_run_option
from cli.vertex.submitting.submission import Submission, submission_options
from launchers.vertex.place import Place


@click.command()
@wait_option
@dry_run_option
@place_options
@source_options
@submission_options
@experiment_options
def submit(wait: bool, dry_run: bool, place: Place, source: Source, submission: Submission, words: Words) -> None:
    """Run the pipeline on Vertex AI, every word of the experiment in its type."""
    # Every word, so that the runs of an experiment can be compared.
    arguments = words.experiment().model_dump()
    create_run(main_pipeline("vertex"), arguments, "qcnn", place, source, submission, wait=wait, dry_run=dry_run)
