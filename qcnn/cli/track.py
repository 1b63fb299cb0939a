"""qcnn track: runs that are sent to a tracking server from their folders."""

from __future__ import annotations

import os
from pathlib import Path

import click

from qcnn.cli.options.experiment import complete_run
from qcnn.cli.options.settings import format_option, runs_option, tracking_option
from qcnn.cli.output import show
from qcnn.errors import ConfigError
from qcnn.process.extras import check_library
from qcnn.process.signals import terminated_as_interrupt
from qcnn.tracking.destination import VARIABLE, destination_in


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="RUN...", shell_complete=complete_run)
@runs_option
@tracking_option
@format_option
def track(names: tuple[str, ...], runs: Path, output_format: str) -> None:
    """Send runs to a tracking server, also those that it has in part.

    RUN is a local run or study, or the folder of the outputs of a training job, such as gs://BUCKET/FOLDER/JOB.
    """
    destination = destination_in(os.environ)
    if destination is None:
        raise ConfigError(f"tracking: must be given by --tracking or {VARIABLE}. Given: none")
    check_library("mlflow")
    # This import loads NumPy.
    from qcnn.tracking.recorded import SentRun, send_recorded

    sent: list[SentRun] = []
    with terminated_as_interrupt():
        for name in names:
            local = Path(name) if Path(name).exists() else runs / name
            sent += send_recorded(str(local) if local.exists() else name, destination)
    lines = [f"{run.name}: run {run.run_id} on {destination.display_name}" for run in sent]
    show(output_format, {"runs": [{"name": run.name, "run_id": run.run_id} for run in sent]}, "\n".join(lines))
