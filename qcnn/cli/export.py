"""qcnn export: a trained model as a version for servers."""

from __future__ import annotations

import click

from qcnn.cli.options.settings import format_option
from qcnn.cli.output import show


@click.command()
@click.argument("run", metavar="RUN")
@click.option("--output", required=True, metavar="MODEL", help="Folder or bucket URI of the versions of a model.")
@click.option(
    "--version",
    type=click.IntRange(1, 10**18 - 1),
    metavar="N",
    help="Number of the new version.  [default: the highest number + 1]",
)
@format_option
def export(run: str, output: str, version: int | None, output_format: str) -> None:
    """Export the model of RUN as a new version MODEL/N for TensorFlow Serving and qcnn serve.

    RUN is the folder of a run, a model, or a bucket URI of one. If the highest version is the same model, nothing is
    written.
    """
    # This import loads NumPy.
    from qcnn.serving.version_export import export_version

    exported = export_version(run, output, version)
    state = "created" if exported.is_new else "exists already, with this model"
    described = {"version": exported.number, "uri": exported.uri, "created": exported.is_new}
    show(output_format, described, f"version {exported.number} {state}: {exported.uri}")
