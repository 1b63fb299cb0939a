"""qcnn submit --target kubeflow: the main pipeline in a backend."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from cli.kubeflow.backend import Backend, backend_options
from cli.kubeflow.create_run import Submission, create_run, submission_options, wait_option
from cli.options.experiment import Words, experiment_options


@click.command()
@wait_option
@backend_options
@submission_options
@experiment_options
def submit(wait: bool, backend: Backend, submission: Submission, words: Words) -> None:
    """Run the pipeline in a Kubeflow backend, every word of the experiment in its type."""
    # Every word, so that the runs of an experiment can be compared.
    arguments = words.experiment().model_dump()
    create_run(_compile, arguments, "qcnn", backend, submission, wait=wait)


def _compile(path: Path, image: str, settings: Mapping[str, Any]) -> None:
    from pipelines.compilation import compile_qcnn
    from pipelines.kubeflow.target import KUBEFLOW

    compile_qcnn(KUBEFLOW, path, image, settings)
