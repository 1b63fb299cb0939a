"""qcnn study: trials of an experiment with other words, the best one evaluated."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from cli.kubeflow.backend import Backend, backend_options
from cli.kubeflow.create_run import Submission, submission_options, submit
from cli.local.study import run_study
from cli.options.experiment import Words, experiment_options
from cli.options.runs import runs_option
from cli.options.search import KEYS, SearchFlags, search_options
from cli.run import summary
from trainer.config import from_mapping
from trainer.study.search import search_from_mapping
from trainer.study.trials import plan


@click.command()
@search_options
@click.option(
    "--target",
    type=click.Choice(["local", "kubeflow"]),
    default="local",
    show_default=True,
    help="What runs it; local takes one trial after the other.",
)
@runs_option
@click.option(
    "--parallelism", type=click.IntRange(1), default=2, show_default=True, help="Trials of a backend at the same time."
)
@click.option("--wait", is_flag=True, help="Show a backend's steps until the run has ended; fail where it fails.")
@backend_options
@submission_options
@experiment_options
def study(
    search: SearchFlags,
    target: str,
    runs: Path,
    parallelism: int,
    wait: bool,
    backend: Backend,
    submission: Submission,
    words: Words,
) -> None:
    """Search an experiment's words, on a grid or at random, and evaluate the trial with the lowest validation loss.

    The file of --config may hold grid, range and random beside the experiment's words. Each trial has a seed of its
    own, counted up from the experiment's, unless the seed is searched.
    """
    shared = words.mapping()
    searched = search.laid_over({key: shared.pop(key, None) for key in KEYS})
    trials = plan(shared, search_from_mapping(searched))
    if target == "local":
        folder, outputs = run_study(trials, runs)
        click.echo(summary(outputs, "--runs", str(folder)))
        return

    def compile_now(path: Path, image: str, settings: Mapping[str, Any]) -> None:
        from pipelines.targets import compile_study

        compile_study("kubeflow", path, image, settings, parallelism=parallelism)

    arguments = {
        "experiment": from_mapping(shared).model_dump(),
        "grid": searched["grid"] or {},
        "ranges": searched["range"] or {},
        "random": searched["random"] or 0,
    }
    submit(compile_now, arguments, "qcnn-study", backend, submission, wait=wait)
