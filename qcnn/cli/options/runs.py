"""The folder of this machine's runs, and whether a run elsewhere is waited for, as flags."""

from pathlib import Path

import click

runs_option = click.option(
    "--runs", type=click.Path(path_type=Path), default=Path("runs"), show_default=True, help="Folder of runs."
)
wait_option = click.option(
    "--wait", is_flag=True, help="Show the steps' states until the run has ended; fail where it fails."
)
