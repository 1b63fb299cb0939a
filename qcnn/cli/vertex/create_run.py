"""Runs a pipeline on Vertex AI: compiled now, or before, and with its parameters in their types."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from qcnn.cli.options.cost import Cost, check_package_cost
from qcnn.cli.options.form import Sending, alone_on_stdout, show_rows
from qcnn.cli.output import on_stderr
from qcnn.experiment import ExperimentConfig
from qcnn.jobs.vertex.location import Place, run_page
from qcnn.targets.compiled_pipeline import Compile, Source, compiled, read_package
from qcnn.targets.vertex.client import Vertex, as_json, id_of
from qcnn.targets.vertex.runs import add_to_experiment, check_succeeded, create, follow
from qcnn.targets.vertex.submission import Submission, check_bucket, run_request


def create_run(
    compile_now: Compile,
    arguments: Mapping[str, Any],
    name: str,
    place: Place,
    source: Source,
    submission: Submission,
    cost: Cost,
    trials: Sequence[ExperimentConfig],
    *,
    wait: bool,
    sending: Sending,
) -> None:
    """Run a pipeline and print its address; with `wait`, show the states of its steps until it has ended.

    A dry run prints the request, and asks nothing of a network. Without a name of its own the run is called `name` and
    the time. What training its `trials` is estimated to cost is said before.

    Raises:
        ConfigError: the pipeline cannot be run there, its bucket cannot be used, or it costs more than it may.
        BackendError: Vertex AI refuses, or does not answer.
        StepError: the run that was waited for failed.
    """
    with compiled(source, compile_now) as package:
        documents = read_package(package, "vertex")
        request = run_request(place, documents, arguments, name, submission)
    if sending.dry_run:
        click.echo(as_json(request))
        return
    check_package_cost(cost, "vertex", documents[0], trials)
    check_bucket(submission.pipeline_root, place, on_stderr)
    vertex = Vertex(place)
    run = create(vertex, request)
    show_rows(sending.form, {"run": id_of(run), "look at it": run_page(place, id_of(run))})
    if reason := add_to_experiment(vertex, submission.experiment, id_of(run)):
        click.echo(f"not in the console's experiment {submission.experiment}: {reason}", err=True)
    if wait:
        with alone_on_stdout(sending.form):
            check_succeeded(follow(vertex, id_of(run), click.echo))
