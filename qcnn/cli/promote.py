"""qcnn promote: a label moves to a version that is better."""

import contextlib
import dataclasses

import click

from qcnn.cli.options.registry import registry_option
from qcnn.cli.options.settings import format_option
from qcnn.cli.output import NOT_PROMOTED, show
from qcnn.process.signals import terminated_as_interrupt
from qcnn.registry.defaults import CHAMPION, CONFIDENCE


@click.command()
@click.argument("name", metavar="NAME")
@click.option(
    "--to", "label", default=CHAMPION, show_default=True, metavar="LABEL", help="Label to move to the version."
)
@click.option("--version", type=click.IntRange(1), metavar="N", help="Version to promote.  [default: the highest one]")
@click.option(
    "--confidence",
    type=float,
    default=CONFIDENCE,
    show_default=True,
    metavar="PROBABILITY",
    help="Required probability that the version is better.",
)
@click.option(
    "--metric", metavar="NAME", help="Metric to compare: loss, accuracy, mse or brier_score.  [default: loss]"
)
@click.option(
    "--data",
    metavar="FILE",
    help="Labelled rows to compare with.  [default: test rows that both versions do not know, or fresh samples]",
)
@click.option("--force", is_flag=True, help="Move the label in any case, and record it.")
@registry_option
@format_option
def promote(
    name: str,
    label: str,
    version: int | None,
    confidence: float,
    metric: str | None,
    data: str | None,
    force: bool,
    registry: str | None,
    output_format: str,
) -> None:
    """Move a label to a version if it is better than the version that has the label.

    Both versions predict the same rows. The label moves if the candidate is better with the required probability in a
    paired bootstrap. The first version is promoted without a comparison. If the version is not better, the exit code
    is 3.
    """
    # These imports load NumPy.
    from qcnn.registry import gate
    from qcnn.registry.address import open_registry

    settings = gate.GateSettings(confidence, metric, data)
    with terminated_as_interrupt(), contextlib.closing(open_registry(registry)) as opened:
        result = gate.promote(opened, name, label, version, settings, force=force)
    show(output_format, dataclasses.asdict(result), result.text)
    if result.outcome == "rejected":
        raise SystemExit(NOT_PROMOTED)
