"""How a pipeline is run on Vertex AI, as flags."""

from __future__ import annotations

import click

from qcnn.cli.options.base import options_as
from qcnn.targets.vertex.submission import EXPERIMENT, Submission

# Gives a command the options that a `Submission` is made of, and hands it `submission`.
submission_options = options_as(
    "submission",
    Submission,
    click.option(
        "--pipeline-root", required=True, metavar="URL", help="Where artifacts go, such as gs://BUCKET/FOLDER."
    ),
    click.option(
        "--experiment",
        default=EXPERIMENT,
        show_default=True,
        metavar="NAME",
        help="What the run belongs to; a label of it.",
    ),
    click.option("--run-name", metavar="NAME", help="Name of the run.  [default: the pipeline and the time]"),
    click.option("--service-account", metavar="ADDRESS", help="Google service account that the steps run as."),
    click.option("--network", metavar="NAME", help="Network to peer with, as projects/NUMBER/global/networks/NAME."),
    click.option("--label", "labels", metavar="KEY=VALUE", multiple=True, help="Label of the run; may come often."),
    click.option(
        "--caching/--no-caching", default=None, help="For all steps.  [default: as compiled, on but for training]"
    ),
)
