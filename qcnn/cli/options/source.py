"""Where a compiled pipeline comes from, as flags."""

from __future__ import annotations

from pathlib import Path

import click

from qcnn.cli.options.group import options_as
from qcnn.cli.packages import Source

# Gives a command the options that a `Source` is made of, and hands it `source`.
source_options = options_as(
    "source",
    Source,
    click.option(
        "--package",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Compiled pipeline, as compile.py writes it.  [default: compiled now]",
    ),
    click.option(
        "--image",
        metavar="IMAGE",
        help="Image of every step, if the pipeline is compiled now; pin a pushed image by its digest.  "
        "[default: that of --pod; in Kubeflow qcnn:latest]",
    ),
    click.option(
        "--pod",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Settings of the training's pods, if the pipeline is compiled now.",
    ),
)
