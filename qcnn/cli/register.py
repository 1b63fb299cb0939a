"""qcnn register: the model of a run as a version of a registered model."""

import contextlib
import dataclasses

import click

from qcnn.cli.options.registry import registry_option
from qcnn.cli.options.settings import format_option
from qcnn.cli.output import on_stderr, show
from qcnn.process.signals import terminated_as_interrupt


@click.command()
@click.argument("run", metavar="RUN")
@click.option("--name", required=True, metavar="NAME", help="Name of the model in the registry.")
@registry_option
@format_option
def register(run: str, name: str, registry: str | None, output_format: str) -> None:
    """Register the model of a run as a version, with its metrics and the digests of its data.

    RUN is the folder of a run or model, or the URI of one in a bucket. A model that is registered already keeps its
    version.
    """
    # These imports load NumPy.
    from qcnn.registry import registration
    from qcnn.registry.address import open_registry

    with terminated_as_interrupt(), contextlib.closing(open_registry(registry)) as opened:
        result = registration.register(opened, run, name)
    if result.note:
        on_stderr(result.note)
    state = "registered" if result.is_new else "registered already"
    show(output_format, dataclasses.asdict(result), f"{name}: version {result.version} is {state}")
