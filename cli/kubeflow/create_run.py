"""Runs a pipeline in a backend: compiled now, or before, and with its parameters in their types."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click
from tabulate import tabulate

from cli.kubeflow.backend import Backend, connect, quiet
from cli.kubeflow.follow import Asking, check_succeeded, follow, steps_of
from cli.kubeflow.refusals import explained
from cli.options.group import options_as
from components.image import IMAGE
from trainer.config import read_file
from trainer.errors import ConfigError, one_line

EXPERIMENT = "qcnn"

# Writes a pipeline to a path, every step in an image, with settings of the training's pods.
Compile = Callable[[Path, str, Mapping[str, Any]], None]


@dataclasses.dataclass(frozen=True)
class Submission:
    """How a pipeline is run in a backend; what is None is left to the backend."""

    package: Path | None = None
    image: str = IMAGE
    pod: Path | None = None
    experiment: str = EXPERIMENT
    run_name: str | None = None
    pipeline_root: str | None = None
    service_account: str | None = None
    caching: bool | None = None


wait_option = click.option(
    "--wait", is_flag=True, help="Show the steps' states until the run has ended; fail where it fails."
)

# Gives a command the options that a `Submission` is made of, and hands it `submission`.
submission_options = options_as(
    "submission",
    Submission,
    click.option(
        "--package",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Compiled pipeline, as compile.py writes it.  [default: compiled now]",
    ),
    click.option(
        "--image", default=IMAGE, show_default=True, help="Image of every step, if the pipeline is compiled now."
    ),
    click.option(
        "--pod",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Settings of the training's pods, if the pipeline is compiled now.",
    ),
    click.option(
        "--experiment",
        envvar="KF_PIPELINES_DEFAULT_EXPERIMENT_NAME",
        default=EXPERIMENT,
        show_default=True,
        metavar="NAME",
        help="Experiment of the backend that the run belongs to; created if there is none.",
    ),
    click.option("--run-name", metavar="NAME", help="Name of the run.  [default: the pipeline and the time]"),
    click.option("--pipeline-root", metavar="URL", help="Where artifacts go, such as gs://BUCKET/FOLDER."),
    click.option("--service-account", metavar="NAME", help="Kubernetes account that the steps run as."),
    click.option(
        "--caching/--no-caching", default=None, help="For all steps.  [default: as compiled, on but for training]"
    ),
)


def create_run(
    compile_now: Compile,
    arguments: Mapping[str, Any],
    name: str,
    backend: Backend,
    submission: Submission,
    *,
    wait: bool,
) -> None:
    """Run a pipeline in a backend and print its address; with `wait`, show the states of its steps until it has ended.

    Without a name of its own the run is called `name` and the time.

    Raises:
        BackendError: the backend refuses, or does not answer.
        StepError: the run that was waited for failed.
    """
    client = connect(backend)
    with compiled(submission, compile_now) as package:
        steps = steps_of(read_package(package)[0])
        with explained(backend.address), quiet():
            run = client.create_run_from_pipeline_package(
                str(package),
                arguments=dict(arguments),
                run_name=submission.run_name or f"{name}-{datetime.datetime.now():%Y-%m-%d-%H-%M-%S}",
                experiment_name=submission.experiment,
                namespace=backend.namespace,
                pipeline_root=submission.pipeline_root,
                enable_caching=submission.caching,
                service_account=submission.service_account,
            ).run_info
    rows = [("run", run.run_id), ("look at it", backend.page(f"runs/details/{run.run_id}"))]
    click.echo(tabulate(rows, tablefmt="plain", disable_numparse=True))
    if wait:
        ended = follow(Asking(client, backend, run.run_id), steps, click.echo)
        check_succeeded(ended, steps)


@contextlib.contextmanager
def compiled(submission: Submission, compile_now: Compile) -> Iterator[Path]:
    """Yield a compiled pipeline: the file that is given, or one made now."""
    if submission.package:
        yield submission.package
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "pipeline.yaml")
        settings = read_file(submission.pod, "pod") if submission.pod else {}
        with quiet():
            compile_now(path, submission.image, settings)
        yield path


def read_package(package: Path) -> list[dict[str, Any]]:
    """Return the documents of a compiled pipeline, first the pipeline, then what a platform adds.

    Raises:
        ConfigError: the file holds no pipeline.
    """
    import yaml

    try:
        documents = [dict(document) for document in yaml.safe_load_all(package.read_text(encoding="utf-8"))]
        if documents and "tasks" in documents[0]["root"]["dag"]:
            return documents
        reason = "no pipeline in it"
    except (OSError, ValueError, TypeError, LookupError, yaml.YAMLError) as error:
        reason = one_line(error)
    raise ConfigError(f"package: must be a pipeline that compile.py wrote ({reason}). Given: {package}")
