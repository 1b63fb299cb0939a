"""Runs a pipeline in a backend: compiled now, or before, and with its parameters in their types."""

from __future__ import annotations

import dataclasses
import datetime
import json
from collections.abc import Mapping, Sequence
from typing import Any

import click

from qcnn.cli.options.cost import Cost, check_package_cost
from qcnn.cli.options.form import Sending, alone_on_stdout, show_rows
from qcnn.experiment import ExperimentConfig
from qcnn.targets.compiled_pipeline import Compile, Source, check_arguments, compiled, read_package, steps_of
from qcnn.targets.kubeflow.client import Backend, connect
from qcnn.targets.kubeflow.runs import Asking, check_succeeded, follow
from qcnn.targets.kubeflow.submission import Submission, create, request


def create_run(
    compile_now: Compile,
    arguments: Mapping[str, Any],
    name: str,
    backend: Backend,
    source: Source,
    submission: Submission,
    cost: Cost,
    trials: Sequence[ExperimentConfig],
    *,
    wait: bool,
    sending: Sending,
) -> None:
    """Run a pipeline in a backend and print its address; with `wait`, show the states of its steps until it has ended.

    A dry run prints the request, and asks nothing of a network. Without a name of its own the run is called `name` and
    the time. What training its `trials` is estimated to cost is said before.

    Raises:
        ConfigError: the file holds no pipeline, or it costs more than it may.
        BackendError: the backend refuses, or does not answer.
        StepError: the run that was waited for failed.
    """
    run_name = submission.run_name or f"{name}-{datetime.datetime.now():%Y-%m-%d-%H-%M-%S}"
    with compiled(source, compile_now) as package:
        documents = read_package(package, "kubeflow")
        check_arguments(documents[0], arguments)
        if sending.dry_run:
            click.echo(json.dumps(request(documents, arguments, run_name, backend, submission), indent=2))
            return
        client = connect(backend)
        check_package_cost(cost, "kubeflow", documents[0], trials)
        steps = steps_of(documents[0])
        run = create(client, package, arguments, backend, dataclasses.replace(submission, run_name=run_name))
    show_rows(sending.form, {"run": run, "look at it": backend.page(f"runs/details/{run}")})
    if wait:
        with alone_on_stdout(sending.form):
            ended = follow(Asking(client, backend, run), steps, click.echo)
        check_succeeded(ended, steps)
