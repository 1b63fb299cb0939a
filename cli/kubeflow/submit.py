"""qcnn submit --target kubeflow: the main pipeline in a backend."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from cli.kubeflow.backend import Backend, backend_options
from cli.kubeflow.create_run import Submission, submission_options, submit
from cli.options.experiment import Words, experiment_options


@click.command()
@click.option("--wait", is_flag=True, help="Show the steps' states until the run has ended; fail where it fails.")
@backend_options
@submission_options
@experiment_options
def submit_kubeflow(wait: bool, backend: Backend, submission: Submission, words: Words) -> None:
    """Run the pipeline in a Kubeflow backend, every word of the experiment in its type."""
    # Every word, so that the runs of an experiment can be compared.
    arguments = words.experiment().model_dump()
    submit(compile_main, arguments, "qcnn", backend, submission, wait=wait)


def compile_main(path: Path, image: str, settings: Mapping[str, Any]) -> None:
    """Write the main pipeline."""
    from pipelines.targets import compile_target

    compile_target("kubeflow", path, image, settings)
