"""How a pipeline is run in a backend, as flags."""

from __future__ import annotations

import click

from qcnn.cli.options.base import options_as
from qcnn.targets.kubeflow.submission import EXPERIMENT, Submission

# Gives a command the options that a `Submission` is made of, and hands it `submission`.
submission_options = options_as(
    "submission",
    Submission,
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
