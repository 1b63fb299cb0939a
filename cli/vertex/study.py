"""qcnn study --target vertex: all trials as one run of Vertex AI."""

import click

from cli.options.experiment import Words, experiment_options
from cli.options.runs import wait_option
from cli.options.search import STUDY_HELP, SearchFlags, parallelism_option, read_study, search_options
from cli.packages import Source, source_options, study_pipeline
from cli.vertex.create_run import create_run, dry_run_option
from cli.vertex.service.connection import place_options
from cli.vertex.submission import Submission, submission_options
from launchers.vertex.place import Place


@click.command(help=STUDY_HELP)
@search_options
@parallelism_option
@wait_option
@dry_run_option
@place_options
@source_options
@submission_options
@experiment_options
def study(
    search: SearchFlags,
    parallelism: int,
    wait: bool,
    dry_run: bool,
    place: Place,
    source: Source,
    submission: Submission,
    words: Words,
) -> None:
    """Run the study on Vertex AI, several trials at the same time."""
    arguments = read_study(search, words).arguments
    compile_now = study_pipeline("vertex", parallelism)
    create_run(compile_now, arguments, "qcnn-study", place, source, submission, wait=wait, dry_run=dry_run)
